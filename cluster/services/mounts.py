"""Volumes in sessions: who may mount what, holding it, letting go.

Guarantees: a single-writer volume has one holder, of any session, because its open attachment is unique; an orphaned run
keeps its attachments, and while it does nobody else gets the volume, not even the session itself; deleting a volume and
attaching it exclude each other. An unknown volume answers like a foreign one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext as _

from cluster.models import Attachment, Volume
from cluster.volumes import ACCESS_MODES
from gshare_core.contract import Mount
from gshare_core.errors import DomainError
from gshare_core.kit.locks import Rank, attempt, note, share_rows
from gshare_core.kit.rows import Prepared, sample, update
from gshare_core.verdicts import Gate

_HELD = Prepared(
    lambda run: (
        Attachment.objects.filter(run_id=run, released_at=None).order_by("volume_id").select_for_update(no_key=True)
    ),
    sample(1),
)


def attach(*, session_id: UUID, run_id: UUID, mounts: Iterable[Mapping[str, str]], at: datetime) -> None:
    """Hold the volumes of a run: `mounts` are ``{"volume", "path", "mode"}`` as a session keeps them.

    Locks VOLUME (FOR SHARE) and ATTACHMENT. Raises DomainError `mount_conflict` when a single-writer volume has a holder
    (the UNIQUE index decides, after waiting for a rival), `mount_forbidden` when a volume was deleted meanwhile.
    """
    wanted = {UUID(str(mount["volume"])): mount for mount in mounts}
    if not wanted:
        return
    volumes = {volume.pk: volume for volume in share_rows(Rank.VOLUME, Volume.objects.live().filter(pk__in=wanted))}
    for volume_id in sorted(wanted, key=str):
        volume = volumes.get(volume_id)
        if volume is None:
            raise unknown_volume()
        note(Rank.ATTACHMENT, volume_id)
        attachment = Attachment(
            volume=volume,
            session_id=session_id,
            run_id=run_id,
            path=wanted[volume_id]["path"],
            mode=wanted[volume_id]["mode"],
            is_sole=volume.is_single_writer,
            attached_at=at,
        )
        try:
            with attempt():
                attachment.save(force_insert=True)
        except IntegrityError as error:
            raise _conflict(volume) from error


def release_attachments(run_id: UUID, *, at: datetime) -> int:
    """Let go of what a run mounts; how many volumes that were. Locks ATTACHMENT."""
    held = _HELD(run_id)
    for attachment in held:
        note(Rank.ATTACHMENT, attachment.volume_id)
        attachment.released_at = max(at, attachment.attached_at)
        update(attachment, ["released_at"])
    return len(held)


def volume_mounts(mounts: Iterable[Mapping[str, str]]) -> tuple[Mount, ...]:
    """The mounts of a session as its desired document says them, in the order given."""
    wanted = list(mounts)
    volumes = Volume.objects.in_bulk([UUID(str(mount["volume"])) for mount in wanted])
    return tuple(_mount(volumes[UUID(str(mount["volume"]))], mount) for mount in wanted)


def _mount(volume: Volume, mount: Mapping[str, str]) -> Mount:
    return Mount(
        claim=volume.claim,
        mount_path=mount["path"],
        read_only=mount["mode"] == "ro" or volume.access == Volume.Access.ROX,
        size_gib=volume.size_gib,
        storage_class=volume.storage_class,
        access_mode=ACCESS_MODES[volume.access],
    )


def unknown_volume() -> DomainError:
    """What does not exist, what is not yours and what was deleted look the same."""
    return DomainError(
        "mount_forbidden",
        _("There is no such volume, or you may not mount it like this."),
        remedy=_("Choose one of your volumes, or ask its owner to share it with you."),
        gate=Gate.MOUNTS,
    )


def _conflict(volume: Volume) -> DomainError:
    return DomainError(
        "mount_conflict",
        _("The volume %(name)s is mounted by another session, and one session at a time may write it.")
        % {"name": volume.name},
        remedy=_("Stop or pause that session first, or start without the volume."),
        gate=Gate.MOUNTS,
        facts={"volume": str(volume.pk)},
    )
