"""Who may see, mount and manage which volumes, and how much they take.

Guarantees: a volume that is not visible answers like one that does not exist, whether it is asked for by its id or as a
mount. The questions of gate 2 are answered in two queries, whatever the number of mounts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Case, CharField, Count, Exists, OuterRef, Q, QuerySet, Subquery, Sum, Value, When

from accounts.domain.rights import Standing, Target
from accounts.domain.roles import Role
from accounts.permissions import Act, administered_groups, administered_organisations, may
from accounts.standings import standing_of
from cluster.models import Attachment, Volume, VolumeShare
from cluster.models.storage import VolumeQuerySet
from gshare_core.contract import AccessMode
from gshare_core.errors import not_found
from gshare_core.kit.locks import Rank, share_rows

if TYPE_CHECKING:
    from accounts.models import User

ACCESS_MODES: Mapping[str, AccessMode] = {
    Volume.Access.RWO: "ReadWriteOnce",
    Volume.Access.RWX: "ReadWriteMany",
    Volume.Access.ROX: "ReadOnlyMany",
}


@dataclass(frozen=True, slots=True)
class MountFact:
    """What gate 2 needs to know of one volume that was asked for; without `found` nothing else says anything."""

    volume_id: UUID
    found: bool
    readable: bool = False
    writable: bool = False
    single_writer: bool = False
    held_by: UUID | None = None
    cluster_id: UUID | None = None
    name: str = ""
    claim: str = ""
    size_gib: int = 0
    storage_class: str = ""
    access_mode: AccessMode | None = None


def mount_facts(
    *,
    user_id: UUID,
    group_id: UUID,
    mounts: Iterable[tuple[UUID, str]],
    lock: bool = False,
    standing: Standing | None = None,
) -> list[MountFact]:
    """The facts of the mounts asked for, in the order asked. `mounts` are (volume, mode).

    A session may mount its owner's volumes, those of the groups that he works in, and those shared with him or with such a
    group. With `lock` the volumes are held `FOR SHARE` first (Rank.VOLUME), so that none can be deleted until the commit.
    `held_by` is the session that holds a single-writer volume, whichever it is: an orphaned run's attachment counts, also
    against its own session. `group_id` is the session's group; it decides nothing by itself.
    """
    wanted = [volume_id for volume_id, _mode in mounts]
    rows = Volume.objects.live().filter(pk__in=wanted)
    volumes = {volume.pk: volume for volume in (share_rows(Rank.VOLUME, rows) if lock else rows)}
    rights = _rights(standing or standing_of(user_id), volumes)
    return [_fact(volume_id, volumes.get(volume_id), rights.get(volume_id)) for volume_id in wanted]


@dataclass(frozen=True, slots=True)
class MountChoice:
    """A volume that somebody may mount, for screens. `is_held`: by some session, an orphaned run's included."""

    volume: Volume
    fact: MountFact
    is_held: bool


def mount_choices(standing: Standing) -> list[MountChoice]:
    """The live volumes that a person may mount somehow, by name, with what gate 2 would be told of them. One statement."""
    rows: Iterable[Any] = (
        _with_rights(mountable_volumes(standing.user_id, standing), standing)
        .annotate(is_held=Exists(Attachment.objects.filter(volume=OuterRef("pk"), released_at=None)))
        .order_by("name", "pk")
    )
    return [MountChoice(row, _fact(row.pk, row, _Right(row.best_mode, row.sole_holder)), row.is_held) for row in rows]


def own_volumes(user_id: UUID, standing: Standing | None = None) -> VolumeQuerySet:
    """A person's own volumes, those of the groups he works in, those shared with him; deleted ones included."""
    return Volume.objects.filter(_mountable(standing or standing_of(user_id)))


def mountable_volumes(user_id: UUID, standing: Standing | None = None) -> VolumeQuerySet:
    """The live volumes that a person may mount somehow."""
    return own_volumes(user_id, standing).live()


