"""What the rows say of a cluster's metal, as figures that a beat is compared with.

Guarantees: nodes and cards that are not retired, and the claims that were held when the cluster looked. Three statements and
no instances: nearly every beat finds that nothing changed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from cluster.domain import adoption
from cluster.domain.adoption import CardFacts, NodeFacts, Registered
from cluster.models import Claim

_NODES = """
    SELECT id, name, labels, is_ready, cpu_milli, memory_mib, scratch_gib, is_yield_capable, missing_since IS NOT NULL,
        is_unschedulable
    FROM cluster_node WHERE cluster_id = %s AND retired_at IS NULL
"""
_CARDS = """
    SELECT node.id, card.missing_since IS NOT NULL, card.mig_profiles, card.uuid, card.index, card.model, card.vram_mib,
        card.core_milli, card.slots, card.mode, card.is_healthy, card.foreign_vram_mib, card.foreign_milli,
        card.foreign_slots
    FROM cluster_card card JOIN cluster_node node ON node.id = card.node_id
    WHERE node.cluster_id = %(cluster)s AND node.retired_at IS NULL AND card.retired_at IS NULL
    UNION ALL
    SELECT NULL, false, NULL, card.uuid, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM cluster_card card JOIN cluster_node node ON node.id = card.node_id
    WHERE card.uuid = ANY(%(listed)s) AND card.retired_at IS NULL AND node.cluster_id <> %(cluster)s
"""
# What was given back after the cluster looked was still held when it did.
_HELD = f"""
    SELECT card.uuid, claim.session_id, count(*)
    FROM cluster_claim claim
    JOIN cluster_card card ON card.id = claim.card_id
    JOIN cluster_node node ON node.id = claim.node_id
    WHERE node.cluster_id = %(cluster)s AND node.retired_at IS NULL
        AND (claim.state <> '{Claim.State.RELEASED}' OR claim.released_at >= %(observed)s)
    GROUP BY card.uuid, claim.session_id
"""  # noqa: S608 -- no outside text


def registered(cluster_id: UUID, *, listed: Iterable[str], observed_at: datetime) -> Registered:
    """The cluster's nodes and cards, who holds what of them, and which of the `listed` cards are another cluster's."""
    cards: dict[UUID, list[CardFacts]] = defaultdict(list)
    missing: dict[UUID, set[str]] = defaultdict(set)
    elsewhere = set()
    for node_id, is_missing, profiles, uuid, *figures in _rows(_CARDS, {"cluster": cluster_id, "listed": list(listed)}):
        if node_id is None:
            elsewhere.add(uuid)
            continue
        cards[node_id].append(_card(uuid, figures, profiles))
        if is_missing:
            missing[node_id].add(uuid)
    nodes = {}
    for pk, name, *figures in _rows(_NODES, [cluster_id]):
        nodes[name] = _node(name, figures, adoption.in_order(cards[pk]), frozenset(missing[pk]))
    claims: dict[str, Counter[UUID]] = defaultdict(Counter)
    for uuid, session_id, number in _rows(_HELD, {"cluster": cluster_id, "observed": observed_at}):
        claims[uuid][session_id] = number
    return Registered(nodes=nodes, claims=claims, elsewhere=frozenset(elsewhere))


def _node(name: str, figures: list[Any], cards: tuple[CardFacts, ...], missing: frozenset[str]) -> NodeFacts:
    labels, is_ready, cpu_milli, memory_mib, scratch_gib, is_yield_capable, is_missing, is_unschedulable = figures
    return NodeFacts(
        name=name,
        labels=json.loads(labels),
        is_ready=is_ready,
        cpu_milli=cpu_milli,
        memory_mib=memory_mib,
        scratch_gib=scratch_gib,
        is_yield_capable=is_yield_capable,
        cards=cards,
        missing=missing,
        is_missing=is_missing,
        is_unschedulable=is_unschedulable,
    )


def _card(uuid: str, figures: list[Any], profiles: str) -> CardFacts:
    index, model, vram_mib, core_milli, slots, mode, is_healthy, foreign_vram_mib, foreign_milli, foreign_slots = (
        figures
    )
    return CardFacts(
        uuid=uuid,
        index=index,
        model=model,
        vram_mib=vram_mib,
        core_milli=core_milli,
        slots=slots,
        mode=mode,
        is_healthy=is_healthy,
        mig_profiles=tuple(json.loads(profiles)),
        foreign_vram_mib=foreign_vram_mib,
        foreign_milli=foreign_milli,
        foreign_slots=foreign_slots,
    )


def _rows(sql: str, parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return list(cursor.fetchall())
