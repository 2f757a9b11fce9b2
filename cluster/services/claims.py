"""Taking a part of the metal, and giving it back.

Guarantees: a card and a node never give more than they have, whoever asks at once, because what decides is one
conditional UPDATE each, in one savepoint with the claim; the last slot goes to one. A claim is given back once; the end
of one run never touches the claims of another. Refuses, with why not, what does not fit.
A claim's rows need no lock of their own: the lock of the session, which the caller holds, covers them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _

from cluster import fleets
from cluster.domain.requests import NoPlace, Request
from cluster.fleet_rows import CardSeat
from cluster.fleets import Passage
from cluster.models import Attachment, Card, Claim
from cluster.sequence import record_change
from gshare_core.ids import uuid7
from gshare_core.kit.locks import Rank, attempt, note
from gshare_core.kit.rows import counts, insert, prepared, write

Kind = Literal["exclusive", "shared", "cpu"]
_MICRO_PER_MILLI = 1_000


@dataclass(frozen=True, slots=True)
class Reserved:
    """Where something goes: the node by its name in the cluster, the cards by their UUIDs."""

    cluster_id: UUID
    node: str
    cards: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Wish:
    """What a run asks for, and what it may pass."""

    request: Request
    session_id: UUID
    run_id: UUID
    run: int
    passage: Passage | None = None


class _LostError(Exception):
    """Somebody else took it first."""


def look(request: Request, passage: Passage | None = None) -> Reserved | NoPlace:
    """Where the request would go now; takes nothing, locks nothing, is not noted as demand."""
    found = fleets.look(request, passage)
    return found if isinstance(found, NoPlace) else _reserved(found)


def fits(request: Request, passage: Passage | None = None) -> bool:
    """Whether the request would find a place now, for who does not ask why not."""
    return fleets.fits(request, passage)


def fit_in_turn(wishes: Sequence[tuple[Request, Passage | None]]) -> int:
    """How many of these, in their order, would find a place now beside those before them; takes nothing."""
    found = fleets.place_in_turn(wishes, noted=False)
    return sum(isinstance(one, fleets.Placed) for one in found)


def reserve(
    *, request: Request, session_id: UUID, run_id: UUID, run: int, at: datetime, passage: Passage | None = None
) -> Reserved | NoPlace:
    """Claim a place for a run, or say why there is none. See `reserve_in_turn`."""
    return reserve_in_turn([Wish(request, session_id, run_id, run, passage)], at=at)[0]


def reserve_in_turn(wishes: Sequence[Wish], *, at: datetime) -> list[Reserved | NoPlace]:
    """Claim places for runs, each beside those before it; ends with the first that finds none, and says why.

    Decides on this process's fleet, takes by conditional updates in a savepoint, and when a rival was faster looks again,
    `placement_retries` times. Locks NODE, CARD, CLUSTER_SEQUENCE of the winners only: what lost is rolled back, since an
    UPDATE that waited and matched nothing would keep its lock.
    """
    for _attempt in range(settings.GSHARE.placement_retries + 1):
        found = fleets.place_in_turn([(wish.request, wish.passage) for wish in wishes], noted=True)
        placed = [one for one in found if isinstance(one, fleets.Placed)]
        if not placed:
            return [one for one in found if isinstance(one, NoPlace)]
        try:
            with attempt():
                _take(list(zip(placed, wishes, strict=False)), at)
        except _LostError:
            for node_id in {one.seat.node_id for one in placed}:
                fleets.reread(node_id)
        else:
            return [one if isinstance(one, NoPlace) else _reserved(one) for one in found]
    return [NoPlace("not_now", (), _("Others were faster on every place that was free a moment ago."))]


def release_claims(run_id: UUID, *, at: datetime) -> bool:
    """Give back what a run holds; True when there was something. Locks NODE, CARD, CLUSTER_SEQUENCE.

    A run whose claims were carried on, or given back before, holds nothing: a late or repeated end frees nothing.
    """
    held = _held_by(run_id)
    if not held:
        return False
    write(_RELEASE, [at, [claim.pk for claim in held]])
    _give_back(held)
    return True


def carry_claims(*, from_run_id: UUID, to_run_id: UUID, to_run: int, at: datetime) -> None:
    """Hand claims and attachments of a run to the session's next run; the metal never becomes free in between.

    The old rows stay as history, so that each run says what it held. Locks ATTACHMENT.
    """
    _carry_attachments(from_run_id, to_run_id, at)
    held = list(Claim.objects.holding().filter(run_id=from_run_id).order_by("pk").select_for_update(no_key=True))
    olds = [claim.pk for claim in held]
    for claim in held:
        claim.pk, claim.run_id, claim.run = uuid7(), to_run_id, to_run
        claim.claimed_at, claim.state, claim.ending_generation = at, Claim.State.OPEN, None
    _mark_released(olds, at)
    Claim.objects.bulk_create(held)


def orphan_claims(run_id: UUID, *, generation: int) -> bool:
    """Keep blocking the metal of a run that ended without word from its cluster; True when it holds something.

    `generation` is the ending one: once the operator has observed it, an inventory that lists no pod of the run on a node
    that is Ready or gone frees the claim (`cluster.inventory`).
    """
    open_ones = Claim.objects.filter(run_id=run_id, state=Claim.State.OPEN)
    return open_ones.update(state=Claim.State.ORPHANED, ending_generation=generation) > 0


def _reserved(found: fleets.Placed) -> Reserved:
    ask = found.placement.request.ask
    kind: Kind = "cpu" if not ask.cards else "exclusive" if ask.whole else "shared"
    return Reserved(found.seat.cluster_id, found.seat.name, found.placement.cards, kind)


_Statement = tuple[str, Mapping[str, Any]]


def _take(taken: Sequence[tuple[fleets.Placed, Wish]], at: datetime) -> None:
    """Nodes, then cards, each in the order of their ids, then the claims, then the changes. Raises _LostError."""
    hosts = [(found.seat.node_id, _host(found)) for found, _wish in taken]
    cards = [(card.pk, _card(found, card)) for found, _wish in taken for card in _cards(found)]
    statements = []
    for rank, asked in ((Rank.NODE, hosts), (Rank.CARD, cards)):
        for key, statement in sorted(asked, key=lambda pair: str(pair[0])):
            note(rank, key)
            statements.append(statement)
    if any(count != 1 for count in counts(statements)):
        raise _LostError
    insert(*(claim for found, wish in taken for claim in _claims(found, wish, at)))
    changed: dict[UUID, set[UUID]] = defaultdict(set)
    for found, _wish in taken:
        changed[found.seat.cluster_id].add(found.seat.node_id)
    for cluster_id in sorted(changed, key=str):
        record_change(cluster_id, *changed[cluster_id])


def _cards(found: fleets.Placed) -> list[CardSeat]:
    return [found.seat.cards[uuid] for uuid in found.placement.cards]


def _host(found: fleets.Placed) -> _Statement:
    ask = found.placement.request.ask
    pools = None if ask.pools is None else [pool for pool in ask.pools if isinstance(pool, UUID)]
    return _TAKE_HOST, {
        "node": found.seat.node_id,
        "pools": pools,
        "cpu": ask.cpu_milli,
        "memory": ask.memory_mib,
        "scratch": ask.scratch_gib,
    }


def _card(found: fleets.Placed, card: CardSeat) -> _Statement:
    ask = found.placement.request.ask
    wanted: dict[str, Any] = {"card": card.pk, "node": found.seat.node_id}
    if ask.whole:
        return _TAKE_WHOLE, wanted | {"vram": card.vram_mib, "milli": card.core_milli}
    return _TAKE_SHARE, wanted | {"vram": ask.vram_mib, "milli": ask.core_micro // _MICRO_PER_MILLI}


# Written out, because every admission runs them: putting them together from models costs more than running them.
_TAKE_HOST = """
    UPDATE cluster_node SET used_cpu_milli = used_cpu_milli + %(cpu)s, used_memory_mib = used_memory_mib + %(memory)s,
        used_scratch_gib = used_scratch_gib + %(scratch)s
    WHERE id = %(node)s AND is_ready AND NOT is_cordoned AND NOT is_unschedulable AND retired_at IS NULL
        AND (%(pools)s::uuid[] IS NULL OR pool_id = ANY(%(pools)s::uuid[]))
        AND used_cpu_milli <= cpu_milli - %(cpu)s AND used_memory_mib <= memory_mib - %(memory)s
        AND used_scratch_gib <= scratch_gib - %(scratch)s