def visible_volumes(actor: User) -> VolumeQuerySet:
    """What somebody may see: what he may mount, and what he administers; deleted ones included."""
    if actor.is_super_admin:
        return Volume.objects.all()
    groups, homes = administered_groups(actor), administered_organisations(actor)
    return Volume.objects.filter(
        _mountable(standing_of(actor.pk))
        | Q(group_id__in=groups.values("pk"))
        | Q(owner__organisation_id__in=homes.values("pk"))
    )


def may_manage(standing: Standing, volume: Volume) -> bool:
    """Whether somebody may change, share and delete it: its owner, or who administers its group or its owner's home."""
    if volume.owner_id is not None and volume.owner_id == standing.user_id:
        return may(standing, Act.OWN_WORK).allowed
    if volume.group is not None:
        target = Target(organisation_id=volume.group.organisation_id, group_id=volume.group_id)
    else:
        target = Target(organisation_id=volume.owner.organisation_id if volume.owner else None)
    return may(standing, Act.ACT_ON_SESSIONS, target).allowed


def used_storage(scope: str) -> int:
    """GiB that count in a scope: ``user:<id>``, ``user:<id>@organisation:<id>``, ``group:<id>``, ``organisation:<id>``.

    A person's number counts his personal volumes, which belong to his home and so to no group of his; a group's total its
    volumes; an organisation's both. Deleted volumes count until they are given up for good.
    """
    return used_storages([scope])[scope]


def used_storages(scopes: Iterable[str]) -> dict[str, int]:
    """The same for several scopes, in one statement; none for no scope."""
    wanted = dict.fromkeys(scopes, 0)
    asked = {f"in_{number}": scope for number, scope in enumerate(wanted) if "@group:" not in scope}
    if asked:
        sums = {name: Sum("size_gib", filter=_counted_in(scope)) for name, scope in asked.items()}
        anywhere = Q(pk__in=())
        for scope in asked.values():
            anywhere |= _counted_in(scope)
        found = Volume.objects.stored().filter(anywhere).aggregate(**sums)
        wanted |= {scope: int(found[name] or 0) for name, scope in asked.items()}
    return wanted


def _counted_in(scope: str) -> Q:
    kind, _colon, identifier = scope.partition("@")[0].partition(":")
    counted = {
        "user": Q(owner_id=identifier),
        "group": Q(group_id=identifier),
        "organisation": Q(group__organisation_id=identifier) | Q(owner__organisation_id=identifier),
    }
    return counted[kind]


def work_groups(standing: Standing) -> Q:
    """Groups in which somebody works (a guest only looks), as a filter on the column `group_id`."""
    seats = [seat.group_id for seat in standing.seats if seat.group_id and seat.role.rank >= Role.MEMBER.rank]
    return Q(group_id__in=seats) | Q(group__organisation_id__in=standing.administered_organisations)


def _mountable(standing: Standing) -> Q:
    return _belonging(standing) | Q(pk__in=_shares(standing).values("volume_id"))


def _belonging(standing: Standing) -> Q:
    return Q(owner_id=standing.user_id) | work_groups(standing)


def _shares(standing: Standing) -> QuerySet[VolumeShare]:
    return VolumeShare.objects.filter(Q(user_id=standing.user_id) | work_groups(standing))


def mount_modes(standing: Standing, volumes: Iterable[Volume]) -> dict[UUID, str]:
    """The mode, ``ro`` or ``rw``, in which somebody may mount each volume; without those that he may only see."""
    rows = {volume.pk: volume for volume in volumes}
    read_only = VolumeShare.Mode.READ_ONLY.value
    return {
        pk: read_only if rows[pk].access == Volume.Access.ROX else right.mode
        for pk, right in _rights(standing, rows).items()
    }


