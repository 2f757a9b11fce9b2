"""What must hold after every batch of events: set-based, cheap, against the rows that are the truth.

Guarantees: `Invariants.check` reads live rows and what was written since the last check only, so that its cost does not
grow with history; `tests.recount.everything_agrees` counts everything anew at the end, and the books are balanced in
full every simulated day.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from billing import trial
from billing.ledger import UNSTORED
from sessions_app.domain.lifecycle import RULES, TERMINAL, TRAITS, State
from sessions_app.models import QueueEntry, Session, TimelineEntry
from tests.simulation.waits import Entry, Waits
from tests.simulation.world import BrokenInvariantError, World, asked

# What the sweeps are allowed beyond a deadline: a turn, and the lease of a worker that was killed during it.
SLACK = timedelta(seconds=90)
# Why somebody keeps his place although there may be room: another gate than that of room.
_OTHER_GATES = frozenset({"quota_exceeded", "budget_exceeded", "mount_conflict", "insufficient_credit"})


def _list(states: list[State]) -> str:
    return ", ".join(f"'{state.value}'" for state in states)


_OPEN = _list([state for state in State if state not in TERMINAL and state is not State.PAUSED])
_OCCUPY = _list([state for state in State if TRAITS[state].occupies])
_COUNT = _list([state for state in State if TRAITS[state].counts])
_TRANSIENT = _list([state for state in State if TRAITS[state].transient])
_ENDED = _list(list(TERMINAL))
_ALIVE = _list([state for state in State if state not in TERMINAL])  # as the partial index of live sessions says it
_LEADS_ON = _list(sorted({origin for origin, _event in RULES}))

# Each row that comes back is something that does not hold. Everything is over live rows.
_LIVE = f"""
WITH held AS MATERIALIZED (SELECT * FROM cluster_claim WHERE state <> 'released'),
     alive AS MATERIALIZED (SELECT * FROM sessions_app_session WHERE state IN ({_ALIVE})),
     open_run AS MATERIALIZED (SELECT * FROM sessions_app_run WHERE closed_at IS NULL),
     meter AS MATERIALIZED (SELECT * FROM billing_meter WHERE settled_at IS NULL)
SELECT 'card does not hold its claims', c.uuid
  FROM cluster_card c LEFT JOIN (SELECT card_id, sum(vram_mib) vram, sum(milli) milli, sum(slots) slots,
       bool_or(is_exclusive) AND count(*) > 1 shared FROM held WHERE card_id IS NOT NULL GROUP BY 1) h ON h.card_id = c.id
  WHERE (c.used_vram_mib, c.used_milli, c.used_slots) <> (coalesce(h.vram, 0), coalesce(h.milli, 0), coalesce(h.slots, 0))
     OR c.used_vram_mib > c.vram_mib OR c.used_milli > c.core_milli OR c.used_slots > c.slots OR h.shared
UNION ALL SELECT 'node does not hold its claims', n.name
  FROM cluster_node n LEFT JOIN (SELECT node_id, sum(cpu_milli) cpu, sum(memory_mib) memory, sum(scratch_gib) scratch
       FROM held GROUP BY 1) h ON h.node_id = n.id
  WHERE (n.used_cpu_milli, n.used_memory_mib, n.used_scratch_gib)
     <> (coalesce(h.cpu, 0), coalesce(h.memory, 0), coalesce(h.scratch, 0))
     OR n.used_cpu_milli > n.cpu_milli OR n.used_memory_mib > n.memory_mib OR n.used_scratch_gib > n.scratch_gib
UNION ALL SELECT 'nothing leads out of ' || s.state, s.id::text FROM alive s WHERE s.state NOT IN ({_LEADS_ON})
UNION ALL SELECT 'not one open run: ' || s.state, s.id::text
  FROM alive s LEFT JOIN open_run r ON r.session_id = s.id
  WHERE (r.id IS NOT NULL) <> (s.state IN ({_OPEN})) OR r.number <> s.run_number
UNION ALL SELECT 'a run is open though its session ended', r.id::text
  FROM open_run r JOIN sessions_app_session s ON s.id = r.session_id WHERE s.state IN ({_ENDED})
UNION ALL SELECT 'waits and is not in line, or the other way: ' || s.state, s.id::text
  FROM alive s FULL JOIN sessions_app_queueentry q ON q.session_id = s.id
  WHERE (q.session_id IS NOT NULL) <> (s.state IS NOT DISTINCT FROM 'queued')
