"""The file that is a local pod: while it exists, the pod exists.

Guarantees: written before anything of the pod is made and removed after everything of it is gone; it survives the
operator. A file that cannot be read still counts as a pod, since absence would mean gone.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ValidationError

from cluster.operator.store import sync_folder, write_atomically
from cluster.operator.substrates.local.processes import Process
from gshare_core.contract import Reason, SessionSpec, session_name, session_of_name

log = logging.getLogger(__name__)

_FOLDER = re.compile(r"(s-[0-9a-f]{32})\.([1-9]\d{0,8})")
_TAIL_BYTES = 1500
_LOG_LIMIT_BYTES = 4 * 1024 * 1024


class AppRecord(BaseModel):
    """One application: where it listens, the shim that runs it (pid and start ticks), what happened to it."""

    name: str
    endpoint: str | None = None
    pid: int | None = None
    started: int = 0
    answered: bool = False
    crashes: int = 0
    retry_at: AwareDatetime | None = None
    missing: str | None = None

    @property
    def shim(self) -> Process | None:
        return Process(self.pid, self.started) if self.pid is not None else None


class PodRecord(BaseModel):
    """One run: its document, where it was put, its applications, how it ended. Mutable; `PodFile.save` keeps it."""

    spec: SessionSpec
    node: str
    cards: tuple[str, ...] = ()
    uid: int | None = None
    host_life: str
    prepared: bool = False
    closed_by_owner: bool = False  # read-only volumes are kept by owner and mode, not by mounts
    apps: list[AppRecord] = []
    crashed_at: list[AwareDatetime] = []
    words: str = ""
    exited_at: AwareDatetime | None = None
    stopping_since: AwareDatetime | None = None
    trouble_reason: Reason | None = None
    trouble: str = ""
    lost: Reason | None = None

    @property
    def ended(self) -> bool:
        """Nothing of it is to be started again."""
        return bool(self.exited_at or self.stopping_since or self.trouble_reason or self.lost)


@dataclass(frozen=True, slots=True)
class PodFile:
    """The folder of one pod in the operator's state: record, exit statuses and logs; the session cannot reach it."""

    folder: Path
    session: UUID
    run: int

    @classmethod
    def of(cls, pods: Path, session: UUID, run: int) -> PodFile:
        return cls(pods / f"{session_name(session)}.{run}", session, run)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def mark(self) -> str:
        """What the pod's processes carry: unlike those of any other operator's pods, also of the same session."""
        return f"{self.name}@{hashlib.sha256(os.fsencode(self.folder.parent.resolve())).hexdigest()[:16]}"

    @property
    def exists(self) -> bool:
        return self._file.exists()

    @property
    def _file(self) -> Path:
        return self.folder / "pod.json"

    def load(self) -> PodRecord | None:
        """The record, or None when the file cannot be read."""
        try:
            return PodRecord.model_validate_json(self._file.read_bytes())
        except (ValidationError, OSError):
            log.exception("pod %s has an unreadable record", self.name)
            return None

    def save(self, record: PodRecord) -> None:
        """Keep the record, durably."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._file, record.model_dump_json(by_alias=True))

    def delete(self) -> None:
        """Forget the pod. The record goes first: a folder without one is no pod."""
        self._file.unlink(missing_ok=True)
        sync_folder(self.folder)
        shutil.rmtree(self.folder)

    def log_path(self, app: str) -> Path:
        return self.folder / f"{app}.log"

    def exit_path(self, app: str) -> Path:
        return self.folder / f"{app}.exit"

    def exit_of(self, app: str) -> tuple[int, datetime] | None:
        """The exit status that the application's shim wrote, and when; None when it wrote none."""
        from_shim = self.exit_path(app)
        try:
            text, changed = from_shim.read_text().strip(), from_shim.stat().st_mtime
        except FileNotFoundError:
            return None
        return (int(text), _utc(changed)) if text.isdigit() else None

    def last_words(self, app: str) -> str:
        """The end of what the application said."""
        try:
            with self.log_path(app).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                return file.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def bound_log(self, app: str) -> None:
        """Empty a log that has grown too long; its writer appends, so it goes on at the start."""
        path = self.log_path(app)
        if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
            with path.open("r+b") as file:
                file.truncate(0)


def pod_files(pods: Path) -> Iterator[PodFile]:
    """Every pod in the operator's state. A folder that lost its record while being deleted is cleared away."""
    for folder in sorted(pods.iterdir()):
        match = _FOLDER.fullmatch(folder.name)
        if match is None:
            continue
        file = PodFile(folder, session_of_name(match[1]), int(match[2]))
        if file.exists:
            yield file
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
