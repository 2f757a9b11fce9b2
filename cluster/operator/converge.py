"""What to do next about one session, and what to report of it. Pure: wanted, remembered and seen, now → a step.

Guarantees (level-triggered: the same call again, or after any crash, leads to the same end)
* a run is made only while no pod of any run of its session exists, and only when it was never made before;
* `gone` is said only when no pod of the run exists and none will be made; a run that is ending is never revived;
* a report after every observed generation, even when nothing changed; reports are cumulative;
* nobody hears of a run that it is ready before what leads to it is there;
* what a program did (`exited`, `failed`) is reported until the control plane asks for the end, so that `gone` cannot
  overtake its reason.
Refuses: documents older than what was observed; to end anything because a document is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from cluster.operator.state import Memory, Outcome, Pod, RunRecord
from gshare_core.contract import (
    Desired,
    DesiredDocument,
    Phase,
    Reason,
    SessionSpec,
    StatusReport,
    next_sequence,
)

CRASHES = 3
CRASH_WINDOW = timedelta(minutes=10)
DEFAULT_GRACE = timedelta(seconds=120)
CLUSTER_GRACE = timedelta(seconds=8)


@dataclass(frozen=True, slots=True)
class Start:
    """Make the pod of this document's run."""

    spec: SessionSpec


@dataclass(frozen=True, slots=True)
class Open:
    """Make what leads to the pod of this document's run, where that is made apart from it."""

    spec: SessionSpec


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the run's pod to end; nothing of it is started again."""

    run: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End the run's pod without asking: its grace is over."""

    run: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Forget the dead pod of a run and its scratch."""

    run: int


Action = Start | Open | Stop | Kill | Remove


@dataclass(frozen=True, slots=True)
class Step:
    """The memory to keep (before acting), the actions to take, and whether nothing of the session is left to know."""

    memory: Memory
    actions: tuple[Action, ...] = ()
    forget: bool = False


class _Wish(Enum):
    KEEP = auto()  # nobody says anything: leave it as it is
    RUN = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class _Case:
    """One run: the document (None: silence or stale), what is wanted of this run, its pod, the end of the cluster."""

    wanted: DesiredDocument | None
    wish: _Wish
    pod: Pod | None
    ending: bool
    now: datetime

    @property
    def grace(self) -> timedelta:
        spec = self.wanted.spec if self.wanted else None
        grace = timedelta(seconds=spec.deadlines.stop_grace_seconds) if spec else DEFAULT_GRACE
        return min(grace, CLUSTER_GRACE) if self.ending else grace


def converge(
    wanted: DesiredDocument | None,
    memory: Memory,
    pods: Sequence[Pod],
    now: datetime,
    *,
    ending: bool = False,
    anew: bool = False,
) -> Step:
    """The next step for one session; `pods` are its own. `ending`: the whole cluster is being stopped.

    No document means silence: what runs keeps running and is reported, nothing is made. A tombstone ends every run.
    `anew`: report what is not gone once more, although nothing changed: the control plane may have given it up.
    """
    wanted = _unless_stale(wanted, memory, pods)
    by_run = {pod.run: pod for pod in pods}
    runs = sorted({record.run for record in memory.records} | by_run.keys() | _named_runs(wanted))
    records: list[RunRecord] = []
    actions: list[Action] = []
    sequence = memory.last_sequence
    for run in runs:
        case = _Case(wanted, _wish_for(run, wanted), by_run.get(run), ending, now)
        record = _observed(_known(run, memory, case), case)
        if record is None:
            continue
        record = _gone_if_so(record, case)
        actions += _opening_action(record, case) or _ending_actions(record, case)
        report = _report(record, case, next_sequence(sequence, _milliseconds(now)))
        if record.report is None or _says(report) != _says(record.report) or (anew and record.gone is None):
            record = record.model_copy(update={"report": report})
            sequence = report.sequence
        records.append(record)
    kept = _still_needed(records)
    if _may_start(wanted, records, pods, ending=ending) and wanted is not None and wanted.spec is not None:
        actions.append(Start(wanted.spec))
    tombstone = wanted is not None and wanted.spec is None
    forget = tombstone and not pods and all(record.finished for record in kept)
    return Step(memory.model_copy(update={"records": kept}), tuple(actions), forget)


def begun(memory: Memory, spec: SessionSpec) -> Memory:
    """The memory once the run's pod was made: from now on its absence means that it vanished."""
    if memory.record(spec.run) is not None:
        return memory
    record = RunRecord(run=spec.run, generation=spec.generation)
    return memory.model_copy(update={"records": (*memory.records, record)})


