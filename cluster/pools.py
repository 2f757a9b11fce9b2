"""Which pools there are, and who may use them. Reads only; `services.pools` changes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef
from django.db.models.functions import JSONObject

from cluster.models import PoolGrant
from gshare_core.kit.rows import prepared


@dataclass(frozen=True, slots=True)
class EligiblePools:
    """The pools that somebody may use; `lane_key` is a short text that is the same for the same pools."""

    lane_key: str
    pool_ids: tuple[UUID, ...]


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool and to whom it is dedicated; a shared one to nobody."""

    id: UUID
    cluster_id: UUID
    is_shared: bool
    groups: frozenset[UUID]
    organisations: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class KnownPools:
    """Every pool and who may use it, read at once."""

    rows: tuple[PoolRow, ...]

    def eligible(
        self, *, group_id: UUID, organisation_id: UUID, shared: bool, cluster_id: UUID | None = None
    ) -> EligiblePools:
        """The group's own pools, the organisation's, and with `shared` the shared ones; of one cluster or of all."""
        usable = (
            (row.is_shared and shared)
            or (not row.is_shared and (group_id in row.groups or organisation_id in row.organisations))
            for row in self.rows
        )
        mine = (row for row, use in zip(self.rows, usable, strict=True) if use)
        found = tuple(sorted({row.id for row in mine if cluster_id in {None, row.cluster_id}}))
        digest = hashlib.sha256(b"".join(pool.bytes for pool in found)).hexdigest()
        return EligiblePools(digest[:16], found)


_POOLS = """
    SELECT pool.id, pool.cluster_id, pool.is_shared, given.group_id, given.organisation_id
    FROM cluster_pool pool JOIN cluster_cluster cluster ON cluster.id = pool.cluster_id AND cluster.removed_at IS NULL
    LEFT JOIN cluster_poolgrant given ON given.pool_id = pool.id
    ORDER BY pool.id
"""


def known_pools() -> KnownPools:
    """Every pool of the registered clusters. One statement."""
    known: dict[UUID, tuple[UUID, bool, set[UUID], set[UUID]]] = {}
    with prepared() as cursor:
        cursor.execute(_POOLS)
        rows = cursor.fetchall()
    for pk, cluster_id, is_shared, group_id, organisation_id in rows:
        pool = known.setdefault(pk, (cluster_id, is_shared, set(), set()))
        if group_id is not None:
            pool[2].add(group_id)
        if organisation_id is not None:
            pool[3].add(organisation_id)
    return KnownPools(
        tuple(
            PoolRow(pk, cluster_id, is_shared, frozenset(groups), frozenset(organisations))
            for pk, (cluster_id, is_shared, groups, organisations) in known.items()
        )
    )


def grants(pool: str) -> ArraySubquery:
    """To whom a pool is dedicated, as a column; `pool` is where its id stands. For `pool_row`."""
    given = PoolGrant.objects.filter(pool=OuterRef(pool)).order_by("id")
    return ArraySubquery(given.values(json=JSONObject(group="group_id", organisation="organisation_id")))


def pool_row(pool_id: UUID, cluster_id: UUID, is_shared: bool, granted: Iterable[Mapping[str, str | None]]) -> PoolRow:
    """The frozen form of a row with its grants."""
    return PoolRow(
        pool_id,
        cluster_id,
        is_shared,
        frozenset(UUID(grant["group"]) for grant in granted if grant["group"]),
        frozenset(UUID(grant["organisation"]) for grant in granted if grant["organisation"]),
    )
