"""The folders of local sessions: one tree per run that ends with it, one folder per storage claim that stays.

    <data>/sessions/<pod>/root           the session's root; mounts appear below it at their own paths
    <data>/sessions/<pod>/root/home/work HOME: a link to a claim, or a folder that ends with the run
    <data>/sessions/<pod>/tmp            temporary and runtime files
    <data>/volumes/<claim>               a claim

Guarantees: a claim's folder belongs to the pod that may write it, and to the operator alone between runs; a pod that
may only read reaches it through the claim's group (`readonly` keeps it from writing). Nothing follows a link that a
session made. A claim that is given up is out of reach at once, and listed until nothing of it is left.
Refuses: mount paths inside one another; to remove anything whose name is not a claim's.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cluster.operator.store import write_atomically
from cluster.operator.substrates.local.users import CLAIM_NUMBERS, free_number
from gshare_core.contract import CLAIM_PATTERN, Mount, SessionSpec, VolumeRow

log = logging.getLogger(__name__)

HOME = PurePosixPath("/home/work")
_GOING = ".going-"  # before a claim's name: it is given up, and being removed


class MountsError(ValueError):
    """The mounts of a document cannot be laid out as folders."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Where a pod's folders are."""

    base: Path
    sockets: Path

    @property
    def root(self) -> Path:
        return self.base / "root"

    @property
    def home(self) -> Path:
        return self.root / HOME.relative_to("/")

    @property
    def tmp(self) -> Path:
        return self.base / "tmp"


