"""Volumes: making, growing, sharing, deleting, taking back a deletion.

Guarantees: what is stored stays within `storage_gib` of everybody whom it counts for, whoever asks at once (the scopes'
names are locked before they are summed); a volume in use is not deleted; a deletion can be taken back for `volume_undo`,
during which it still takes space and counts; volumes only grow. Who may not see a volume gets the answer of one that does
not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts import audit
from accounts import queries as accounts
from accounts.domain.policies import Kind, Limit
from accounts.domain.rights import Standing, Target
from accounts.permissions import Act, may, visible_groups
from cluster.models import Volume
from cluster.services.authority import held_standing
from cluster.visibility import visible_clusters
from cluster.volumes import may_manage, used_storage, visible_volumes
from gshare_core.contract import claim_name
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, attempt, lock_name, lock_row, ordered
from gshare_core.kit.names import WORDS, is_name

if TYPE_CHECKING:
    from accounts.models import Group, User

FIELD = "storage_gib"
MAX_GIB = 1_048_576
HOME_NAME = "home"
HOME_GIB = 10


@dataclass(frozen=True, slots=True)
class VolumeWish:
    """What somebody wants to have; with a group it is the group's."""

    name: str
    kind: str
    access: str
    size_gib: int
    cluster_id: UUID
    group_id: UUID | None = None


def create_volume(*, by: User, wish: VolumeWish) -> Volume:
    """Make a volume; its claim is made on the cluster when a session mounts it first.

    Raises DomainError: `invalid`, `forbidden`, `not_found` (cluster, group), `quota_exceeded`, `conflict` (name).
    """
    _check(wish)
    with ordered():
        standing = held_standing(by)
        group = _group(by, standing, wish.group_id)
        may(standing, Act.OWN_WORK).require()
        _hold_quota(by.pk, wish.group_id, wish.size_gib)
        lock_name(Rank.VOLUME, f"cluster:{wish.cluster_id}")  # against its removal
        cluster = visible_clusters(by).filter(pk=wish.cluster_id).first()
        if cluster is None:
            raise not_found("cluster")
        at = clock.now()
        volume = Volume(
            name=wish.name.strip(),
            kind=wish.kind,
            access=wish.access,
            size_gib=wish.size_gib,
            cluster=cluster,
            owner=None if group else by,
            group=group,
            storage_class=cluster.storage_classes.get(wish.kind, ""),
            created_by=by,
            created_at=at,
        )
        volume.claim = claim_name(volume.pk)
        _save_named(volume)
        record_volume(by, "volume.create", volume, at, {"kind": wish.kind, "size_gib": wish.size_gib})
    return volume


def ensure_home(*, by: User, cluster_id: UUID, size_gib: int = HOME_GIB) -> Volume:
    """The person's oldest home volume on a cluster, made when there is none. Raises as `create_volume`."""
    homes = Volume.objects.live().filter(owner=by, cluster_id=cluster_id, kind=Volume.Kind.HOME)
    found = homes.order_by("created_at", "pk").first()
    if found is not None:
        return found
    wish = VolumeWish(HOME_NAME, Volume.Kind.HOME, Volume.Access.RWO, size_gib, cluster_id)
    try:
        return create_volume(by=by, wish=wish)
    except DomainError as error:
        # Two windows at once: the other one made it.
        rival = homes.order_by("created_at", "pk").first() if error.code == "conflict" else None
        if rival is None:
            raise
        return rival


def change_volume(*, by: User, volume_id: UUID, name: str | None = None, size_gib: int | None = None) -> Volume:
    """Rename a volume, or let it grow.

    Raises DomainError: `not_found`, `forbidden`, `invalid` (smaller than it is), `quota_exceeded`, `conflict`.
    """
    with ordered():
        standing = held_standing(by)
        seen = _seen(by, volume_id)
        may_manage_or_refuse(standing, seen)
        if size_gib is not None and size_gib > seen.size_gib:
            _hold_quota(seen.owner_id or by.pk, seen.group_id, size_gib - seen.size_gib)
        volume = _locked(volume_id)
        before = {"name": volume.name, "size_gib": volume.size_gib}
        if size_gib is not None:
            _check_growth(seen, volume, size_gib)
            volume.size_gib = size_gib
        if name is not None:
            volume.name = _plain_name(name)
        _save_named(volume)
        record_volume(
            by, "volume.change", volume, clock.now(), {"name": volume.name, "size_gib": volume.size_gib}, before
        )
    return volume


def delete_volume(*, by: User, volume_id: UUID) -> Volume:
    """Delete a volume, to be taken back within `volume_undo`. Raises `not_found`, `forbidden`, `in_use`."""
    with ordered():
        standing = held_standing(by)
        volume = locked_for(by, standing, volume_id)
        if volume.attachments.filter(released_at=None).exists():
            raise DomainError(
                "in_use",
                _("The volume is mounted by a session."),
                remedy=_("Stop or pause the sessions that mount it first."),
            )
        at = clock.now()
        volume.deleted_at = max(at, volume.created_at)
        volume.save(update_fields=["deleted_at"])
        record_volume(by, "volume.delete", volume, at, {})
    return volume


def restore_volume(*, by: User, volume_id: UUID) -> Volume:
    """Take a deletion back. Raises `not_found` when it is too late, `forbidden`, `conflict` when the name is in use."""
    with ordered():
        standing = held_standing(by)
        seen = visible_volumes(by).stored().filter(pk=volume_id).first()
        if seen is None:
            raise not_found("volume")
        may_manage_or_refuse(standing, seen)
        volume = lock_row(Rank.VOLUME, Volume.objects.stored().filter(pk=volume_id))
        at = clock.now()
        if volume is None or (volume.deleted_at is not None and at >= volume.deleted_at + settings.GSHARE.volume_undo):
            raise not_found("volume")
        if volume.deleted_at is not None:
            volume.deleted_at = None
            _save_named(volume)
            record_volume(by, "volume.restore", volume, at, {})
    return volume


