"""One beat of a cluster taken in: its nodes and cards, what is foreign, which orphans are known to be gone.

Guarantees: a beat makes the cluster connected; an older beat than the newest changes nothing else; each node is written in
a transaction of its own (NODE, CARD, CLUSTER_SEQUENCE) and only when something differs, so that beats and admissions do
not queue behind each other. A capacity never falls below what is claimed: nothing new fits then, and nothing is taken
away. What changed is told to every process.
Call it outside a transaction. Times are shifted by the sender's clock difference; none lies past the receipt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import structlog
from django.conf import settings
from django.db import IntegrityError, connection
from django.db.models import F, Q
from django.db.models.functions import Greatest

from cluster.card_books import compare_books
from cluster.domain import adoption
from cluster.domain.adoption import CardFacts, NodeFacts
from cluster.models import Card, Claim, Cluster, Desired, Listing, ModeChange, Node, Pool, Volume
from cluster.registered import registered
from cluster.sequence import tell_of_metal
from gshare_core.contract import BadRow, Inventory, SessionRow
from gshare_core.errors import not_found
from gshare_core.kit.locks import Rank, lock_row, lock_rows, ordered
from gshare_core.kit.rows import upsert

logger = structlog.get_logger(__name__)

# A node or card that is no longer listed stays registered so long: what only it could hold keeps waiting, and is not
# refused for ever because a device plugin restarted.
MISSING_KEPT = timedelta(hours=24)


class Freed(NamedTuple):
    """A run whose orphaned claims nothing holds any more: release them under the session's lock."""

    session_id: UUID
    run_id: UUID
    run: int


@dataclass(frozen=True, slots=True)
class InventoryReceipt:
    """What a beat said: the rows of this cluster's sessions, the runs to free, the rows left aside.

    `stale` when a newer beat had been taken in before; `returned` when the cluster had been suspect or lost.
    """

    sessions: tuple[SessionRow, ...]
    freed: tuple[Freed, ...]
    skipped: tuple[BadRow, ...]
    stale: bool
    returned: bool


def adopt(
    cluster_id: UUID, document: Inventory, received_at: datetime, bad: tuple[BadRow, ...] = ()
) -> InventoryReceipt:
    """Take a beat in. `bad` are the rows that could not be read: while there are any, nothing counts as missing.

    Raises DomainError `not_found` for a cluster that was removed.
    """
    observed_at = _on_our_clock(document, received_at)
    stale, returned = _beat(cluster_id, observed_at, received_at)
    sessions, strangers = _own_sessions(cluster_id, document.sessions)
    if stale:
        return InventoryReceipt(sessions, (), strangers, stale=True, returned=returned)
    listed = [card.uuid for row in document.nodes for card in row.cards]
    known = registered(cluster_id, listed=listed, observed_at=observed_at)
    plan = adoption.adopt(document.nodes, known, complete=not bad)
    skipped = [*plan.skipped, *strangers]
    for facts in plan.changed:
        _write_node(cluster_id, facts, received_at, skipped)
    for name in sorted(plan.absent):
        _note_absence(cluster_id, name, received_at)
    rare = _rare(cluster_id, received_at)
    if rare.retiring:
        _retire_missing(cluster_id, received_at)
    if rare.volumes:
        _note_removed_volumes(cluster_id, document, received_at)
    _note_listing(cluster_id, document, observed_at, complete=not bad)
    if rare.kube:
        compare_books(cluster_id, document, at=received_at)
    freed = _freed(cluster_id, document, observed_at) if rare.orphans and not bad else ()
    if skipped or bad:
        logger.warning(
            "inventory_rows_skipped",
            cluster=str(cluster_id),
            rows=[f"{row.where}: {row.why}" for row in (*bad, *skipped)][:50],
        )
    return InventoryReceipt(sessions, freed, tuple(skipped), stale=False, returned=returned)


