"""Pools of nodes, and to whom they are open.

Guarantees: a pool that is used is not deleted; a dedicated pool is open to whom it was granted only, and a grant does not
leave the tenant that it was given to. What changes here is told to all processes in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import IntegrityError
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.rights import Standing, Target
from accounts.permissions import Act, may, visible_groups, visible_organisations
from accounts.standings import target_of_group
from cluster.models import Claim, Cluster, Node, Pool, PoolGrant
from cluster.sequence import record_change
from cluster.services.authority import authorise, held_standing
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, attempt, lock_rows, ordered
from gshare_core.kit.uses import refuse_used

if TYPE_CHECKING:
    from accounts.models import User

_NAME_LENGTH = 63


def create_pool(
    *, by: User | None, cluster_id: UUID, name: str, is_shared: bool, node_ids: Iterable[UUID] = ()
) -> Pool:
    """A pool, with these nodes of its cluster. Raises `forbidden`, `not_found`, `invalid`, `conflict`."""
    plain = _plain_name(name)
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        if not Cluster.objects.present().filter(pk=cluster_id).exists():
            raise not_found("cluster")
        pool = Pool(cluster_id=cluster_id, name=plain, is_shared=is_shared)
        _save_named(pool)
        nodes = _move(pool, set(node_ids))
        record_change(cluster_id)
        after = {"name": pool.name, "is_shared": is_shared, "nodes": nodes}
        _record(by, "pool.create", pool, clock.now(), after)
    return pool


def change_pool(
    *, by: User | None, pool_id: UUID, name: str | None = None, node_ids: Iterable[UUID] | None = None
) -> Pool:
    """Rename a pool; make exactly these nodes its own.

    Nodes that leave it go to the cluster's first pool; what runs on them stays. Raises as `create_pool`.
    """
    plain = None if name is None else _plain_name(name)
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        pool = _pool(pool_id)
        after: dict[str, Any] = {}
        if plain is not None:
            pool.name = after["name"] = plain
            _save_named(pool)
        if node_ids is not None:
            after["nodes"] = _move(pool, set(node_ids))
        record_change(pool.cluster_id)
        _record(by, "pool.change", pool, clock.now(), after)
    return pool


def delete_pool(*, by: User | None, pool_id: UUID) -> None:
    """Delete an empty pool with its grants; who waits for it moves to the pools that are left.

    Raises `in_use` with counts while nodes stand in it (sessions run on them), and for the cluster's first pool.
    """
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        pool = _pool(pool_id)
        if pool == Pool.objects.home_of(pool.cluster_id):
            raise DomainError("in_use", _("It is where new nodes go."), remedy=_("Keep it, and empty it if you like."))
        standing = lock_rows(Rank.NODE, pool.nodes.all())
        nodes = [node.pk for node in standing if node.retired_at is None]
        claims = Claim.objects.holding().filter(node__in=nodes)
        refuse_used(
            {"nodes": len(nodes), "sessions": claims.values("session_id").distinct().count()},
            remedy=_("Move its nodes to another pool first; what runs on them goes on."),
        )
        pool.nodes.update(pool=Pool.objects.home_of(pool.cluster_id))  # what left the cluster keeps no pool alive
        pool.grants.all().delete()
        record_change(pool.cluster_id)
        _record(by, "pool.delete", pool, clock.now(), {})
        pool.delete()


def grant_pool(
    *, by: User | None, pool_id: UUID, organisation_id: UUID | None = None, group_id: UUID | None = None
) -> PoolGrant:
    """Open a dedicated pool to an organisation or a group.

    An organisation's administrator may pass his organisation's pools on to its groups. Raises `forbidden`, `not_found`,
    `invalid`, `conflict`.
    """
    if (organisation_id is None) == (group_id is None):
        raise invalid("group", _("Name one organisation or one group."))
    with ordered():
        standing = held_standing(by) if by is not None else None
        pool = _pool(pool_id)
        target = _grant_target(by, organisation_id, group_id)
        if standing is not None:
            _may_grant(standing, pool, target, group_id)
        if pool.is_shared:
            raise invalid("pool", _("A shared pool is open to everybody and needs no grant."))
        grant = PoolGrant(pool=pool, organisation_id=organisation_id, group_id=group_id)
        _save_named(grant)
        record_change(pool.cluster_id)
        after = {"organisation": str(organisation_id or ""), "group": str(group_id or "")}
        _record(by, "pool.grant", pool, clock.now(), after)
    return grant


def revoke_pool(*, by: User | None, grant_id: UUID) -> None:
    """Take a grant back; what runs stays. Raises `forbidden`, `not_found`."""
    with ordered():
        standing = held_standing(by) if by is not None else None
        grant = PoolGrant.objects.select_related("pool").filter(pk=grant_id).first()
        if grant is None:
            raise not_found("grant")
        target = _grant_target(by, grant.organisation_id, grant.group_id)
        if standing is not None:
            _may_grant(standing, grant.pool, target, grant.group_id)
        pool = grant.pool
        grant.delete()
        record_change(pool.cluster_id)
        _record(by, "pool.revoke", pool, clock.now(), {})


def _may_grant(standing: Standing, pool: Pool, target: Target, group_id: UUID | None) -> None:
    """Super administrators grant anything; others pass their organisation's pools on to its groups."""
    if may(standing, Act.MANAGE_POOLS).allowed:
        return
    own = pool.grants.filter(organisation=target.organisation_id).exists()
    if group_id is None or not own:
        may(standing, Act.MANAGE_POOLS).require()
    may(standing, Act.GRANT_POOL, target).require()


