"""What is not decided and read again says what deciding and reading again would have said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cluster.operator.converge import Step, Stop, converge
from cluster.operator.reading.nodes import NodeState
from cluster.operator.reading.pods import Surroundings, read_pod
from cluster.operator.state import Memory, Pod, Trouble
from cluster.operator.steady import Steady
from cluster.operator.substrates.kubernetes.settled import Readings, is_settled
from gshare_core.contract import Desired, DesiredDocument, Reason
from tests.unit.operator.build import NOW, SESSION, after, pod, spec, wants
from tests.unit.operator.kube_objects import JSON, READY, a_pod, at, ended, is_condition, running, waiting

WANTED = wants()
READY_POD = pod(ready=True)


def settled(wanted: DesiredDocument | None = WANTED, seen: Pod = READY_POD) -> tuple[Steady, Memory]:
    """A session that was looked at until nothing more was to be done, and what is remembered of it."""
    steady, memory = Steady(), Memory(session=SESSION)
    for second in range(3):
        pods = [replace(seen, alive_at=after(second))]
        step = converge(wanted, memory, pods, after(second))
        steady.note(wanted, memory, pods, step)
        memory = step.memory
    return steady, memory


def test_a_session_that_lives_on_is_remembered_as_deciding_would_have_it() -> None:
    steady, memory = settled()
    for second in (10, 20, 30):
        pods = [replace(READY_POD, alive_at=after(second))]
        lived = steady.lives_on(WANTED, memory, pods)
        assert lived is not None
        assert lived == converge(WANTED, memory, pods, after(second)).memory
        assert lived.records[0].last_alive_at == after(second)
        memory = lived


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"alive": False},
        {"exited": True},
        {"node": "gpu-02"},
        {"cards": ("GPU-2",)},
        {"crashed_at": (NOW,)},
        {"lost": Reason.DRAINED},
        {"stopping_since": NOW},
        {"trouble": Trouble(Reason.CLAIM_MISMATCH, "another card")},
        {"run": 2},
    ],
)
def test_whatever_changes_of_the_pod_is_decided(change: dict[str, Any]) -> None:
    steady, memory = settled()
    assert steady.lives_on(WANTED, memory, [replace(READY_POD, **change)]) is None


def test_many_looks_a_second_are_one_proof_of_life() -> None:
    steady, memory = settled()
    assert steady.lives_on(WANTED, memory, [replace(READY_POD, alive_at=after(2.5))]) is memory
    lived = steady.lives_on(WANTED, memory, [replace(READY_POD, alive_at=after(3))])
    assert lived is not None and lived.records[0].last_alive_at == after(3)


@pytest.mark.parametrize("wanted", [None, wants(generation=2), wants(desired=Desired.STOPPED)])
def test_whatever_is_wanted_otherwise_is_decided(wanted: DesiredDocument | None) -> None:
    steady, memory = settled()
    assert steady.lives_on(wanted, memory, [READY_POD]) is None


def test_a_memory_that_somebody_else_changed_is_decided() -> None:
    steady, memory = settled()
    assert steady.lives_on(WANTED, memory.acknowledge(1, 5), [READY_POD]) is None


def test_no_pod_and_a_second_pod_are_decided() -> None:
    steady, memory = settled()
    assert steady.lives_on(WANTED, memory, []) is None
    assert steady.lives_on(WANTED, memory, [READY_POD, pod(run=2)]) is None


@pytest.mark.parametrize(
    "seen",
    [pod(), pod(ready=True, crashed_at=(NOW,)), pod(ready=True, stopping_since=NOW)],
    ids=["not ready", "crashed", "ending"],
)
def test_what_time_alone_may_change_is_decided_at_every_look(seen: Pod) -> None:
    steady, memory = settled(seen=seen)
    assert steady.lives_on(WANTED, memory, [seen]) is None


def test_a_run_that_is_ending_is_decided_at_every_look_though_its_pod_seems_quiet() -> None:
    """Whoever decided its end may have been killed before it asked anybody."""
    steady, memory = settled()
    ending = converge(wants(desired=Desired.STOPPED), memory, [READY_POD], NOW).memory
    for _look in range(2):
        assert steady.lives_on(WANTED, ending, [READY_POD]) is None
        step = converge(WANTED, ending, [READY_POD], NOW)
        assert step.actions == (Stop(1),)
        steady.note(WANTED, ending, [READY_POD], step)
        steady.note(WANTED, ending, [READY_POD], Step(ending))  # not even if nobody asked for it
        ending = step.memory


def test_an_answer_that_changed_something_is_no_answer_for_the_next_time() -> None:
    steady, memory = Steady(), Memory(session=SESSION)
    step = converge(WANTED, memory, [READY_POD], NOW)
    steady.note(WANTED, memory, [READY_POD], step)
    assert steady.lives_on(WANTED, step.memory, [READY_POD]) is None


# --- pods ------------------------------------------------------------------------------------------------------------

SPEAKS = {"gpu-01": NodeState(ready=True, heartbeat_at=at(-5), hostname="gpu-01")}
SILENT = {"gpu-01": NodeState(ready=False, heartbeat_at=at(-5), hostname="gpu-01")}


class Reading:
    """Readings of one pod; `asked` counts how often it was really read."""

    def __init__(self, item: JSON) -> None:
        self.item, self.readings, self.asked = item, Readings(), 0

    def take(self, seconds: float, nodes: dict[str, NodeState]) -> list[Pod]:
        def around(_name: str, _item: object) -> Surroundings:
            self.asked += 1
            return Surroundings(nodes, at(seconds))

        found = list(self.readings.take({"s-1": self.item}, nodes, at(seconds), around))
        read = read_pod(self.item, Surroundings(nodes, at(seconds)))
        assert found == [read]
        return found


def ready_pod(container: JSON | None = None, **fields: Any) -> JSON:
    return a_pod(spec(), container or running(), **{"phase": "Running", "conditions": [READY], **fields})


def test_a_ready_pod_is_read_once_and_its_proof_of_life_goes_on() -> None:
    reading = Reading(ready_pod())
    for seconds in (10, 20, 30):
        [found] = reading.take(seconds, SPEAKS)
        assert found.alive_at == at(seconds)
    assert reading.asked == 1


def test_a_pod_whose_object_changed_is_read_again() -> None:
    reading = Reading(ready_pod())
    assert [found.ready for found in reading.take(10, SPEAKS)] == [True]
    reading.item = ready_pod(conditions=[])
    assert [found.ready for found in reading.take(20, SPEAKS)] == [False]


@pytest.mark.parametrize("nodes", [SILENT, {}], ids=["silent", "deleted"])
def test_a_pod_whose_node_speaks_no_more_is_read_again(nodes: dict[str, NodeState]) -> None:
    reading = Reading(ready_pod())
    reading.take(10, SPEAKS)
    reading.take(20, nodes)
    reading.take(30, SPEAKS)
    assert reading.asked == 3


@pytest.mark.parametrize(
    "item",
    [
        ready_pod(conditions=[]),
        ready_pod(waiting("ImagePullBackOff"), conditions=[]),
        ready_pod({**running(), "restartCount": 1, "lastState": ended(1)}),
        ready_pod(conditions=[READY, is_condition("DisruptionTarget", "True")]),
    ],
    ids=["not ready", "pulling", "crashed", "leaving"],
)
def test_a_pod_that_time_may_change_is_read_at_every_look(item: JSON) -> None:
    reading = Reading(item)
    for seconds in (10, 20):
        reading.take(seconds, SPEAKS)
    assert reading.asked == 2


def test_no_trouble_is_settled() -> None:
    assert is_settled(READY_POD)
    assert not is_settled(replace(READY_POD, trouble=Trouble(Reason.CLAIM_MISMATCH, "another card")))