def _on_our_clock(document: Inventory, received_at: datetime) -> datetime:
    difference = received_at - document.sent_at
    within = abs(difference) <= settings.GSHARE.clock_tolerance
    return min(document.observed_at if within else document.observed_at + difference, received_at)


def _beat(cluster_id: UUID, observed_at: datetime, received_at: datetime) -> tuple[bool, bool]:
    """Note that the cluster spoke: whether it was an old beat, and whether the cluster came back by it."""
    with ordered():
        with connection.cursor() as cursor:
            cursor.execute(_SPOKE, {"cluster": cluster_id, "observed": observed_at, "received": received_at})
            spoke = cursor.fetchone()
        if spoke is None:
            raise not_found("cluster")
        stale, before = spoke
        if before != Cluster.State.CONNECTED:
            tell_of_metal(cluster_id)
    return bool(stale), before in (Cluster.State.SUSPECT, Cluster.State.LOST)


# Written out, because every beat runs it.
_SPOKE = f"""
    WITH known AS (
        SELECT id, state, observed_at IS NOT NULL AND %(observed)s < observed_at AS is_stale
        FROM cluster_cluster WHERE id = %(cluster)s AND removed_at IS NULL FOR NO KEY UPDATE
    )
    UPDATE cluster_cluster AS cluster SET
        state = '{Cluster.State.CONNECTED}',
        last_beat_at = greatest(cluster.last_beat_at, %(received)s),
        observed_at = CASE WHEN is_stale THEN cluster.observed_at ELSE %(observed)s END
    FROM known WHERE cluster.id = known.id
    RETURNING known.is_stale, known.state
"""  # noqa: S608 -- no outside text


# Nodes and cards -----------------------------------------------------------------------------------------------------


def _write_node(cluster_id: UUID, facts: NodeFacts, at: datetime, skipped: list[BadRow]) -> None:
    try:
        with ordered():
            node = lock_row(Rank.NODE, Node.objects.filter(cluster_id=cluster_id, name=facts.name, retired_at=None))
            node = _put_node(cluster_id, node, facts, at)
            left = _put_cards(cluster_id, node, facts, at)
            tell_of_metal(cluster_id, node.pk, *left)
    except IntegrityError:
        # Another beat registers the same node or card at this moment; the next beat finds out who has it.
        skipped.append(BadRow(f"node {facts.name}", "registered at the same moment by another beat"))


def _put_node(cluster_id: UUID, node: Node | None, facts: NodeFacts, at: datetime) -> Node:
    if node is None:
        node = Node(cluster_id=cluster_id, pool=Pool.objects.home_of(cluster_id), name=facts.name)
    node.labels, node.is_yield_capable = dict(facts.labels), facts.is_yield_capable
    node.cpu_milli = max(facts.cpu_milli, node.used_cpu_milli)
    node.memory_mib = max(facts.memory_mib, node.used_memory_mib)
    node.scratch_gib = max(facts.scratch_gib, node.used_scratch_gib)
    node.is_ready, node.missing_since, node.is_unschedulable = facts.is_ready, None, facts.is_unschedulable
    node.not_ready_since = None if facts.is_ready else node.not_ready_since or at
    node.save()
    return node


def _put_cards(cluster_id: UUID, node: Node, facts: NodeFacts, at: datetime) -> set[UUID]:
    """Write the node's cards; the nodes that a card was moved away from."""
    wanted = {card.uuid: card for card in facts.cards}
    present = Card.objects.filter(node__cluster_id=cluster_id, uuid__in=wanted, retired_at=None)
    rows = {card.uuid: card for card in lock_rows(Rank.CARD, present)}
    left = set()
    for uuid, card_facts in wanted.items():
        card = rows.get(uuid) or _new_card(node, uuid)
        if card.node_id != node.pk:
            left.add(card.node_id)
            card.node = node
        _put_card(card, card_facts)
        card.missing_since = (card.missing_since or at) if uuid in facts.missing else None
        card.save()
    return left