def _grant_target(by: User | None, organisation_id: UUID | None, group_id: UUID | None) -> Target:
    """The place that a grant names, among those that the actor sees. Raises `not_found`."""
    if group_id is not None:
        if by is not None and not visible_groups(by).filter(pk=group_id).exists():
            raise not_found("group")
        return target_of_group(group_id)
    if organisation_id is None or (
        by is not None and not visible_organisations(by).filter(pk=organisation_id).exists()
    ):
        raise not_found("organisation")
    return Target(organisation_id=organisation_id)


def _pool(pool_id: UUID) -> Pool:
    pools = Pool.objects.select_for_update(no_key=True, of=("self",)).select_related("cluster")
    pool = pools.filter(pk=pool_id, cluster__removed_at=None).first()
    if pool is None:
        raise not_found("pool")
    return pool


def _save_named(row: Pool | PoolGrant) -> None:
    try:
        with attempt():
            row.save()
    except IntegrityError as error:
        raise DomainError("conflict", _("There is one like it already."), remedy=_("Use the one there is.")) from error


def _move(pool: Pool, wanted: set[UUID]) -> list[str]:
    """Make exactly these nodes the pool's; their names. Raises `not_found` for nodes of other clusters."""
    in_cluster = Node.objects.filter(cluster_id=pool.cluster_id, retired_at=None)
    nodes = lock_rows(Rank.NODE, in_cluster.filter(Q(pk__in=wanted) | Q(pool=pool)))
    if not wanted <= {node.pk for node in nodes}:
        raise not_found("node")
    home = Pool.objects.home_of(pool.cluster_id)
    moved = []
    for node in nodes:
        aim = pool if node.pk in wanted else home
        if node.pool_id != aim.pk:
            node.pool = aim
            moved.append(node)
    Node.objects.bulk_update(moved, ["pool"])
    return sorted(node.name for node in nodes if node.pk in wanted)


def _plain_name(name: str) -> str:
    plain = name.strip()
    if not plain or len(plain) > _NAME_LENGTH:
        raise invalid("name", _("Give a name of 1 to 63 characters."))
    return plain


def _record(by: User | None, act: str, pool: Pool, at: datetime, after: dict[str, Any]) -> None:
    audit.record(by=by, act=act, target_kind="pool", target_id=pool.pk, target_label=pool.name, after=after, at=at)