def _unless_stale(wanted: DesiredDocument | None, memory: Memory, pods: Sequence[Pod]) -> DesiredDocument | None:
    if wanted is None or wanted.spec is None:
        return wanted
    newest_pod = max((pod.run for pod in pods), default=0)
    stale = wanted.spec.order < memory.newest or wanted.spec.run < newest_pod
    return None if stale else wanted


def _named_runs(wanted: DesiredDocument | None) -> set[int]:
    if wanted is None:
        return set()
    run = wanted.spec.run if wanted.spec else wanted.run
    return {run} if run else set()


def _wish_for(run: int, wanted: DesiredDocument | None) -> _Wish:
    if wanted is None:
        return _Wish.KEEP
    if wanted.spec is None or wanted.spec.run != run:
        return _Wish.END
    # A run that shall be yielded keeps running here: parking needs a substrate that can; the report says so.
    keeps = wanted.spec.desired in (Desired.RUNNING, Desired.YIELDED)
    return _Wish.RUN if keeps else _Wish.END


def _known(run: int, memory: Memory, case: _Case) -> RunRecord | None:
    """The run's record, with the newest generation that was observed of it; None while it was never made.

    A run that shall end and was never seen is recorded as gone: nothing of it exists, and none will be made.
    """
    named = run in _named_runs(case.wanted)
    generation = _generation_of(case.wanted) if named else 1
    record = memory.record(run)
    if record is not None:
        return record.model_copy(update={"generation": max(record.generation, generation)})
    if case.pod is not None:
        return RunRecord(run=run, generation=max(case.pod.generation, generation))
    if case.wish is _Wish.END and named:
        return RunRecord(run=run, generation=generation, ending=Reason.STOPPED)
    return None


def _generation_of(wanted: DesiredDocument | None) -> int:
    if wanted is None:
        return 1
    return wanted.spec.generation if wanted.spec else (wanted.generation or 1)


def _observed(record: RunRecord | None, case: _Case) -> RunRecord | None:
    """The record with what the pod shows: proof of life, readiness, how its program ended, why it will be gone."""
    if record is None or record.gone is not None:
        return record
    seen = _seen(record, case.pod) if case.pod else record
    ending = seen.ending or _reason_to_end(seen, case)
    outcome = seen.outcome
    if outcome is None and ending is None and case.pod is not None:
        outcome = _outcome(case.pod, case.now)
    return seen.model_copy(update={"ending": ending, "outcome": outcome})


def _seen(record: RunRecord, pod: Pod) -> RunRecord:
    alive_at = max((moment for moment in (record.last_alive_at, pod.alive_at) if moment), default=None)
    ready_at = record.ready_at or (pod.alive_at if pod.ready and pod.is_open else None)
    return record.model_copy(
        update={
            "pod": pod.name,
            "node": pod.node,
            "cards": pod.cards,
            "mig": pod.mig,
            "last_alive_at": alive_at,
            "ready_at": ready_at,
        }
    )


def _reason_to_end(record: RunRecord, case: _Case) -> Reason | None:
    if case.wish is _Wish.END:
        return Reason.STOPPED
    if record.outcome is not None:
        return Reason.CLUSTER_STOPPED if case.ending else None
    if case.pod is None:
        return Reason.VANISHED
    if case.pod.lost is not None:
        return case.pod.lost
    if case.ending:
        return Reason.CLUSTER_STOPPED
    if case.pod.stopping_since is not None:
        return Reason.VANISHED  # somebody deleted it by hand
    return None


