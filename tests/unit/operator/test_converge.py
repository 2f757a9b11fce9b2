"""What the operator does next and what it reports, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.operator.converge import Action, Kill, Open, Remove, Start, Step, Stop, converge
from cluster.operator.state import Memory, Outcome, Pod, RunRecord, Trouble
from gshare_core.contract import Desired, DesiredDocument, Phase, Reason, StatusReport
from tests.unit.operator.build import GRACE, NOW, SESSION, after, pod, spec, tombstone, wants

NOTHING = Memory(session=SESSION)


def remembering(*records: RunRecord) -> Memory:
    return Memory(session=SESSION, records=records)


def record(run: int = 1, generation: int = 1, **fields: Any) -> RunRecord:
    return RunRecord(run=run, generation=generation, **fields)


def latest(step: Step, run: int = 1) -> StatusReport:
    known = step.memory.record(run)
    assert known is not None
    assert known.report is not None
    return known.report


RUNNING, PAUSED, STOPPED = Desired.RUNNING, Desired.PAUSED, Desired.STOPPED

ACTIONS: list[tuple[str, DesiredDocument | None, Memory, list[Pod], list[Action]]] = [
    ("a wanted run is made", wants(), NOTHING, [], [Start(spec())]),
    ("what runs as wanted is left alone", wants(), remembering(record()), [pod(ready=True)], []),
    ("a pod that no way leads to is opened", wants(), remembering(record()), [pod(is_open=False)], [Open(spec())]),
    ("also one that nobody remembers", wants(), NOTHING, [pod(is_open=False, ready=True)], [Open(spec())]),
    (
        "a run that was ever ready was open: the next operator need not look",
        wants(),
        remembering(record(ready_at=NOW)),
        [pod(is_open=False, ready=True)],
        [],
    ),
    ("what shall end is not opened", wants(1, 2, STOPPED), remembering(record()), [pod(is_open=False)], [Stop(1)]),
    (
        "nor what fails, which may be for want of a way",
        wants(),
        remembering(record()),
        [pod(is_open=False, trouble=Trouble(Reason.CLAIM_MISMATCH, "no such class"))],
        [Stop(1)],
    ),
    ("nor a dead pod", wants(), remembering(record()), [pod(is_open=False, alive=False)], []),
    ("silence opens nothing", None, remembering(record()), [pod(is_open=False)], []),
    ("silence makes nothing", None, NOTHING, [], []),
    ("silence ends nothing", None, remembering(record()), [pod(ready=True)], []),
    ("a paused run is asked to end", wants(1, 2, PAUSED), remembering(record()), [pod()], [Stop(1)]),
    ("a stopped run is asked to end", wants(1, 2, STOPPED), remembering(record()), [pod()], [Stop(1)]),
    ("a tombstone ends every run", tombstone(), remembering(record()), [pod()], [Stop(1)]),
    (
        "within its grace a stopping run is left alone",
        wants(1, 2, STOPPED),
        remembering(record(ending=Reason.STOPPED)),
        [pod(stopping_since=after(1 - GRACE))],
        [],
    ),
    (
        "after its grace a stopping run is killed",
        wants(1, 2, STOPPED),
        remembering(record(ending=Reason.STOPPED)),
        [pod(stopping_since=after(-GRACE))],
        [Kill(1)],
    ),
    (
        "a dead pod of an ended run is removed",
        wants(1, 2, STOPPED),
        remembering(record(ending=Reason.STOPPED)),
        [pod(alive=False, stopping_since=NOW)],
        [Remove(1)],
    ),
    (
        "a new run waits for the old one's pod",
        wants(2, 3),
        remembering(record()),
        [pod()],
        [Stop(1)],
    ),
    (
        "a new run waits for the old one's dead pod too",
        wants(2, 3),
        remembering(record(ending=Reason.STOPPED)),
        [pod(alive=False, stopping_since=NOW)],
        [Remove(1)],
    ),
    ("a new run starts once the old one is gone", wants(2, 3), remembering(record()), [], [Start(spec(2, 3))]),
    ("a run that is gone is never made again", wants(1, 2), remembering(record(gone=Reason.VANISHED)), [], []),
    ("a run that vanished is not made again", wants(), remembering(record()), [], []),
    ("an ending run is not revived", wants(1, 9), remembering(record(ending=Reason.STOPPED)), [pod()], [Stop(1)]),
    ("an older run is never made", wants(1, 9), remembering(record(2, 3)), [], []),
    ("an older generation ends nothing", wants(1, 2, STOPPED), remembering(record(1, 3)), [pod()], []),
    ("a run shall end that was never made: nothing to do", wants(1, 2, STOPPED), NOTHING, [], []),
    (
        "an exited program's leftovers are ended",
        wants(),
        remembering(record()),
        [pod(exited=True)],
        [Stop(1)],
    ),
    (
        "a dead pod whose program exited stays until the control plane asks",
        wants(),
        remembering(record(outcome=Outcome(phase=Phase.EXITED))),
        [pod(exited=True, alive=False, stopping_since=NOW)],
        [],
    ),
    (
        "a lost pod is cleared away",
        wants(),
        remembering(record()),
        [pod(alive=False, lost=Reason.EVICTED)],
        [Remove(1)],
    ),
]


@pytest.mark.parametrize(
    ("wanted", "memory", "pods", "expected"), [row[1:] for row in ACTIONS], ids=[r[0] for r in ACTIONS]
)
def test_next_actions(wanted: DesiredDocument | None, memory: Memory, pods: list[Pod], expected: list[Action]) -> None:
    assert list(converge(wanted, memory, pods, NOW).actions) == expected


REPORTS: list[tuple[str, DesiredDocument | None, Memory, list[Pod], Phase, Reason | None]] = [
    ("a pod that does not answer yet is starting", wants(), NOTHING, [pod()], Phase.STARTING, None),
    ("a pod that pulls its image is pulling", wants(), NOTHING, [pod(pulling=True)], Phase.PULLING, None),
    ("a pod that answers is running", wants(), NOTHING, [pod(ready=True)], Phase.RUNNING, None),
    ("a pod asked to end is terminating", wants(1, 2, PAUSED), remembering(record()), [pod()], Phase.TERMINATING, None),
    ("a run paused before it was made is gone", wants(1, 2, PAUSED), NOTHING, [], Phase.GONE, Reason.STOPPED),
    ("a run stopped before it was made is gone", wants(1, 2, STOPPED), NOTHING, [], Phase.GONE, Reason.STOPPED),
    ("a tombstone of an unknown run is answered with gone", tombstone(1, 4), NOTHING, [], Phase.GONE, Reason.STOPPED),
    ("a pod that nobody ended vanished", wants(), remembering(record()), [], Phase.GONE, Reason.VANISHED),
    ("a vanished pod is reported without any document", None, remembering(record()), [], Phase.GONE, Reason.VANISHED),
    (
        "an evicted pod is gone as evicted",
        wants(),
        remembering(record(ending=Reason.EVICTED)),
        [],
        Phase.GONE,
        Reason.EVICTED,
    ),
    (
        "the end that was asked for first is its reason",
        wants(1, 2, STOPPED),
        remembering(record(ending=Reason.DRAINED)),
        [],
        Phase.GONE,
        Reason.DRAINED,
    ),
    (
        "what a program does while it is being ended says nothing of it",
        wants(1, 2, STOPPED),
        remembering(record(ending=Reason.STOPPED)),
        [pod(exited=True, stopping_since=NOW)],
        Phase.TERMINATING,
        None,
    ),
    (
        "a pod deleted by hand vanished",
        wants(),
        remembering(record(ending=Reason.VANISHED)),
        [],
        Phase.GONE,
        Reason.VANISHED,
    ),
    (
        "three crashes in ten minutes are a crash loop",
        wants(),
        remembering(record()),
        [pod(ready=True, crashed_at=(after(-500), after(-300), after(-1)), words="no such module")],
        Phase.FAILED,
        Reason.CRASH_LOOP,
    ),
    (
        "two crashes in ten minutes are not",
        wants(),
        remembering(record()),
        [pod(ready=True, crashed_at=(after(-601), after(-300), after(-1)))],
        Phase.RUNNING,
        None,
    ),
    (
        "a program that ended by itself exited",
        wants(),
        remembering(record()),
        [pod(exited=True, alive=False)],
        Phase.EXITED,
        None,
    ),
    (
        "what failed stays failed although its pod is away",
        wants(),
        remembering(record(outcome=Outcome(phase=Phase.FAILED, reason=Reason.CRASH_LOOP))),
        [],
        Phase.FAILED,
        Reason.CRASH_LOOP,
    ),
    (
        "what failed is gone once that is asked for",
        wants(1, 2, STOPPED),
        remembering(record(outcome=Outcome(phase=Phase.FAILED, reason=Reason.CRASH_LOOP))),
        [],
        Phase.GONE,
        Reason.STOPPED,
    ),
    (
        "a pod that cannot be made there failed with the reason",
        wants(),
        NOTHING,
        [pod(alive=False, trouble=Trouble(Reason.CLAIM_MISMATCH, "no such card"))],
        Phase.FAILED,
        Reason.CLAIM_MISMATCH,
    ),
    (
        "a run that shall be parked where nothing can be parked runs on",
        wants(1, 2, Desired.YIELDED),
        remembering(record()),
        [pod(ready=True)],
        Phase.RUNNING,
        None,
    ),
]


@pytest.mark.parametrize(
    ("wanted", "memory", "pods", "phase", "reason"), [row[1:] for row in REPORTS], ids=[r[0] for r in REPORTS]
)
def test_reported_phase(
    wanted: DesiredDocument | None, memory: Memory, pods: list[Pod], phase: Phase, reason: Reason | None
) -> None:
    report = latest(converge(wanted, memory, pods, NOW))
    assert (report.phase, report.reason) == (phase, reason)


def test_a_crash_loop_is_reported_with_the_programs_own_words() -> None:
    crashed = pod(crashed_at=(NOW, NOW, NOW), words="ModuleNotFoundError: torch")
    assert latest(converge(wants(), NOTHING, [crashed], NOW)).message == "ModuleNotFoundError: torch"


def test_a_restarting_program_is_starting_with_its_words_but_keeps_when_it_was_ready() -> None:
    first = converge(wants(), NOTHING, [pod(ready=True)], NOW)
    again = converge(wants(), first.memory, [pod(crashed_at=(after(5),), words="killed")], after(6))
    report = latest(again)
    assert (report.phase, report.message, report.ready_at) == (Phase.STARTING, "killed", NOW)


def test_an_unchanged_run_is_reported_once_for_each_observed_generation() -> None:
    first = converge(wants(1, 1), NOTHING, [pod(ready=True)], NOW)
    same = converge(wants(1, 1), first.memory, [pod(ready=True, alive_at=after(1))], after(1))
    newer = converge(wants(1, 2), same.memory, [pod(ready=True, alive_at=after(2))], after(2))
    assert latest(same) == latest(first)
    assert (latest(newer).generation, latest(newer).phase) == (2, Phase.RUNNING)
    assert latest(newer).sequence > latest(first).sequence


def test_a_run_is_reported_anew_when_asked_and_what_is_gone_is_not() -> None:
    first = converge(wants(), NOTHING, [pod(ready=True)], NOW)
    anew = converge(wants(), first.memory, [pod(ready=True, alive_at=after(9))], after(9), anew=True)
    assert (latest(anew).phase, latest(anew).ready_at, latest(anew).last_alive_at) == (Phase.RUNNING, NOW, after(9))
    assert latest(anew).sequence > latest(first).sequence
    gone = converge(wants(), anew.memory, [], after(10))
    assert latest(converge(wants(), gone.memory, [], after(11), anew=True)) == latest(gone)


def test_reports_are_cumulative_so_that_a_gone_tells_when_it_ran() -> None:
    ran = converge(wants(), NOTHING, [pod(ready=True, cards=("GPU-1",))], NOW)
    lived = converge(None, ran.memory, [pod(ready=True, cards=("GPU-1",), alive_at=after(60))], after(60))
    gone = latest(converge(None, lived.memory, [], after(90)))
    assert (gone.ready_at, gone.last_alive_at, gone.cards, gone.node) == (NOW, after(60), ("GPU-1",), "gpu-01")


def test_the_proof_of_life_never_moves_back() -> None:
    seen = converge(wants(), NOTHING, [pod(alive_at=after(10))], after(10))
    stepped_back = converge(wants(), seen.memory, [pod(alive_at=NOW)], NOW)
    known = stepped_back.memory.record(1)
    assert known is not None
    assert known.last_alive_at == after(10)


def test_the_sequence_is_unix_milliseconds_and_grows_although_the_clock_steps_back() -> None:
    first = latest(converge(wants(), NOTHING, [pod()], NOW))
    memory = remembering(record(report=first))
    second = latest(converge(wants(), memory, [pod(ready=True)], after(-3600)))
    assert first.sequence == int(NOW.timestamp() * 1000)
    assert second.sequence == first.sequence + 1


def test_gone_is_reported_again_for_a_newer_generation() -> None:
    gone = converge(wants(1, 2, PAUSED), NOTHING, [], NOW)
    later = converge(wants(1, 3, STOPPED), gone.memory, [], NOW)
    assert (latest(later).phase, latest(later).generation) == (Phase.GONE, 3)


def test_an_old_run_is_gone_before_the_new_one_starts_and_is_kept_until_acknowledged() -> None:
    step = converge(wants(2, 3), remembering(record(1, 1)), [], NOW)
    assert step.actions == (Start(spec(2, 3)),)
    assert latest(step, run=1).phase is Phase.GONE
    started = converge(wants(2, 3), step.memory, [pod(2, generation=3)], NOW)
    assert {known.run for known in started.memory.records} == {1, 2}
    acknowledged = started.memory.acknowledge(1, latest(step, run=1).sequence)
    assert {known.run for known in converge(wants(2, 3), acknowledged, [pod(2, generation=3)], NOW).memory.records} == {
        2
    }


def test_the_end_of_the_cluster_ends_what_runs_as_cluster_stopped_and_makes_nothing() -> None:
    asked = converge(wants(), remembering(record()), [pod(ready=True)], NOW, ending=True)
    assert asked.actions == (Stop(1),)
    gone = converge(wants(), asked.memory, [], after(1), ending=True)
    assert (latest(gone).phase, latest(gone).reason, gone.actions) == (Phase.GONE, Reason.CLUSTER_STOPPED, ())
    assert converge(wants(), NOTHING, [], NOW, ending=True).actions == ()


def test_the_end_of_the_cluster_waits_for_no_long_grace() -> None:
    asked = converge(wants(), remembering(record()), [pod()], NOW, ending=True)
    deaf = [pod(stopping_since=NOW)]
    assert converge(wants(), asked.memory, deaf, after(7), ending=True).actions == ()
    assert converge(wants(), asked.memory, deaf, after(8), ending=True).actions == (Kill(1),)


def test_the_end_of_the_cluster_clears_away_what_failed_too() -> None:
    failed = record(outcome=Outcome(phase=Phase.FAILED, reason=Reason.CRASH_LOOP))
    dead = pod(alive=False, stopping_since=NOW)
    asked = converge(wants(), remembering(failed), [dead], NOW, ending=True)
    assert asked.actions == (Remove(1),)
    assert latest(converge(wants(), asked.memory, [], NOW, ending=True)).reason is Reason.CLUSTER_STOPPED


def test_an_interrupted_end_of_the_cluster_goes_on_after_a_restart() -> None:
    asked = converge(wants(), remembering(record()), [pod(ready=True)], NOW, ending=True)
    restarted = converge(wants(), asked.memory, [pod(alive=False, stopping_since=NOW)], after(5))
    assert restarted.actions == (Remove(1),)
    assert latest(converge(wants(), restarted.memory, [], after(6))).reason is Reason.CLUSTER_STOPPED


def test_a_run_that_the_control_plane_ended_is_gone_as_stopped_although_the_cluster_ends_too() -> None:
    asked = converge(wants(1, 2, STOPPED), remembering(record()), [pod()], NOW, ending=True)
    assert latest(converge(wants(1, 2, STOPPED), asked.memory, [], NOW, ending=True)).reason is Reason.STOPPED


def test_a_session_is_forgotten_after_its_tombstone_only_when_gone_is_acknowledged() -> None:
    gone = converge(tombstone(), remembering(record()), [], NOW)
    assert not gone.forget
    acknowledged = gone.memory.acknowledge(1, latest(gone).sequence)
    assert converge(tombstone(), acknowledged, [], NOW).forget


def test_a_pod_of_lost_memory_is_adopted_and_not_made_again() -> None:
    step = converge(wants(2, 5), NOTHING, [pod(2, generation=4, ready=True)], NOW)
    assert step.actions == ()
    assert (latest(step, run=2).phase, latest(step, run=2).generation) == (Phase.RUNNING, 5)


def test_an_acknowledgement_of_an_older_report_leaves_the_newer_one_pending() -> None:
    first = converge(wants(), NOTHING, [pod()], NOW)
    second = converge(wants(), first.memory, [pod(ready=True)], after(1))
    known = second.memory.acknowledge(1, latest(first).sequence).record(1)
    assert known is not None
    assert known.pending


def test_nobody_hears_that_a_run_is_ready_before_a_way_leads_to_it() -> None:
    seen = [pod(ready=True, is_open=False)]
    step = converge(wants(), remembering(record()), seen, NOW)
    assert (latest(step).phase, latest(step).ready_at) == (Phase.STARTING, None)
    step = converge(wants(), step.memory, [pod(ready=True, alive_at=after(3))], after(3))
    assert (latest(step).phase, latest(step).ready_at) == (Phase.RUNNING, after(3))
    step = converge(wants(), step.memory, seen, after(4))
    assert latest(step).phase is Phase.RUNNING, "the next operator, which has not looked, takes nothing back"
