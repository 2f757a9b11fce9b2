"""Nodes and the pools they stand in.

Guarantees: a cordoned node takes nothing new and keeps what it has; a pool that is used is not deleted; a dedicated pool
is open to whom it was granted only. What changes here is told to all processes in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import IntegrityError
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.rights import Standing, Target
from accounts.models import Group, Organisation, User
from accounts.permissions import Act, may
from cluster.models import Cluster, Node, Pool, PoolGrant
from cluster.sequence import record_change
from cluster.services.authority import authorise, held_standing
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, attempt, lock_row, lock_rows, ordered


def cordon_node(*, by: User | None, node_id: UUID, cordoned: bool) -> Node:
    """Take a node out of placement, or put it back. Idempotent. Raises `forbidden`, `not_found`."""
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        node = lock_row(Rank.NODE, Node.objects.filter(pk=node_id, retired_at=None))
        if node is None:
            raise not_found("node")
        if node.is_cordoned != cordoned:
            node.is_cordoned = cordoned
            node.save(update_fields=["is_cordoned"])
            record_change(node.cluster_id, node.pk)
            act = "node.cordon" if cordoned else "node.uncordon"
            _record(by, act, ("node", node.pk, node.name), clock.now(), {"is_cordoned": cordoned})
    return node


def create_pool(*, by: User | None, cluster_id: UUID, name: str, is_shared: bool) -> Pool:
    """A pool without nodes. Raises `forbidden`, `not_found`, `invalid`, `conflict`."""
    if not name.strip() or len(name) > 63:
        raise invalid("name", _("Give a name of 1 to 63 characters."))
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        if not Cluster.objects.present().filter(pk=cluster_id).exists():
            raise not_found("cluster")
        pool = Pool(cluster_id=cluster_id, name=name.strip(), is_shared=is_shared)
        _save_named(pool)
        record_change(cluster_id)
        _record(by, "pool.create", ("pool", pool.pk, pool.name), clock.now(), {"is_shared": is_shared})
    return pool


def rename_pool(*, by: User | None, pool_id: UUID, name: str) -> Pool:
    """Another name for a pool. Raises as `create_pool`."""
    if not name.strip() or len(name) > 63:
        raise invalid("name", _("Give a name of 1 to 63 characters."))
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        pool = _pool(pool_id)
        pool.name = name.strip()
        _save_named(pool)
        _record(by, "pool.rename", ("pool", pool.pk, pool.name), clock.now(), {"name": pool.name})
    return pool


def move_nodes(*, by: User | None, pool_id: UUID, node_ids: Iterable[UUID]) -> None:
    """Make exactly these nodes the pool's; those that leave it go to the cluster's first pool.

    What runs on a node stays. Raises `not_found` for nodes of other clusters.
    """
    wanted = set(node_ids)
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        pool = _pool(pool_id)
        in_cluster = Node.objects.filter(cluster_id=pool.cluster_id, retired_at=None)
        nodes = lock_rows(Rank.NODE, in_cluster.filter(pk__in=wanted) | in_cluster.filter(pool=pool))
        if not wanted <= {node.pk for node in nodes}:
            raise not_found("node")
        leaving = [node for node in nodes if node.pk not in wanted]
        home = Pool.objects.home_of(pool.cluster_id) if leaving else pool
        moved = [node for node in nodes if node.pool_id != (pool.pk if node.pk in wanted else home.pk)]
        for node in moved:
            node.pool = pool if node.pk in wanted else home
        Node.objects.bulk_update(moved, ["pool"])
        if moved:
            record_change(pool.cluster_id, *(node.pk for node in moved))
            names = sorted(node.name for node in nodes if node.pk in wanted)
            _record(by, "pool.move_nodes", ("pool", pool.pk, pool.name), clock.now(), {"nodes": names})


def delete_pool(*, by: User | None, pool_id: UUID) -> None:
    """Delete an empty pool with its grants. Raises `in_use` while nodes stand in it, or for the cluster's first pool."""
    with ordered():
        authorise(by, Act.MANAGE_POOLS)
        pool = _pool(pool_id)
        if pool == Pool.objects.home_of(pool.cluster_id) or pool.nodes.exists():
            raise DomainError(
                "in_use", _("The pool has nodes, or is where new nodes go."), remedy=_("Move its nodes first.")
            )
        pool.grants.all().delete()
        pool.delete()
        record_change(pool.cluster_id)
        _record(by, "pool.delete", ("pool", pool_id, pool.name), clock.now(), {})


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
        target = _grant_target(organisation_id, group_id)
        if standing is not None:
            _may_grant(standing, pool, target, group_id)
        if pool.is_shared:
            raise invalid("pool", _("A shared pool is open to everybody and needs no grant."))
        grant = PoolGrant(pool=pool, organisation_id=organisation_id, group_id=group_id)
        _save_named(grant)
        record_change(pool.cluster_id)
        after = {"organisation": str(organisation_id or ""), "group": str(group_id or "")}
        _record(by, "pool.grant", ("pool", pool.pk, pool.name), clock.now(), after)
    return grant


def revoke_pool(*, by: User | None, grant_id: UUID) -> None:
    """Take a grant back; what runs stays. Raises `forbidden`, `not_found`."""
    with ordered():
        standing = held_standing(by) if by is not None else None
        grant = PoolGrant.objects.select_related("pool").filter(pk=grant_id).first()
        if grant is None:
            raise not_found("grant")
        target = _grant_target(grant.organisation_id, grant.group_id)
        if standing is not None:
            _may_grant(standing, grant.pool, target, grant.group_id)
        pool = grant.pool
        grant.delete()
        record_change(pool.cluster_id)
        _record(by, "pool.revoke", ("pool", pool.pk, pool.name), clock.now(), {})


def _may_grant(standing: Standing, pool: Pool, target: Target, group_id: UUID | None) -> None:
    """Super administrators grant anything; others pass their organisation's pools on to its groups."""
    if may(standing, Act.MANAGE_POOLS).allowed:
        return
    own = pool.grants.filter(organisation=target.organisation_id).exists()
    if group_id is None or not own:
        may(standing, Act.MANAGE_POOLS).require()
    may(standing, Act.GRANT_POOL, target).require()


def _grant_target(organisation_id: UUID | None, group_id: UUID | None) -> Target:
    if group_id is not None:
        group = Group.objects.filter(pk=group_id, is_active=True).first()
        if group is None:
            raise not_found("group")
        return Target(organisation_id=group.organisation_id, group_id=group.pk)
    if organisation_id is None or not Organisation.objects.filter(pk=organisation_id, is_active=True).exists():
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


def _record(by: User | None, act: str, target: tuple[str, UUID, str], at: datetime, after: dict[str, Any]) -> None:
    kind, identifier, label = target
    audit.record(
        by=by,
        act=act,
        target_kind=kind,
        target_id=identifier,
        target_label=label,
        organisation_id=None,
        group_id=None,
        before=None,
        after=after,
        at=at,
    )
