"""Counts everything anew from the rows that are the truth, and compares: what must hold after any storm.

Guarantees of an empty answer: the ledger balances to the micro-credit; cards and nodes give exactly what is claimed and
never more than they have; limits count exactly the sessions there are; every session is in a state with a way out and has
at most one open run; claims are held by the runs that may hold them, and orphaned exactly where an end was never
confirmed; meters are settled with their runs, and no hold outlives its meter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from uuid import UUID

from django.db.models import Count, Q, Sum

from billing import trial
from billing.models import Account, Meter, Transfer
from cluster.models import Card, Claim, Desired, Node
from sessions_app import counters
from sessions_app.domain.lifecycle import RULES, TERMINAL, TRAITS, State, counts_as_paused, counts_as_waiting
from sessions_app.models import LaneTally, QueueEntry, Run, Session, Usage


def everything_agrees() -> bool:
    """True; fails with the first things that do not agree."""
    found = list(disagreements())
    assert not found, "\n".join(found[:10])
    return True


def lives_agree() -> bool:
    """The quick half: states, runs, claims and the line; True, or fails with what does not agree."""
    found = [*_lives(), *_claims()]
    assert not found, "\n".join(found[:10])
    return True


def disagreements() -> Iterator[str]:
    """All that does not agree, in words."""
    yield from (f"books: {difference}" for difference in trial.differences())
    yield from _metal()
    yield from _limits()
    yield from _lanes()
    yield from _lives()
    yield from _claims()
    yield from _meters()


def _metal() -> Iterator[str]:
    held = Claim.objects.holding()
    for card in Card.objects.all():
        of_card = held.filter(card_id=card.pk).aggregate(vram=Sum("vram_mib"), milli=Sum("milli"), slots=Sum("slots"))
        used = (card.used_vram_mib, card.used_milli, card.used_slots)
        claimed = tuple(of_card[name] or 0 for name in ("vram", "milli", "slots"))
        if used != claimed:
            yield f"card {card.uuid} says {used}, its claims {claimed}"
        if any(
            amount > there for amount, there in zip(used, (card.vram_mib, card.core_milli, card.slots), strict=True)
        ):
            yield f"card {card.uuid} is over-committed: {used}"
    for node in Node.objects.all():
        of_node = held.filter(node_id=node.pk).aggregate(
            cpu=Sum("cpu_milli"), memory=Sum("memory_mib"), scratch=Sum("scratch_gib")
        )
        used = (node.used_cpu_milli, node.used_memory_mib, node.used_scratch_gib)
        claimed = tuple(of_node[name] or 0 for name in ("cpu", "memory", "scratch"))
        if used != claimed:
            yield f"node {node.name} says {used}, its claims {claimed}"


def _limits() -> Iterator[str]:
    counted: Counter[tuple[str, str]] = Counter()
    for session in Session.objects.all():
        scopes = counters.scopes_of(user=session.owner_id, group=session.group_id, organisation=session.organisation_id)
        amounts = dict(counters.demand(session)) if TRAITS[session.life].counts else {}
        amounts[counters.WAITING_FIELD] = int(counts_as_waiting(session.life))
        amounts[counters.PAUSED_FIELD] = int(counts_as_paused(session.life, by_owner=session.paused_by_owner))
        for scope in scopes:
            for field, amount in amounts.items():
                counted[scope, field] += amount
    stored = {(row.scope, row.field): row.used for row in Usage.objects.all()}
    for key in sorted(counted.keys() | stored.keys()):
        if counted[key] != stored.get(key, 0):
            yield f"usage of {key} says {stored.get(key, 0)}, there are {counted[key]}"


def _lanes() -> Iterator[str]:
    waiting, tallies = Counter(QueueEntry.objects.values_list("lane", flat=True)), Counter[str]()
    for lane, change in LaneTally.objects.values_list("lane", "change"):
        tallies[lane] += change
    for lane in sorted(waiting.keys() | tallies.keys()):
        if waiting[lane] != tallies[lane]:
            yield f"the tally of lane {lane} says {tallies[lane]}, there are {waiting[lane]}"


def _lives() -> Iterator[str]:
    ways_out = {state for state, _event in RULES}
    for session in Session.objects.annotate(open_runs=Count("runs", filter=Q(runs__closed_at=None))):
        where = f"session {session.pk} ({session.state})"
        if session.state not in {state.value for state in State}:
            yield f"{where}: unknown state"
        if session.life not in TERMINAL and session.life not in ways_out:
            yield f"{where}: no way out"
        wants_run = session.life not in TERMINAL and session.life is not State.PAUSED
        if session.open_runs != int(wants_run):
            yield f"{where}: {session.open_runs} open runs"
        if TRAITS[session.life].transient and session.deadline_at is None:
            yield f"{where}: no deadline"
        if QueueEntry.objects.filter(session=session).exists() != (session.life is State.QUEUED):
            yield f"{where}: its place in line does not agree"
        if TRAITS[session.life].occupies:
            order = _document_of(session)
            if order != (session.run_number, session.generation):
                yield f"{where}: the desired document is of {order}, not {session.run_number, session.generation}"


def _document_of(session: Session) -> tuple[int, int] | None:
    """What the cluster of the session's current run is told."""
    run = Run.objects.get(session=session, number=session.run_number)
    documents = Desired.objects.filter(session_id=session.pk, cluster_id=run.cluster_id)
    return documents.values_list("run", "generation").first()


def _claims() -> Iterator[str]:
    for run in Run.objects.select_related("session"):
        session = run.session
        states = list(Claim.objects.holding().filter(run_id=run.pk).values_list("state", flat=True))
        number = max(session.cards, 1)
        expected: list[str] = []
        if run.closed_at is None:
            if TRAITS[session.life].occupies:
                expected = [Claim.State.OPEN] * number
        elif run.placed_at is not None and run.gone_at is None:
            expected = [Claim.State.ORPHANED] * number
        if states != expected:
            yield f"session {session.pk} ({session.state}), run {run.number}: claims {states}, not {expected}"


def _meters() -> Iterator[str]:
    paid = Run.objects.exclude(session__mode="cpu")
    meters = {meter.run_id: meter for meter in Meter.objects.all()}
    for run in paid:
        meter = meters.pop(run.pk, None)
        if meter is None:
            yield f"run {run.pk} has no meter"
        elif (meter.settled_at is None) != (run.closed_at is None):
            yield f"run {run.pk}: closed {run.closed_at}, settled {meter.settled_at}"
        elif meter.settled_at is not None and meter.held:
            yield f"run {run.pk} is settled and still holds {meter.held}"
    yield from (f"meter {run_id} is of no run" for run_id in meters)
    charged = dict(Session.objects.values_list("pk", "charged"))
    settled: Counter[UUID] = Counter()
    for meter in Meter.objects.exclude(settled_at=None):
        settled[meter.reference] += meter.charged
    for session_id, amount in charged.items():
        if amount != settled[session_id]:
            yield f"session {session_id} says it cost {amount}, its settled runs {settled[session_id]}"


def nothing_is_held() -> bool:
    """True when no wallet holds credits: nothing runs or waits any more. Fails with who does."""
    holding = list(Account.objects.filter(held__gt=0).values_list("pk", "held"))
    assert not holding, holding
    return True


def charges_of(session_ids: Iterable[UUID]) -> int:
    """What the ledger says that the sessions were charged, over all their runs."""
    meters = Meter.objects.filter(reference__in=session_ids).values_list("pk", flat=True)
    return Transfer.objects.filter(posting__meter_id__in=meters).aggregate(sum=Sum("amount"))["sum"] or 0