UNION ALL SELECT 'claims do not agree with the state: ' || s.state, s.id::text
  FROM alive s JOIN open_run r ON r.session_id = s.id
  LEFT JOIN (SELECT run_id, count(*) n, bool_and(state = 'open') good FROM held GROUP BY 1) h ON h.run_id = r.id
  WHERE coalesce(h.n, 0) <> CASE WHEN s.state IN ({_OCCUPY}) THEN greatest(s.cards, 1) ELSE 0 END OR NOT coalesce(h.good, true)
UNION ALL SELECT 'a claim is held by nobody who may', h.id::text
  FROM held h LEFT JOIN sessions_app_run r ON r.id = h.run_id
  WHERE r.id IS NULL OR (h.state = 'open') <> (r.closed_at IS NULL) OR r.gone_at IS NOT NULL
UNION ALL SELECT 'no deadline, or past it: ' || s.state, s.id::text
  FROM alive s WHERE s.state IN ({_TRANSIENT}) AND (s.deadline_at IS NULL OR s.deadline_at < %(late)s)
UNION ALL SELECT 'is to resume by itself and is not tried', s.id::text
  FROM alive s WHERE s.state = 'paused' AND s.resume_at < %(late)s
UNION ALL SELECT 'the document is not what is wanted: ' || s.state, s.id::text
  FROM alive s JOIN open_run r ON r.session_id = s.id
  LEFT JOIN cluster_desired d ON d.session_id = s.id AND d.cluster_id = r.cluster_id
  WHERE s.state IN ({_OCCUPY}) AND (d.run, d.generation) IS DISTINCT FROM (s.run_number, s.generation)
UNION ALL SELECT 'limits count ' || u.used || ' where there are ' || coalesce(c.used, 0) || ': ' || u.field, u.scope
  FROM (SELECT * FROM sessions_app_usage WHERE used <> 0) u FULL JOIN (
    SELECT scope, f.field, sum(f.amount) used FROM alive s
    CROSS JOIN LATERAL (VALUES ('group:' || group_id), ('organisation:' || organisation_id), ('user:' || owner_id),
      ('user:' || owner_id || '@group:' || group_id), ('user:' || owner_id || '@organisation:' || organisation_id)) p(scope)
    CROSS JOIN LATERAL (VALUES
      ('max_sessions', CASE WHEN s.state IN ({_COUNT}) THEN 1 ELSE 0 END),
      ('cpu_milli', CASE WHEN s.state IN ({_COUNT}) THEN s.cpu_milli ELSE 0 END),
      ('memory_mib', CASE WHEN s.state IN ({_COUNT}) THEN s.memory_mib ELSE 0 END),
      ('scratch_gib', CASE WHEN s.state IN ({_COUNT}) THEN s.scratch_gib ELSE 0 END),
      ('vram_mib', CASE WHEN s.state IN ({_COUNT}) THEN s.vram_mib * s.cards ELSE 0 END),
      ('core_percent', CASE WHEN s.state IN ({_COUNT}) THEN s.core_percent * s.cards ELSE 0 END),
      ('cards', CASE WHEN s.state IN ({_COUNT}) AND s.mode = 'exclusive' THEN s.cards ELSE 0 END),
      ('max_queued', CASE WHEN s.state = 'queued' THEN 1 ELSE 0 END),
      ('max_paused', CASE WHEN s.state = 'paused' OR (s.state = 'pausing' AND s.paused_by_owner) THEN 1 ELSE 0 END)
    ) f(field, amount) GROUP BY 1, 2 HAVING sum(f.amount) <> 0) c ON (c.scope, c.field) = (u.scope, u.field)
  WHERE u.used IS DISTINCT FROM c.used
UNION ALL SELECT 'a wallet holds ' || a.held || ', its open meters ' || coalesce(m.held, 0), a.id::text
  FROM billing_account a LEFT JOIN (SELECT wallet_id, sum(held) held FROM meter GROUP BY 1) m ON m.wallet_id = a.id
  WHERE a.held <> coalesce(m.held, 0) OR a.held > a.balance
UNION ALL SELECT 'a paid run without its meter, or a meter without its run', coalesce(r.id, m.run_id)::text
  FROM (SELECT r.id FROM open_run r JOIN alive s ON s.id = r.session_id WHERE s.mode <> 'cpu') r
  FULL JOIN meter m ON m.run_id = r.id WHERE r.id IS NULL OR m.run_id IS NULL
UNION ALL SELECT 'runs past its hold', m.run_id::text
  FROM meter m WHERE m.hold_ends_at < %(late)s AND m.end_at IS NULL