class Folders:
    """Makes and clears the folders. `data` and `sockets` must be passable by the pods' users."""

    def __init__(self, data: Path, sockets: Path) -> None:
        self._sessions = data / "sessions"
        self._volumes = data / "volumes"
        self._sockets = sockets
        data.mkdir(parents=True, exist_ok=True)
        for folder in (self._sessions, self._volumes, sockets):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o711)

    @property
    def passable(self) -> Path:
        """A folder that every pod's user may pass."""
        return self._sessions

    def tree(self, pod: str) -> Tree:
        """The folders of a pod. Sockets lie in a short path of their own: it must stay below 108 bytes."""
        return Tree(self._sessions / pod, self._sockets / pod[-24:])

    def prepare(self, pod: str, spec: SessionSpec, uid: int | None, *, close: bool = False) -> None:
        """Make the pod's tree and link its claims. May be called again. Raises `MountsError`.

        With `close` the claims that it may only read are closed to writing by their owner and modes.
        """
        mounts = {PurePosixPath(mount.mount_path): mount for mount in spec.volumes}
        for path in mounts:
            if any(parent in mounts for parent in path.parents):
                raise MountsError(f"the mount path {path} lies inside another one")
        tree = self.tree(pod)
        tree.base.mkdir(exist_ok=True)
        tree.base.chmod(0o711)
        for folder, mode in ((tree.root, 0o755), (tree.tmp, 0o700), (tree.sockets, 0o700)):
            folder.mkdir(exist_ok=True)
            _give(folder, uid, uid, mode)
        for path, mount in mounts.items():
            self._link(tree.root, path, self._claim(mount, uid, close=close and mount.read_only))
        if HOME not in mounts:
            tree.home.mkdir(parents=True, exist_ok=True)
            _give(tree.home, uid, uid, 0o750)

    def read_only(self, spec: SessionSpec) -> tuple[Path, ...]:
        """The folders of the claims that the pod may only read."""
        return tuple(self._volumes / mount.claim for mount in spec.volumes if mount.read_only)

    def groups(self, spec: SessionSpec, uid: int | None) -> list[int]:
        """The groups of the claims that the pod mounts."""
        if uid is None:
            return []
        return sorted({(self._volumes / mount.claim).stat().st_gid for mount in spec.volumes} - {0})

    def clear(self, pod: str, spec: SessionSpec | None, *, separate: bool) -> None:
        """Remove the pod's tree; its claims' folders stay and belong to the operator alone."""
        tree = self.tree(pod)
        for mount in spec.volumes if spec and separate else ():
            claim = self._volumes / mount.claim
            if claim.exists() and not mount.read_only:
                _give(claim, 0, None, 0o2750)
        for folder in (tree.base, tree.sockets):
            if folder.exists():
                shutil.rmtree(folder)

    def volumes(self) -> list[VolumeRow]:
        """Every claim that exists."""
        found = [*self._volumes.glob("vol-*"), *self._volumes.glob(f"{_GOING}vol-*")]
        claims = {folder.name.removeprefix(_GOING) for folder in found if folder.is_dir() and not folder.is_symlink()}
        return [VolumeRow(claim=claim, size_gib=self._size_gib(claim)) for claim in sorted(claims)]

    def give_up(self, claim: str) -> bool:
        """Put a claim out of reach; whether something of it is left to be removed (`clear_given_up`).

        Raises ValueError for a name that is not a claim's.
        """
        if not re.fullmatch(CLAIM_PATTERN, claim):
            raise ValueError(f"{claim!r} is not the name of a claim")
        folder, going = self._volumes / claim, self._volumes / f"{_GOING}{claim}"
        if folder.is_symlink():
            folder.unlink()
        elif folder.exists() and not going.exists():
            folder.rename(going)
            log.info("claim %s is given up", claim)
        return going.exists()

    def clear_given_up(self, claim: str) -> None:
        """Remove what is left of a claim that was given up. Takes as long as it has files; may be called again."""
        _remove(self._volumes / f"{_GOING}{claim}")
        if not (self._volumes / claim).exists():
            self._size_file(claim).unlink(missing_ok=True)

    def _link(self, root: Path, path: PurePosixPath, claim: Path) -> None:
        link = root / path.relative_to("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(claim)

    def _claim(self, mount: Mount, uid: int | None, *, close: bool) -> Path:
        folder = self._volumes / mount.claim
        if not folder.exists():
            folder.mkdir(mode=0o700)
        if self._size_gib(mount.claim) < mount.size_gib:
            write_atomically(self._size_file(mount.claim), json.dumps({"size_gib": mount.size_gib}))
        if uid is not None:
            group = folder.stat().st_gid or free_number(CLAIM_NUMBERS, self._claim_groups(), start=self._volumes)
            owner = folder.stat().st_uid if mount.read_only else uid
            owner = 0 if close else owner
            # One writer (the gate's rule): its files are readable by the group. Many writers: the group writes too.
            shared = mount.access_mode == "ReadWriteMany"
            _give(folder, owner, group, 0o2770 if shared else 0o2750)
            if close or not mount.read_only:
                _give_content(folder, owner, group, close=close)
        return folder

    def _claim_groups(self) -> set[int]:
        return {folder.stat().st_gid for folder in self._volumes.iterdir()}

    def _size_file(self, claim: str) -> Path:
        return self._volumes / f".{claim}.json"

    def _size_gib(self, claim: str) -> int:
        try:
            return int(json.loads(self._size_file(claim).read_text())["size_gib"])
        except (OSError, ValueError, KeyError):
            return 0


def shares_writing(mounts: Iterable[Mount]) -> bool:
    """Whether files must be writable by their group: the pod writes to a claim that others write too."""
    return any(mount.access_mode == "ReadWriteMany" and not mount.read_only for mount in mounts)


def closes_by_owner(mounts: Iterable[Mount], uid: int | None) -> bool:
    """Whether ownership alone keeps a pod from writing what it may only read: a user of its own, and nobody writes it."""
    return uid is not None and not any(mount.read_only and mount.access_mode == "ReadWriteMany" for mount in mounts)


def _give(path: Path, uid: int | None, gid: int | None, mode: int) -> None:
    if os.geteuid() == 0:
        os.chown(path, -1 if uid is None else uid, -1 if gid is None else gid, follow_symlinks=False)
    path.chmod(mode)


def _give_content(folder: Path, uid: int, gid: int, *, close: bool) -> None:
    """Hand over everything in a folder without following links; runs while no pod writes it.

    With `close` nobody but the owner may write it any more, whatever its last writer allowed.
    """
    for _, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, uid, gid, dir_fd=handle, follow_symlinks=False)
            mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
            if close and not stat.S_ISLNK(mode) and mode & 0o022:
                os.chmod(name, stat.S_IMODE(mode) & ~0o022, dir_fd=handle)


def _remove(folder: Path) -> None:
    """Remove a tree, also where a session took its own right to its folders away. Follows no link."""
    try:
        shutil.rmtree(folder)
    except PermissionError:
        _open_up(folder)
        shutil.rmtree(folder)


def _open_up(folder: Path) -> None:
    """Give the owner back his right to every folder of a tree; the walk goes into each after it was opened."""
    folder.chmod(0o700)
    for _, folders, _, handle in os.fwalk(folder, follow_symlinks=False):
        for name in folders:
            if not stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                os.chmod(name, 0o700, dir_fd=handle)