"""
_TAKE_SHARE = f"""
    UPDATE cluster_card SET used_vram_mib = used_vram_mib + %(vram)s, used_milli = used_milli + %(milli)s,
        used_slots = used_slots + 1
    WHERE id = %(card)s AND node_id = %(node)s AND is_healthy AND NOT is_draining AND mode = '{Card.Mode.HAMI_CORE}'
        AND missing_since IS NULL AND retired_at IS NULL
        AND used_vram_mib <= vram_mib - foreign_vram_mib - %(vram)s AND used_milli <= core_milli - foreign_milli - %(milli)s
        AND used_slots < slots - foreign_slots
"""  # noqa: S608 -- no outside text
# All of a card, if it is empty and still what it was when it was chosen.
_TAKE_WHOLE = f"""
    UPDATE cluster_card SET used_vram_mib = %(vram)s, used_milli = %(milli)s, used_slots = 1
    WHERE id = %(card)s AND node_id = %(node)s AND is_healthy AND NOT is_draining AND mode = '{Card.Mode.HAMI_CORE}'
        AND missing_since IS NULL AND retired_at IS NULL AND vram_mib = %(vram)s AND core_milli = %(milli)s
        AND used_slots = 0 AND used_vram_mib = 0 AND used_milli = 0
        AND foreign_slots = 0 AND foreign_vram_mib = 0 AND foreign_milli = 0