def _new_card(node: Node, uuid: str) -> Card:
    """A card that shows up while its node's cards are being cut another way is one of them."""
    return Card(node=node, uuid=uuid, is_draining=ModeChange.objects.filter(node=node, closed_at=None).exists())


def _put_card(card: Card, facts: CardFacts) -> None:
    card.index, card.model, card.mode = facts.index, facts.model, facts.mode
    card.vram_mib = max(facts.vram_mib, card.used_vram_mib)
    card.core_milli = max(facts.core_milli, card.used_milli)
    card.slots = max(facts.slots, card.used_slots)
    card.is_healthy, card.mig_profiles = facts.is_healthy, list(facts.mig_profiles)
    card.foreign_vram_mib = facts.foreign_vram_mib
    card.foreign_milli, card.foreign_slots = facts.foreign_milli, facts.foreign_slots


def _note_absence(cluster_id: UUID, name: str, at: datetime) -> None:
    """The cluster no longer lists a node: it is not ready."""
    with ordered():
        present = Node.objects.filter(cluster_id=cluster_id, name=name, retired_at=None, missing_since=None)
        node = lock_row(Rank.NODE, present)
        if node is None:
            return
        node.missing_since, node.is_ready = at, False
        node.not_ready_since = node.not_ready_since or at
        node.save(update_fields=["missing_since", "is_ready", "not_ready_since"])
        tell_of_metal(cluster_id, node.pk)


class _Rare(NamedTuple):
    """Whether there is anything of the kinds that most beats meet none of."""

    retiring: bool
    volumes: bool
    orphans: bool
    kube: bool


_RARE = f"""
    SELECT EXISTS (
            SELECT 1 FROM cluster_node node LEFT JOIN cluster_card card ON card.node_id = node.id AND card.retired_at IS NULL
            WHERE node.cluster_id = %(cluster)s AND node.retired_at IS NULL
                AND (node.missing_since <= %(long_ago)s OR card.missing_since <= %(long_ago)s)
        ), EXISTS (
            SELECT 1 FROM cluster_volume WHERE cluster_id = %(cluster)s AND purged_at IS NOT NULL AND removed_at IS NULL
        ), EXISTS (
            SELECT 1 FROM cluster_claim claim JOIN cluster_node node ON node.id = claim.node_id
            WHERE claim.state = '{Claim.State.ORPHANED}' AND node.cluster_id = %(cluster)s
        ), EXISTS (SELECT 1 FROM cluster_cluster WHERE id = %(cluster)s AND kind = '{Cluster.Kind.KUBE}')
"""  # noqa: S608 -- no outside text


def _rare(cluster_id: UUID, at: datetime) -> _Rare:
    with connection.cursor() as cursor:
        cursor.execute(_RARE, {"cluster": cluster_id, "long_ago": at - MISSING_KEPT})
        return _Rare(*cursor.fetchone())


def _retire_missing(cluster_id: UUID, at: datetime) -> None:
    """Forget nodes and cards that were not listed for `MISSING_KEPT` and hold nothing; their rows stay as history."""
    nodes = Node.objects.filter(cluster_id=cluster_id, retired_at=None)
    long_ago = at - MISSING_KEPT
    due = nodes.filter(Q(missing_since__lte=long_ago) | Q(cards__missing_since__lte=long_ago, cards__retired_at=None))
    for node_id in sorted(set(due.values_list("pk", flat=True))):
        with ordered():
            node = lock_row(Rank.NODE, nodes.filter(pk=node_id))
            if node is None:
                continue
            cards = lock_rows(Rank.CARD, Card.objects.filter(node=node, retired_at=None))
            claims = Claim.objects.holding().filter(node=node)
            held: set[UUID | None] = set(claims.values_list("card_id", flat=True))
            whole = node.missing_since is not None and node.missing_since <= long_ago and not held
            leaving = [card for card in cards if whole or _is_forgotten(card, long_ago, held)]
            for card in leaving:
                card.retired_at = at
            Card.objects.bulk_update(leaving, ["retired_at"])
            if whole:
                node.retired_at = at
                node.save(update_fields=["retired_at"])
            if whole or leaving:
                tell_of_metal(cluster_id, node.pk)