UNION ALL SELECT format('billed %%s to %%s outside of placed %%s, ready %%s, end asked %%s', i.starts_at, i.ends_at, r.placed_at,
    r.ready_at, r.end_asked_at), r.session_id::text
  FROM billing_meterinterval i JOIN meter m ON m.run_id = i.meter_id JOIN open_run r ON r.id = m.run_id
  WHERE r.ready_at IS NULL OR i.starts_at < r.ready_at OR i.starts_at < r.placed_at
     OR (r.end_asked_at IS NOT NULL AND i.ends_at > greatest(r.end_asked_at, i.starts_at)) OR i.ends_at > %(now)s
"""
_NOBODY = UUID(int=0)
_NEW_CHARGES = """
    SELECT t.id, t.debit_id, t.credit_id, t.amount, t.kind, p.meter_id, p.billed_from, p.billed_to, r.ready_at, r.end_asked_at
    FROM billing_transfer t LEFT JOIN billing_posting p ON p.transfer_id = t.id
    LEFT JOIN sessions_app_run r ON r.id = p.meter_id
    WHERE t.id > %(last)s ORDER BY t.id
"""
_BALANCES = """
    SELECT id, balance FROM billing_account WHERE balance IS NOT NULL AND id = ANY(%(touched)s)
    UNION ALL SELECT NULL, coalesce(sum(balance), 0)::bigint FROM billing_account
"""
_WAITING = """
    SELECT entry.session_id, entry.lane, offering.model, entry.reason <> ALL(%(others)s), entry.priority
    FROM sessions_app_queueentry entry JOIN sessions_app_session session ON session.id = entry.session_id
    JOIN catalog_offering offering ON offering.id = session.offering_id
    ORDER BY entry.priority DESC, entry.order_at, entry.session_id
"""
# Models of which some card is out of reach, or held by what cannot be told to end.
_TROUBLED = """
    SELECT DISTINCT card.model FROM cluster_card card
    JOIN cluster_node node ON node.id = card.node_id JOIN cluster_cluster cluster ON cluster.id = node.cluster_id
    WHERE NOT node.is_ready OR node.missing_since IS NOT NULL OR card.missing_since IS NOT NULL
        OR cluster.state <> 'connected' OR card.foreign_slots > 0
        OR EXISTS (SELECT 1 FROM cluster_claim claim JOIN sessions_app_session session ON session.id = claim.session_id
            WHERE claim.card_id = card.id AND (claim.state = 'orphaned' OR claim.state = 'open' AND session.state = 'lost'))
"""
# Who was asked to make room, for whom, and how long he had run since he was last created or resumed, at most.
_NEW_PREEMPTIONS = """
    SELECT p.asked_at, p.victim_id, paused.at, v.preemptible,
        v.priority < s.priority OR EXISTS (SELECT FROM sessions_app_timelineentry t
            WHERE t.session_id IN (v.id, s.id) AND t.event = 'priority' AND t.at >= p.asked_at),
        (SELECT sum(least(coalesce(r.end_asked_at, r.closed_at, p.asked_at), p.asked_at) - r.ready_at) FROM sessions_app_run r
            WHERE r.session_id = v.id AND r.number <= p.victim_run AND r.opened_at >= (
                SELECT max(t.at) FROM sessions_app_timelineentry t WHERE t.session_id = v.id AND t.at <= p.asked_at
                AND (t.event = 'enqueued' OR t.event = 'placed' AND t.from_state <> 'queued'))),
        EXISTS (SELECT FROM sessions_app_preemption o WHERE o.requester_id = p.requester_id AND o.victim_id = p.victim_id
            AND o.victim_run < p.victim_run AND o.asked_at > p.asked_at - %(again)s)
    FROM sessions_app_preemption p JOIN sessions_app_session v ON v.id = p.victim_id
    JOIN sessions_app_session s ON s.id = p.session_id
    LEFT JOIN sessions_app_timelineentry paused ON paused.session_id = v.id AND paused.run = p.victim_run
        AND paused.event = 'pause' AND paused.reason = 'preempted' AND paused.from_state = 'running' AND paused.at <= p.asked_at
    WHERE p.asked_at > %(last)s