"""  # noqa: S608 -- no outside text


def _claims(found: fleets.Placed, wish: Wish, at: datetime) -> list[Claim]:
    """One a card; the host resources stand on the first, or on the only one of a run without cards."""
    ask, cards = found.placement.request.ask, _cards(found)
    claims = [
        Claim(
            session_id=wish.session_id,
            run_id=wish.run_id,
            run=wish.run,
            node_id=found.seat.node_id,
            claimed_at=at,
        )
        for _number in range(max(len(cards), 1))
    ]
    for claim, card in zip(claims, cards, strict=False):
        claim.card_id, claim.is_exclusive, claim.slots = card.pk, ask.whole, 1
        claim.vram_mib = card.vram_mib if ask.whole else ask.vram_mib
        claim.milli = card.core_milli if ask.whole else ask.core_micro // _MICRO_PER_MILLI
    claims[0].cpu_milli, claims[0].memory_mib, claims[0].scratch_gib = ask.cpu_milli, ask.memory_mib, ask.scratch_gib
    return claims


class _Held(NamedTuple):
    """What of a claim is needed to give it back."""

    pk: UUID
    cluster_id: UUID
    node_id: UUID
    card_id: UUID | None
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    vram_mib: int
    milli: int
    slots: int


def _held_by(run_id: UUID) -> list[_Held]:
    """What a run holds, its claims locked."""
    with prepared() as cursor:
        cursor.execute(_HELD, [run_id])
        return [_Held(*row) for row in cursor.fetchall()]


def _give_back(claims: list[_Held]) -> None:
    """Nodes, then cards, each in the order of their ids, then the changes; written together."""
    nodes: dict[UUID, list[_Held]] = defaultdict(list)
    for claim in claims:
        nodes[claim.node_id].append(claim)
    for node_id, of_node in sorted(nodes.items(), key=lambda pair: str(pair[0])):
        note(Rank.NODE, node_id)
        hosts = [sum(part) for part in zip(*(claim[4:7] for claim in of_node), strict=True)]
        write(_FREE_HOST, [*hosts, node_id])
    on_cards = [(claim.card_id, claim) for claim in claims if claim.card_id is not None]
    for card_id, claim in sorted(on_cards, key=lambda pair: str(pair[0])):
        note(Rank.CARD, card_id)
        write(_FREE_CARD, [claim.vram_mib, claim.milli, claim.slots, card_id])
    changed: dict[UUID, set[UUID]] = defaultdict(set)
    for claim in claims:
        changed[claim.cluster_id].add(claim.node_id)
    for cluster_id in sorted(changed, key=str):
        record_change(cluster_id, *changed[cluster_id])


_HELD = f"""
    SELECT claim.id, node.cluster_id, claim.node_id, claim.card_id, claim.cpu_milli, claim.memory_mib, claim.scratch_gib,
        claim.vram_mib, claim.milli, claim.slots
    FROM cluster_claim claim JOIN cluster_node node ON node.id = claim.node_id
    WHERE claim.run_id = %s AND claim.state <> '{Claim.State.RELEASED}' ORDER BY claim.id FOR NO KEY UPDATE OF claim
"""  # noqa: S608 -- no outside text
_RELEASE = f"""
    UPDATE cluster_claim SET state = '{Claim.State.RELEASED}', released_at = greatest(%s::timestamptz, claimed_at)
    WHERE id = ANY(%s)
"""  # noqa: S608 -- no outside text
_FREE_HOST = """
    UPDATE cluster_node SET used_cpu_milli = used_cpu_milli - %s, used_memory_mib = used_memory_mib - %s,
        used_scratch_gib = used_scratch_gib - %s WHERE id = %s
"""
_FREE_CARD = """
    UPDATE cluster_card SET used_vram_mib = used_vram_mib - %s, used_milli = used_milli - %s, used_slots = used_slots - %s
    WHERE id = %s
"""


def _mark_released(claim_ids: list[UUID], at: datetime) -> None:
    olds = list(Claim.objects.filter(pk__in=claim_ids))
    for claim in olds:
        claim.state, claim.released_at = Claim.State.RELEASED, max(at, claim.claimed_at)
    Claim.objects.bulk_update(olds, ["state", "released_at"])


def _carry_attachments(from_run_id: UUID, to_run_id: UUID, at: datetime) -> None:
    held = Attachment.objects.filter(run_id=from_run_id, released_at=None)
    volumes = sorted(held.values_list("volume_id", flat=True), key=str)
    for volume_id in volumes:
        note(Rank.ATTACHMENT, volume_id)
    carried = list(held.order_by("volume_id").select_for_update(no_key=True))
    for attachment in carried:
        attachment.released_at = max(at, attachment.attached_at)
    Attachment.objects.bulk_update(carried, ["released_at"])
    for attachment in carried:
        attachment.pk, attachment.run_id, attachment.attached_at, attachment.released_at = uuid7(), to_run_id, at, None
    Attachment.objects.bulk_create(carried)
