"""Which clusters, pools and grants somebody may see.

Guarantees: what is dedicated to others does not appear, not even by name; grants are shown to the tenant that they name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import Q, QuerySet

from accounts.permissions import visible_groups, visible_organisations
from cluster.models import Cluster, Pool, PoolGrant

if TYPE_CHECKING:
    from accounts.models import User


def visible_clusters(actor: User) -> QuerySet[Cluster]:
    """All for super administrators; for others those with a pool that they may use."""
    present = Cluster.objects.present()
    if actor.is_super_admin:
        return present
    return present.filter(pk__in=visible_pools(actor).values("cluster_id"))


def visible_pools(actor: User) -> QuerySet[Pool]:
    """All for super administrators; for others the shared ones and those granted to a place of theirs."""
    pools = Pool.objects.filter(cluster__removed_at=None)
    if actor.is_super_admin:
        return pools
    return pools.filter(Q(is_shared=True) | Q(pk__in=visible_grants(actor).values("pool_id")))


def visible_grants(actor: User) -> QuerySet[PoolGrant]:
    """Grants to places that somebody sees."""
    grants = PoolGrant.objects.filter(pool__cluster__removed_at=None)
    if actor.is_super_admin:
        return grants
    organisations, groups = visible_organisations(actor), visible_groups(actor)
    return grants.filter(Q(organisation_id__in=organisations.values("pk")) | Q(group_id__in=groups.values("pk")))


def grants_by_pool(actor: User, pool_ids: list[UUID]) -> dict[UUID, list[PoolGrant]]:
    """The visible grants of some pools; one statement."""
    found: dict[UUID, list[PoolGrant]] = {}
    for grant in visible_grants(actor).filter(pool_id__in=pool_ids).order_by("pk"):
        found.setdefault(grant.pool_id, []).append(grant)
    return found