"""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class Invariants:
    """The checks, with what they remember: every account's balance by the transfers so far, each meter's last charge."""

    world: World
    waits: Waits
    _last: UUID = _NOBODY
    _balances: Counter[UUID] = field(default_factory=Counter)
    _charged_to: dict[UUID, datetime] = field(default_factory=dict)
    _preempted_to: datetime = _LONG_AGO

    def check(self) -> None:
        """All of the cheap ones. Raises BrokenInvariantError with the first few that do not hold."""
        found = [*self._live(), *self._books(), *self._waits(), *self._preempted()]
        if found:
            told = [line for words in found[:3] for line in _story(words)]
            raise BrokenInvariantError("\n".join([f"at {self.world.now}:", *found[:10], *told]))

    def check_daily(self) -> None:
        """The books in full, to the micro-credit."""
        found = [f"books: {difference}" for difference in trial.differences()]
        if found:
            raise BrokenInvariantError("\n".join(found[:10]))

    def _live(self) -> list[str]:
        now = self.world.now
        rows = asked(_LIVE, {"now": now, "late": now - SLACK - self.world.excuse()})
        return [f"{what} ({which})" for what, which in rows]

    def _books(self) -> list[str]:
        """Balances by every transfer so far; a stretch of a run is charged once, within its ready time and its end.

        Accounts that took part since the last check are compared one by one, all of them in sum, and each in full every day.
        """
        found, touched = [], set()
        for key, debit, credit, amount, kind, meter, start, end, ready_at, end_asked_at in asked(
            _NEW_CHARGES, {"last": self._last}
        ):
            self._last = key
            self._balances[debit] -= amount
            self._balances[credit] += amount
            touched |= {debit, credit}
            if (kind == "charge") != (meter is not None):
                found.append(f"transfer {key} of kind {kind} belongs to meter {meter}")
            if meter is None:
                continue
            if start < self._charged_to.get(meter, start):
                found.append(f"run {meter} is charged twice from {start}")
            self._charged_to[meter] = end
            if ready_at is None or start < ready_at or end > self.world.now:
                found.append(f"run {meter} is charged for {start} to {end}, ready {ready_at}, asked {end_asked_at}")
        for account, balance in asked(_BALANCES, {"touched": list(touched)}):
            expected = self._stored() if account is None else self._balances[account]
            if balance != expected:
                found.append(f"account {account or 'of anybody'} has {balance}, its transfers say {expected}")
        return found

    def _waits(self) -> list[str]:
        """Nobody waits without end: see `waits`."""
        line = [Entry(*row) for row in asked(_WAITING, {"others": list(_OTHER_GATES)})]
        if not line:
            return self.waits.look([], (), self.world.now)
        troubled = (
            {entry.model for entry in line} if self.world.gap_open() else {model for (model,) in asked(_TROUBLED)}
        )
        return self.waits.look(line, troubled, self.world.now)

    def _preempted(self) -> list[str]:
        """Who was newly asked to make room: never who did not declare it, or before his time, or soon again for the same person."""
        found, conf = [], settings.GSHARE
        asked_for = {"last": self._preempted_to, "again": conf.preempt_again_after}
        for at, victim, paused_at, declared, lower, ran, again in asked(_NEW_PREEMPTIONS, asked_for):
            self._preempted_to = max(at, self._preempted_to)
            self.world.seen["preempted"] += paused_at == at  # else it is noted that he makes room for another, too
            if paused_at is None or not declared or not lower or again or ran is None or ran < conf.min_runtime:
                found.append(f"preempted at {at}, {paused_at=} {declared=} {lower=} {again=} ran={ran} ({victim})")
        return found

    def _stored(self) -> int:
        """What all accounts with a balance have together, by the transfers so far."""
        return sum(balance for account, balance in self._balances.items() if account not in UNSTORED)

    @contextmanager
    def a_walk_along_the_line(self) -> Iterator[None]:
        """Around one walk: who was placed passed nobody ahead who asked for the same in the same lane and only needed room."""
        before = _line()
        yield
        if not before:
            return
        waiting = {entry.session_id: entry for entry in _line()}
        left = {entry.session_id for entry in before} - waiting.keys()
        placed = set(Session.objects.filter(pk__in=left, state=State.STARTING).values_list("pk", flat=True))
        self.world.seen["placed from the line"] += len(placed)
        passed: dict[tuple[str, str], UUID] = {}
        for entry in before:
            bucket = (entry.lane, entry.shape)
            now = waiting.get(entry.session_id)
            if now is not None and now.reason not in _OTHER_GATES:
                passed.setdefault(bucket, entry.session_id)
            elif entry.session_id in placed and bucket in passed:
                raise BrokenInvariantError(f"{entry.session_id} passed {passed[bucket]}, which asks for the same")


def _line() -> list[QueueEntry]:
    return list(QueueEntry.objects.order_by("-priority", "order_at", "session_id"))


def _story(words: str) -> list[str]:
    """The timeline of the session that a finding is about, if it is about one."""
    ids = re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", words)
    sessions = Session.objects.filter(Q(pk__in=ids) | Q(runs__pk__in=ids)).distinct()
    return [
        f"  {entry.at} run {entry.run} {entry.event} {entry.from_state} → {entry.to_state} {entry.actor} {entry.reason}"
        f" {entry.detail} charged {entry.charged} for {entry.billed_from} to {entry.billed_to}"
        for session in sessions[:2]
        for entry in TimelineEntry.objects.filter(session=session).order_by("at", "id")
    ]
