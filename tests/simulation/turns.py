"""Whose turn it is: the ticks of the one table, hints from the broker, beats of the clusters, on simulated time.

Guarantees: every row of `gshare_site.ticks.table()` runs, also rows this file has never heard of; each at one of its own
turns (a multiple of its period), through `gshare_site.ticks.run` with its lease.

Shortcut: a turn at which a tick could do nothing is skipped. When it could do something next is asked of the rows
(`_AGENDA`), after every change. A row of the table without an agenda runs after changes by others, at most once in `CALM`,
and at least every `UNASKED`. Proof that the agendas hide nothing: every `UNASKED` every tick runs unasked, and one that then
works on rows which its agenda did not announce breaks the simulation.

Shortcut: beats of every thirty seconds are sent when what they say changed, when somebody is about to judge by them
(silence, proof of life), and at least once in `LONGEST_BEAT`; a beat that was not sent is a beat that was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from gshare_site import ticks
from gshare_site.ticks import Tick
from tests.simulation.metal import Cluster
from tests.simulation.world import KilledError, World, asked

CALM = timedelta(minutes=5)
# What only mends what events lost, draws pictures or measures long stretches need not follow every change.
_CALM = {
    "billing.refill": timedelta(hours=2),
    "sessions.judge_idle": timedelta(minutes=30),
    "sessions.outlook": timedelta(hours=2),
    "sessions.recent_use": timedelta(hours=1),
    "sessions.sweep": timedelta(hours=2),
}
LONGEST = timedelta(minutes=10)
BEAT = timedelta(seconds=30)
LONGEST_BEAT = timedelta(hours=1)
HOUR = timedelta(hours=1)
UNASKED = timedelta(hours=6)
# How old a beat may be that a judge goes by: silence needs the newest, a top-up only charges what is proven by then.
_FRESH = {
    "cluster.judge": 2 * BEAT,
    "sessions.reconcile": 2 * BEAT,
    "sessions.sweep": 2 * BEAT,
    "billing.top_up": timedelta(hours=1),
}

# When each tick could do something next: rows of (name, moment); no row: not before something changes.
_AGENDA = """
    SELECT 'accounts.seal', min(e.at) FROM accounts_auditentry e
      WHERE e.at >= coalesce((SELECT sealed.at FROM accounts_auditseal last JOIN accounts_auditentry sealed
          ON sealed.id = last.entry_id ORDER BY last.seq DESC LIMIT 1) - interval '15 minutes', '-infinity')
        AND NOT EXISTS (SELECT 1 FROM accounts_auditseal s WHERE s.entry_id = e.id)
    UNION ALL SELECT 'billing.top_up', min(due_at) FROM billing_meter WHERE due_at IS NOT NULL
    UNION ALL SELECT 'sessions.reconcile', min(s.deadline_at + coalesce(deaf.span, interval '0'))
      FROM sessions_app_session s LEFT JOIN LATERAL (
        SELECT sum(least(d.until, %(now)s) - greatest(d.since, s.state_since)) AS span FROM cluster_deafness d
        WHERE d.until > s.state_since AND d.since < %(now)s) deaf ON true
      WHERE s.deadline_at IS NOT NULL
    UNION ALL SELECT 'sessions.reconcile', min(resume_at) FROM sessions_app_session WHERE state = 'paused'
    UNION ALL SELECT 'sessions.reconcile', min(hold_ends_at) FROM billing_meter
      WHERE hold_ends_at IS NOT NULL AND end_at IS NULL
    UNION ALL SELECT 'sessions.reconcile', min(state_since) FROM sessions_app_session
      WHERE resume_wanted AND state = 'paused'
    UNION ALL SELECT 'sessions.reconcile', min(n.not_ready_since) + interval '5 minutes'
      FROM cluster_node n JOIN sessions_app_run r ON r.cluster_id = n.cluster_id AND r.node = n.name
      JOIN sessions_app_session s ON s.id = r.session_id AND s.state IN ('starting', 'running')
      WHERE n.not_ready_since IS NOT NULL AND n.retired_at IS NULL AND r.closed_at IS NULL
    UNION ALL SELECT 'sessions.reconcile', min(c.last_beat_at)
      FROM cluster_cluster c JOIN sessions_app_run r ON r.cluster_id = c.id AND r.closed_at IS NULL
      JOIN sessions_app_session s ON s.id = r.session_id AND s.state IN ('starting', 'running')
      WHERE c.state = 'lost'
    UNION ALL SELECT 'sessions.drain_intents', min(changed_at) FROM accounts_drainintent WHERE closed_at IS NULL
    UNION ALL SELECT 'sessions.drain_queue', min(enqueued_at) FROM sessions_app_queueentry
    UNION ALL SELECT 'cluster.deliver', min(d.written_at) FROM cluster_desired d
      JOIN cluster_cluster c ON c.id = d.cluster_id AND c.kind = 'kube' AND c.removed_at IS NULL
      WHERE d.seq > c.delivered_seq
    UNION ALL SELECT 'orphans', min(claimed_at) FROM cluster_claim WHERE state = 'orphaned'
    UNION ALL SELECT 'news:' || cluster_id, to_timestamp(max(seq)) FROM cluster_desired GROUP BY cluster_id