def _outcome(pod: Pod, now: datetime) -> Outcome | None:
    if pod.trouble is not None:
        return Outcome(phase=Phase.FAILED, reason=pod.trouble.reason, message=pod.trouble.message)
    recent = [moment for moment in pod.crashed_at if now - moment < CRASH_WINDOW]
    if len(recent) >= CRASHES:
        return Outcome(phase=Phase.FAILED, reason=Reason.CRASH_LOOP, message=pod.words)
    if pod.exited:
        return Outcome(phase=Phase.EXITED, message=pod.words)
    return None


def _gone_if_so(record: RunRecord, case: _Case) -> RunRecord:
    if record.gone is None and record.ending is not None and case.pod is None:
        return record.model_copy(update={"gone": record.ending})
    return record


def _opening_action(record: RunRecord, case: _Case) -> list[Action]:
    """What leads to the pod, while it lives and is not known to be open. A run that was ever ready was open: the record
    tells the next operator, which knows of no pod what another one made for it."""
    pod, spec = case.pod, case.wanted.spec if case.wanted else None
    if pod is None or pod.is_open or not pod.alive or pod.stopping_since is not None or spec is None:
        return []
    fate = record.ending or record.outcome or record.gone or record.ready_at
    return [Open(spec)] if fate is None and case.wish is _Wish.RUN else []


def _ending_actions(record: RunRecord, case: _Case) -> list[Action]:
    """What brings a pod to its end, when it shall end or its program has ended."""
    pod = case.pod
    if pod is None or (record.ending is None and record.outcome is None and record.gone is None):
        return []
    if not pod.alive and (record.ending is not None or record.gone is not None):
        return [Remove(record.run)]
    if pod.stopping_since is None:
        return [Stop(record.run)]
    if pod.alive and case.now - pod.stopping_since >= case.grace:
        return [Kill(record.run)]
    return []


def _may_start(
    wanted: DesiredDocument | None, records: Sequence[RunRecord], pods: Sequence[Pod], *, ending: bool
) -> bool:
    if wanted is None or wanted.spec is None or wanted.spec.desired is not Desired.RUNNING or ending or pods:
        return False
    return all(record.run < wanted.spec.run and record.gone is not None for record in records)


def _still_needed(records: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """All but older runs that are finished: the newest record stays as the fence against stale documents."""
    return tuple(record for index, record in enumerate(records) if index == len(records) - 1 or not record.finished)


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _report(record: RunRecord, case: _Case, sequence: int) -> StatusReport:
    """What there is to say of the run now."""
    phase, reason, message = _phase(record, case.pod)
    return StatusReport(
        run=record.run,
        generation=record.generation,
        sequence=sequence,
        phase=phase,
        reason=reason,
        message=message,
        pod=record.pod,
        node=record.node,
        cards=record.cards,
        mig=record.mig,
        ready_at=record.ready_at,
        last_alive_at=record.last_alive_at,
        observed_at=case.now,
        sent_at=case.now,
        endpoints=dict(case.pod.endpoints) if case.pod and phase is Phase.RUNNING else {},
    )


def _says(report: StatusReport) -> dict[str, object]:
    """A report without what moves at every look: proof of life also travels with the inventory."""
    return report.model_dump(exclude={"sequence", "observed_at", "sent_at", "last_alive_at"})


def _phase(record: RunRecord, pod: Pod | None) -> tuple[Phase, Reason | None, str]:
    if record.gone is not None:
        return Phase.GONE, record.gone, record.outcome.message if record.outcome else ""
    if record.outcome is not None:
        return record.outcome.phase, record.outcome.reason, record.outcome.message
    if record.ending is not None or pod is None:
        return Phase.TERMINATING, None, ""
    if pod.ready and (pod.is_open or record.ready_at is not None):  # nobody is sent to where no way leads yet
        return Phase.RUNNING, None, ""
    if pod.pulling:
        return Phase.PULLING, None, ""
    return Phase.STARTING, None, pod.words if pod.crashed_at else ""
