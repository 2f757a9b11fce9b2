"""ONE table of periodic work, and the one function that runs a row of it.

Guarantees: a tick runs on one worker at a time (a lease row, taken by compare-and-set, short enough that a killed worker
delays the next turn little; each callable guards its rows by itself as well); one that came too late is dropped by its expiry
and not queued up; one that fails says so in the metrics and is tried again at its next turn. Ticks are truth: each re-reads its
rows, so a lost, late or doubled one changes nothing but latency. Hints are the same tasks, sent by name when rows changed.
"""

import time
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.utils.module_loading import import_string
from prometheus_client import Counter, Gauge, Histogram

from accounts.leases import hold

SHORTEST_LEASE = timedelta(seconds=10)

TICK_SECONDS = Histogram(
    "gshare_tick_seconds", "Duration of a tick.", ["tick"], buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300)
)
TICK_RUNS = Counter("gshare_ticks", "Ticks by result.", ["tick", "result"])
TICK_ROWS = Counter("gshare_tick_rows", "Rows a tick worked on.", ["tick"])
TICK_LAST = Gauge(
    "gshare_tick_last_success_timestamp_seconds", "When it last ended well.", ["tick"], multiprocess_mode="max"
)


@dataclass(frozen=True)
class Tick:
    """`call` (dotted path of a function without arguments) every `period`. The name is also its task's, for hints."""

    name: str
    call: str
    period: timedelta

    @property
    def expiry(self) -> timedelta:
        """How late it may start: its next turn does the same."""
        return self.period

    @property
    def lease(self) -> timedelta:
        """How long one worker has it to itself, at most."""
        return max(SHORTEST_LEASE, self.period)


def table() -> tuple[Tick, ...]:
    """Every periodic work there is. A callable returns how many rows it worked on, or what has that as `looked_at`."""
    conf, hourly = settings.GSHARE, timedelta(hours=1)
    return (
        Tick("accounts.seal", "accounts.audit.seal_entries", timedelta(seconds=1)),
        Tick("accounts.seal_stragglers", "accounts.audit.seal_stragglers", hourly),
        Tick("kit.idempotency", "gshare_core.kit.idempotency.sweep", hourly),
        Tick("billing.top_up", "billing.services.top_up_due", conf.meter_period),
        Tick("billing.refill", "billing.services.refill_due", conf.refill_period),
        Tick("billing.trial_balance", "billing.trial.watch", conf.trial_period),
        Tick("billing.rederive_budgets", "billing.services.rederive_budgets", hourly),
        Tick("cluster.deliver", "cluster.delivery.deliver", conf.deliver_period),
        Tick("cluster.judge", "cluster.ticks.judge", conf.reconcile_period),
        Tick("cluster.modes", "cluster.mode_changes.look_after", conf.mode_period),
        Tick("cluster.purge_volumes", "cluster.ticks.purge", hourly),
        Tick("cluster.prune_changes", "cluster.ticks.prune", hourly),
        Tick("sessions.drain_queue", "sessions_app.queue.drain", conf.queue_sweep_period),
        Tick("sessions.recent_use", "sessions_app.recent_use.refresh", conf.use_period),
        Tick("sessions.outlook", "sessions_app.estimates.refresh", conf.outlook_period),
        Tick("sessions.drain_intents", "sessions_app.draining.drain", conf.reconcile_period),
        Tick("sessions.reconcile", "sessions_app.reconciler.reconcile", conf.reconcile_period),
        Tick("sessions.recount", "sessions_app.recounting.watch", hourly),
        Tick("sessions.sweep", "sessions_app.sweep.sweep", conf.sweep_period),
        Tick("sessions.judge_idle", "sessions_app.idleness.judge", conf.reconcile_period),
        Tick("sessions.forget", "sessions_app.reconciler.forget_old", hourly),
    )


def named(name: str) -> Tick:
    """The row of this name. Raises KeyError."""
    return {tick.name: tick for tick in table()}[name]


def run(tick: Tick) -> bool:
    """Run one tick now unless another worker holds it. Returns whether it ran; errors are counted and raised."""
    name = tick.name
    with hold(f"tick:{name}", seconds=tick.lease.total_seconds()) as turn:
        if not turn:
            TICK_RUNS.labels(name, "held_elsewhere").inc()
            return False
        started = time.perf_counter()
        try:
            rows = import_string(tick.call)()
        except Exception:
            TICK_RUNS.labels(name, "failed").inc()
            raise
        finally:
            TICK_SECONDS.labels(name).observe(time.perf_counter() - started)
    TICK_RUNS.labels(name, "done").inc()
    TICK_LAST.labels(name).set_to_current_time()
    TICK_ROWS.labels(name).inc(getattr(rows, "looked_at", rows) or 0)
    return True