"""
# Ticks that the agenda would keep busy without end, or for one row at a time: they run at most so often (a late tick is
# legal, and half of an hour's hold is left when a top-up is due); the line is walked soon after a hint.
_PATIENT = {
    "billing.top_up": 2 * LONGEST,
    "sessions.drain_queue": 3 * LONGEST,
    "sessions.drain_intents": CALM,
    "sessions.reconcile": timedelta(0),
}
# How soon a hint is followed after the turn before: workers may be busy, and a walk along a full line is most of what a day costs.
_HINTED = {"sessions.drain_queue": timedelta(minutes=4)}
_KNOWN = frozenset(
    {
        "accounts.seal",
        "billing.top_up",
        "cluster.deliver",
        "cluster.judge",
        "sessions.reconcile",
        "sessions.drain_intents",
        "sessions.drain_queue",
    }
)
# They look at what they judge by, so the listener's stamps and the beats must be of now.
_JUDGES = frozenset(_FRESH)


@dataclass
class Turn:
    """One tick's place in time."""

    tick: Tick
    offset: timedelta
    ran_at: datetime
    planned: datetime | None = None
    ticket: int = 0
    saw: int = 0  # how many changes there were when it ran


@dataclass
class Turns:
    """Runs the table. `workers_away`: nobody works; ticks are late, hints are lost."""

    world: World
    clusters: Sequence[Cluster]
    chance: Random
    workers_away: bool = False
    agenda: dict[str, datetime] = field(default_factory=dict)
    around: dict[str, Callable[[], AbstractContextManager[None]]] = field(default_factory=dict)
    _turns: dict[str, Turn] = field(default_factory=dict)

    def begin(self) -> None:
        """Put every row of the table on the clock."""
        for tick in ticks.table():
            offset = timedelta(seconds=self.chance.uniform(0, min(tick.period.total_seconds(), 60)))
            self._turns[tick.name] = Turn(tick, offset, self.world.now)
        self.world.after_change.append(self.follow_up)
        self.world.after(UNASKED.total_seconds(), self._unasked)
        for cluster in self.clusters:
            self._beat_later(cluster, self.world.now)
        self.follow_up()

    # After every change ----------------------------------------------------------------------------------------------

    def follow_up(self) -> None:
        """Deliver hints, read the agenda, plan the turns that follow from it."""
        self._deliver_hints()
        self._read_agenda()
        now = self.world.now
        for name, turn in self._turns.items():
            moment = self.agenda.get(name)
            if name in _KNOWN:
                if moment is not None:
                    self._plan_known(turn, moment)
            elif turn.tick.period < HOUR and self.world.changes > turn.saw:
                self._plan(turn, max(now, turn.ran_at + _CALM.get(name, CALM)))
        for cluster in self.clusters:
            newest = self.agenda.get(f"news:{cluster.row.pk}")
            if newest is not None:
                cluster.news(int(newest.timestamp()))
            if cluster.hurried or (cluster.changed and "orphans" in self.agenda):
                self._beat_later(cluster, now)

    def _read_agenda(self) -> None:
        self.agenda = {}
        for name, moment in asked(_AGENDA, {"now": self.world.now}):
            if moment is not None:
                self.agenda[name] = min(moment, self.agenda.get(name, moment))

    def _deliver_hints(self) -> None:
        sent, self.world.broker.sent = self.world.broker.sent, []
        for name in dict.fromkeys(sent):
            if self.workers_away or self.chance.random() < 0.05:
                self.world.seen["hints lost"] += 1
                continue
            self.world.seen["hints"] += 1
            turn = self._turns[name]
            moment = self.world.now + timedelta(seconds=self.chance.uniform(0.05, 0.5))
            moment = max(moment, turn.ran_at + _HINTED.get(name, timedelta(0)))
            if turn.planned is None or turn.planned > moment:
                self._put(turn, moment, hinted=True)

    # Turns -----------------------------------------------------------------------------------------------------------

    def _plan_known(self, turn: Turn, moment: datetime) -> None:
        """When its agenda says, and not more often than it is patient."""
        self._plan(turn, max(moment, turn.ran_at + _PATIENT.get(turn.tick.name, timedelta(0))))

    def _plan(self, turn: Turn, moment: datetime) -> None:
        """Its first own turn at `moment` or later."""
        own = self._own_turn(turn, max(moment, self.world.now, turn.ran_at + timedelta(milliseconds=1)))
        if turn.planned is None or turn.planned > own:
            self._put(turn, own)

    def _own_turn(self, turn: Turn, moment: datetime) -> datetime:
        period = turn.tick.period
        since = moment - self.world.begins_at - turn.offset
        return self.world.begins_at + turn.offset + -(-since // period) * period

    def _put(self, turn: Turn, moment: datetime, *, hinted: bool = False) -> None:
        turn.planned, turn.ticket = moment, turn.ticket + 1
        ticket = turn.ticket
        self.world.at(moment, lambda: self._take(turn, ticket, hinted=hinted))

    def _take(self, turn: Turn, ticket: int, *, hinted: bool) -> None:
        if turn.ticket != ticket:
            return
        turn.planned = None
        if self.workers_away:
            self._plan(turn, self.world.now + turn.tick.period)
            return
        name = turn.tick.name
        if name in _KNOWN and not hinted and not self._is_due(name):
            return  # what it was planned for is over; what comes next has planned it again, or will
        self._run(turn)

    def _is_due(self, name: str) -> bool:
        """Whether it could do something now. The agenda was read after the last change."""
        moment = self.agenda.get(name)
        if moment is not None and moment > self.world.now:
            self._plan_known(self._turns[name], moment)
        return name == "cluster.judge" or (moment is not None and moment <= self.world.now)

    def _run(self, turn: Turn) -> int:
        name = turn.tick.name
        if name in _JUDGES:
            self.world.listen()
            self._beat_before(name)
        turn.ran_at = self.world.now
        worked = ticks.TICK_ROWS.labels(name)
        before, changes = worked._value.get(), self.world.changes
        self.world.seen["ticks"] += 1
        try:
            with self.around.get(name, nullcontext)():
                ran = self.world.serve(name, lambda: ticks.run(turn.tick))
            if not ran:
                self.world.seen["ticks held elsewhere"] += 1
                self._plan(turn, self.world.now + turn.tick.period)
        except KilledError:
            # Its lease stays in the dead worker's hands; another tries again at the next turn.
            self._plan(turn, self.world.now + turn.tick.period)
        if name not in _KNOWN:
            self.world.changes = changes  # what it did itself is no reason for the others, nor for itself, to run again
        turn.saw = self.world.changes
        return int(worked._value.get() - before)

    def _unasked(self) -> None:
        """Every tick, asked or not. Those that work though nobody announced it are caught."""
        self.world.after(UNASKED.total_seconds(), self._unasked)
        if self.workers_away:
            return
        self.world.listen()
        self._read_agenda()
        for name, turn in self._turns.items():
            announced = name in self.agenda and self.agenda[name] <= self.world.now
            rows = self._run(turn)
            if rows and name in _KNOWN - {"cluster.judge"} and not announced:
                raise AssertionError(f"{name} worked on {rows} rows that its agenda did not announce")

    def leave(self) -> None:
        """No worker works: ticks do not run, hints are lost."""
        self.workers_away = True
        self.world.open_gap("away")

    def resume(self) -> None:
        """The workers are back."""
        self.workers_away = False
        self.world.close_gap("away")
        self.follow_up()

    # Beats -----------------------------------------------------------------------------------------------------------

    def judge_from(self, moment: datetime) -> None:
        """Silence began at `moment`: judge it when it becomes suspect, and when it is lost."""
        turn = self._turns["cluster.judge"]
        for span in (timedelta(seconds=91), timedelta(minutes=5, seconds=1)):
            self.world.at(moment + span, lambda: self._plan(turn, self.world.now))

    def _beat_later(self, cluster: Cluster, moment: datetime) -> None:
        due = moment + timedelta(seconds=self.chance.uniform(1, BEAT.total_seconds()))
        if cluster.next_beat_at is None or cluster.next_beat_at > due:
            cluster.next_beat_at = due
            self.world.at(due, lambda: self._beat(cluster, due))

    def _beat(self, cluster: Cluster, due: datetime) -> None:
        if cluster.next_beat_at != due:
            return
        cluster.next_beat_at = None
        cluster.beat()
        self._beat_later(cluster, self.world.now + (BEAT if not cluster.reaches else LONGEST_BEAT))

    def _beat_before(self, name: str) -> None:
        """What a judge reads of a cluster that speaks is never older than a beat or two."""
        for cluster in self.clusters:
            old = cluster.beaten_at is None or self.world.now - cluster.beaten_at > _FRESH[name]
            if cluster.reaches and old and (name != "sessions.reconcile" or self._hold_ends()):
                cluster.beat()

    def _hold_ends(self) -> bool:
        ((ends,),) = asked(
            "SELECT EXISTS (SELECT 1 FROM billing_meter WHERE hold_ends_at <= %(now)s AND settled_at IS NULL)",
            {"now": self.world.now},
        )
        return bool(ends)