def purge_volumes(*, at: datetime, limit: int = 500) -> int:
    """Give up for good what was deleted longer ago than `volume_undo`; the clusters then remove the claims. A tick."""
    due = Volume.objects.stored().filter(deleted_at__lte=at - settings.GSHARE.volume_undo)
    purged = 0
    for volume_id in due.order_by("deleted_at", "pk").values_list("pk", flat=True)[:limit]:
        with ordered():
            volume = lock_row(Rank.VOLUME, due.filter(pk=volume_id))
            if volume is None:
                continue
            volume.purged_at = at
            volume.save(update_fields=["purged_at"])
            record_volume(None, "volume.purge", volume, at, {})
        purged += 1
    return purged


def _hold_quota(person_id: UUID, group_id: UUID | None, extra_gib: int) -> None:
    """Lock every scope that this storage counts in, then refuse what would exceed one. Raises `quota_exceeded`."""
    limits = storage_limits(person_id, group_id)
    for scope in sorted({limit.usage_scope for limit in limits}):
        lock_name(Rank.USAGE, f"{FIELD}@{scope}")
    for limit in limits:
        used = used_storage(limit.usage_scope)
        if used + extra_gib > limit.limit:
            raise DomainError(
                "quota_exceeded",
                _("%(asked)s GiB more would exceed the limit of %(limit)s GiB; %(used)s GiB are used.")
                % {"asked": extra_gib, "limit": limit.limit, "used": used},
                remedy=_(
                    "Ask for less, or delete a volume; a deleted one counts until it cannot be restored any more."
                ),
                gate=None,
                facts={"field": FIELD, "limit": limit.limit, "used": used, "asked": extra_gib, "scope": limit.scope},
            )


def storage_limits(person_id: UUID, group_id: UUID | None, *, organisation_id: UUID | None = None) -> list[Limit]:
    """What binds a volume: a person's limits at home, or, for a group's volume, the totals of group and organisation.

    A statement less for who knows the organisation: the group's, without one his home.
    """
    bounds = accounts.limits(person_id, group_id, organisation_id=organisation_id)
    found = [limit for limit in bounds if limit.field == FIELD]
    return found if group_id is None else [limit for limit in found if limit.kind is Kind.TOTAL]


def _group(by: User, standing: Standing, group_id: UUID | None) -> Group | None:
    """The group that a volume is to be of; only its administrators make such. Raises `not_found`, `forbidden`."""
    if group_id is None:
        return None
    group = visible_groups(by).filter(pk=group_id, is_active=True).first()
    if group is None:
        raise not_found("group")
    may(standing, Act.ACT_ON_SESSIONS, Target(organisation_id=group.organisation_id, group_id=group.pk)).require()
    return group


def _seen(by: User, volume_id: UUID) -> Volume:
    volume = visible_volumes(by).live().select_related("owner", "group").filter(pk=volume_id).first()
    if volume is None:
        raise not_found("volume")
    return volume


def locked_for(by: User, standing: Standing, volume_id: UUID) -> Volume:
    """A live volume that somebody may manage, its row locked. Raises `not_found`, `forbidden`."""
    may_manage_or_refuse(standing, _seen(by, volume_id))
    return _locked(volume_id)


def _locked(volume_id: UUID) -> Volume:
    volume = lock_row(Rank.VOLUME, Volume.objects.live().filter(pk=volume_id))
    if volume is None:
        raise not_found("volume")
    return volume


def may_manage_or_refuse(standing: Standing, volume: Volume) -> None:
    if not may_manage(standing, volume):
        raise DomainError(
            "forbidden",
            _("You may mount this volume, not change it."),
            remedy=_("Ask its owner, or an administrator of its group."),
        )


def _check(wish: VolumeWish) -> None:
    _plain_name(wish.name)
    if wish.kind not in Volume.Kind.values:
        raise invalid("kind", _("Choose home, data or scratch."))
    if wish.access not in Volume.Access.values:
        raise invalid("access", _("Choose rwo, rwx or rox."))
    _check_size(wish.size_gib)


def _check_size(size_gib: int) -> None:
    if not 1 <= size_gib <= MAX_GIB:
        raise invalid("size_gib", _("Give a size from 1 to %(most)s GiB.") % {"most": MAX_GIB})


def _check_growth(seen: Volume, volume: Volume, size_gib: int) -> None:
    _check_size(size_gib)
    if volume.size_gib != seen.size_gib:
        raise DomainError("conflict", _("Somebody else changed its size just now."), remedy=_("Look again."))
    if size_gib < volume.size_gib:
        raise invalid("size_gib", _("A volume only grows."), remedy=_("Make a new one and copy what you need."))


def _plain_name(name: str) -> str:
    plain = name.strip()
    if not is_name(plain):
        raise invalid("name", str(WORDS))
    return plain


def _save_named(volume: Volume) -> None:
    try:
        with attempt():
            volume.save()
    except IntegrityError as error:
        raise DomainError(
            "conflict", _("There is a volume of this name already."), remedy=_("Choose another name.")
        ) from error


def record_volume(
    by: User | None,
    act: str,
    volume: Volume,
    at: datetime,
    after: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
) -> None:
    group_id = volume.group_id
    home = volume.owner.organisation_id if volume.owner is not None else None
    audit.record(
        by=by,
        act=act,
        target_kind="volume",
        target_id=volume.pk,
        target_label=volume.name,
        organisation_id=home,
        group_id=group_id,
        before=before,
        after=after,
        at=at,
    )