def unmountable(*, user_id: UUID, mounts: Iterable[tuple[UUID, str]]) -> list[str]:
    """The names of those of the mounts (volume, mode) that somebody may not have now; what does not exist has its id."""
    wanted = list(mounts)
    volumes = Volume.objects.live().in_bulk([volume_id for volume_id, _mode in wanted])
    rights = _rights(standing_of(user_id), volumes)
    lost = []
    for volume_id, mode in wanted:
        volume = volumes.get(volume_id)
        fact = _fact(volume_id, volume, rights.get(volume_id))
        if not (fact.readable if mode == VolumeShare.Mode.READ_ONLY else fact.writable):
            lost.append(volume.name if volume else str(volume_id))
    return lost


def held_volumes(volumes: Iterable[Volume]) -> set[UUID]:
    """Those of the volumes that some session mounts now."""
    mounted = Attachment.objects.filter(volume__in=[volume.pk for volume in volumes], released_at=None)
    return set(mounted.values_list("volume_id", flat=True))


def shares_of(volume_id: UUID) -> list[VolumeShare]:
    """With whom a volume is shared, oldest first; for who looks after it."""
    return list(VolumeShare.objects.filter(volume_id=volume_id).select_related("user", "group").order_by("id"))


def share_counts(volume_ids: Iterable[UUID]) -> dict[UUID, int]:
    """With how many people and groups each volume is shared. One statement."""
    shares = VolumeShare.objects.filter(volume_id__in=list(volume_ids)).values_list("volume_id")
    return dict(shares.annotate(number=Count("id")).order_by())


def volumes_in_scope(actor: User, scope: str) -> VolumeQuerySet:
    """Volumes of ``group:<id>``, ``organisation:<id>`` or ``all``, for who administers that. Raises `not_found`.

    An organisation's are those of its groups and the personal ones of the people whose home it is.
    """
    kind, _colon, identifier = scope.partition(":")
    if kind == "all" and actor.is_super_admin:
        return Volume.objects.all()
    key = _uuid(identifier)
    if key is not None and kind == "group" and administered_groups(actor).filter(pk=key).exists():
        return Volume.objects.filter(group_id=key)
    if key is not None and kind == "organisation" and administered_organisations(actor).filter(pk=key).exists():
        return Volume.objects.filter(Q(group__organisation_id=key) | Q(owner__organisation_id=key))
    raise not_found("scope")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Right:
    """The best mode in which somebody may mount a volume, and the session that holds it alone."""

    mode: str
    holder: UUID | None


def _rights(standing: Standing, volume_ids: Iterable[UUID]) -> dict[UUID, _Right]:
    """Somebody's rights; volumes that he may not mount are left out. One statement."""
    rows: Any = _with_rights(Volume.objects.filter(pk__in=list(volume_ids)), standing)
    found = rows.values_list("pk", "best_mode", "sole_holder")
    return {pk: _Right(mode, holder) for pk, mode, holder in found if mode is not None}


def _with_rights(rows: VolumeQuerySet, standing: Standing) -> VolumeQuerySet:
    """The volumes with `best_mode` (None: he may not mount it) and `sole_holder`; "rw" sorts behind "ro"."""
    shares = _shares(standing).filter(volume=OuterRef("pk")).order_by("-mode")
    sole = Attachment.objects.filter(volume=OuterRef("pk"), is_sole=True, released_at=None)
    return rows.annotate(
        best_mode=Case(
            When(_belonging(standing), then=Value(VolumeShare.Mode.READ_WRITE.value)),
            default=Subquery(shares.values("mode")[:1]),
            output_field=CharField(),
        ),
        sole_holder=Subquery(sole.values("session_id")[:1]),
    )


def _fact(volume_id: UUID, volume: Volume | None, right: _Right | None) -> MountFact:
    if volume is None or right is None:
        return MountFact(volume_id, found=False)
    return MountFact(
        volume_id=volume_id,
        found=True,
        readable=True,
        writable=right.mode == VolumeShare.Mode.READ_WRITE and volume.access != Volume.Access.ROX,
        single_writer=volume.is_single_writer,
        held_by=right.holder,
        cluster_id=volume.cluster_id,
        name=volume.name,
        claim=volume.claim,
        size_gib=volume.size_gib,
        storage_class=volume.storage_class,
        access_mode=ACCESS_MODES[volume.access],
    )
