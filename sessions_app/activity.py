"""What clusters say that runs do, folded into one row a run.

Guarantees: an older, doubled or absurd sample changes nothing; a row is written under its own lock and no other, so that
beats and admissions do not queue behind each other. Times are shifted by the sender's clock difference, and those that lie in
the future then are dropped, not pulled back: a clamped one would look like use just now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

from django.db import transaction
from pydantic import TypeAdapter

from gshare_core.contract import Activity, SessionRow, UsageRow
from sessions_app.domain.idle import Bounds, Memory, fold, fold_usage
from sessions_app.models import Run, RunActivity

BATCH = 200
DEFAULT_WINDOW = timedelta(hours=2)  # until a policy was looked at

_MEMORY = TypeAdapter(Memory)


def memory_of(row: RunActivity) -> Memory:
    """What is remembered of a run."""
    return _MEMORY.validate_python(row.memory) if row.memory else Memory()


def hear(cluster_id: UUID, rows: Iterable[SessionRow], *, by: timedelta, now: datetime) -> int:
    """Fold a beat's samples in; answers how many were news. `by` is what the cluster's clock is behind ours.

    Only open runs of that cluster count; what else is named is left aside.
    """
    samples = {(row.id, row.run): row.activity for row in rows if row.activity is not None}
    if not samples:
        return 0
    named = Run.objects.filter(cluster=cluster_id, closed_at=None, session_id__in={session for session, _ in samples})
    runs = [run for run in named.select_related("session__offering") if (run.session_id, run.number) in samples]
    heard = [(run, shifted(sample, by)) for run in runs if (sample := samples[run.session_id, run.number])]
    return _in_batches(heard, fold, now)


def hear_usage(
    cluster_id: UUID, rows: Mapping[tuple[UUID, int], UsageRow], *, now: datetime
) -> tuple[int, frozenset[tuple[UUID, int]]]:
    """Fold in what nodes' agents counted; answers how many were news, and which are no runs of that cluster.

    A run that has ended is the cluster's own and no news.
    """
    named = Run.objects.filter(cluster=cluster_id, session_id__in={session for session, _ in rows})
    runs = [run for run in named.select_related("session__offering") if (run.session_id, run.number) in rows]
    heard = [
        (run, Activity(at=row.at, cpu_usec=row.cpu_usec, memory_bytes=row.memory_bytes))
        for run in runs
        if run.closed_at is None
        for row in [rows[run.session_id, run.number]]
    ]
    return _in_batches(heard, fold_usage, now), frozenset(rows.keys() - {(run.session_id, run.number) for run in runs})


class _Fold(Protocol):
    def __call__(self, memory: Memory, sample: Activity, bounds: Bounds, *, window: timedelta) -> Memory: ...


def _in_batches(heard: Sequence[tuple[Run, Activity]], take: _Fold, now: datetime) -> int:
    ordered = sorted(heard, key=lambda each: each[0].pk)
    batches = (ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH))
    return sum(_fold_in({run.pk: (run, sample) for run, sample in batch}, take, now) for batch in batches)


def _fold_in(heard: dict[UUID, tuple[Run, Activity]], take: _Fold, now: datetime) -> int:
    with transaction.atomic():
        RunActivity.objects.bulk_create([RunActivity(run_id=pk) for pk in heard], ignore_conflicts=True)
        changed = []
        for row in RunActivity.objects.filter(pk__in=heard).order_by("pk").select_for_update(no_key=True):
            run, sample = heard[row.pk]
            before = memory_of(row)
            window = timedelta(minutes=row.timeout_min) if row.timeout_min else DEFAULT_WINDOW
            after = take(before, sample, _bounds(run, now), window=window)
            if after is not before:
                row.memory, row.sampled_at = _MEMORY.dump_python(after, mode="json"), after.at
                changed.append(row)
        RunActivity.objects.bulk_update(changed, ["memory", "sampled_at"])
    return len(changed)


def _bounds(run: Run, now: datetime) -> Bounds:
    offering = run.session.offering
    return Bounds(run.opened_at, now, offering.vram_mib if offering else 0)


def shifted(sample: Activity, by: timedelta) -> Activity:
    """The sample with all its times on our clock."""

    def time(at: datetime | None) -> datetime | None:
        return None if at is None else at + by

    gpu = sample.gpu and sample.gpu.model_copy(update={"last_kernel_at": time(sample.gpu.last_kernel_at)})
    apps = [app.model_copy(update={"last_activity_at": time(app.last_activity_at)}) for app in sample.apps]
    return sample.model_copy(update={"at": sample.at + by, "gpu": gpu, "apps": tuple(apps)})