def _is_forgotten(card: Card, long_ago: datetime, held: set[UUID | None]) -> bool:
    return card.missing_since is not None and card.missing_since <= long_ago and card.pk not in held


# Sessions and volumes ------------------------------------------------------------------------------------------------


_OWN = """
    SELECT DISTINCT claim.session_id FROM cluster_claim claim JOIN cluster_node node ON node.id = claim.node_id
    WHERE node.cluster_id = %s AND claim.session_id = ANY(%s)
"""


def _own_sessions(cluster_id: UUID, rows: tuple[SessionRow, ...]) -> tuple[tuple[SessionRow, ...], tuple[BadRow, ...]]:
    """The rows of sessions that ever had a claim on this cluster; the others are strangers."""
    with connection.cursor() as cursor:
        cursor.execute(_OWN, [cluster_id, list({row.id for row in rows})])
        own = {row[0] for row in cursor.fetchall()}
    strangers = tuple(
        BadRow(f"session {row.id} run {row.run}", "not a session of this cluster") for row in rows if row.id not in own
    )
    return tuple(row for row in rows if row.id in own), strangers


def _note_listing(cluster_id: UUID, document: Inventory, observed_at: datetime, *, complete: bool) -> None:
    """Keep which pods the cluster has, whoever wants them: the sweep compares it with what is wanted."""
    pods = [[str(row.id), row.run, row.generation] for row in document.sessions]
    listing = Listing(cluster_id=cluster_id, observed_at=observed_at, is_complete=complete, pods=pods)
    upsert(listing, on=("cluster",), names=("observed_at", "is_complete", "pods"))


def _freed(cluster_id: UUID, document: Inventory, observed_at: datetime) -> tuple[Freed, ...]:
    """Runs with orphaned claims of which nothing is left.

    The operator had observed the ending generation before it looked, it lists no pod of the run, and the node is Ready or
    its object no longer exists.
    """
    orphans = list(
        Claim.objects.filter(state=Claim.State.ORPHANED, node__cluster_id=cluster_id)
        .order_by("session_id", "run", "pk")
        .values_list("session_id", "run_id", "run", "ending_generation", "node__name")
    )
    if not orphans:
        return ()
    ready = {row.name: row.ready for row in document.nodes}
    alive = {(row.id, row.run) for row in document.sessions}
    documents = Desired.objects.filter(cluster_id=cluster_id, session_id__in={row[0] for row in orphans})
    desired = {row.session_id: row for row in documents}
    found: Mapping[UUID, Freed] = {
        run_id: Freed(session_id, run_id, run)
        for session_id, run_id, run, generation, node in orphans
        if (session_id, run) not in alive
        and ready.get(node, True)
        and _has_observed(desired.get(session_id), (run, generation or 0), observed_at)
    }
    return tuple(found.values())


def _has_observed(desired: Desired | None, ending: tuple[int, int], observed_at: datetime) -> bool:
    """Whether the operator knew the end of a run when it looked.

    Without a document nobody knows what it knew: the sweep writes the end again.
    """
    if desired is None or desired.observed_at is None or desired.observed_at > observed_at:
        return False
    return (desired.observed_run, desired.observed_generation) >= ending


def _note_removed_volumes(cluster_id: UUID, document: Inventory, at: datetime) -> None:
    """Volumes that were given up and whose claim the cluster no longer has."""
    listed = {row.claim for row in document.volumes}
    pending = Volume.objects.filter(cluster_id=cluster_id, purged_at__isnull=False, removed_at=None)
    pending.exclude(claim__in=listed).update(removed_at=Greatest(F("purged_at"), at))
