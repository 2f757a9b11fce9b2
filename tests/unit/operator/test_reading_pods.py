"""A session's pod as the operator sees it: life, readiness, card, troubles and ends, in the words of who knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from cluster.operator.converge import converge
from cluster.operator.reading.nodes import NodeState
from cluster.operator.reading.pods import Surroundings, read_pod
from cluster.operator.state import Memory, Pod
from gshare_core.contract import Desired, MigSlice, Phase, Reason
from tests.unit.operator.build import NOW, SESSION, gpu, spec, wants
from tests.unit.operator.kube_objects import (
    JSON,
    READY,
    a_foreign_pod,
    a_pod,
    allotted,
    an_event,
    at,
    ended,
    is_condition,
    running,
    stamp,
    waiting,
)

NODES = {"gpu-01": NodeState(ready=True, heartbeat_at=at(-5), hostname="gpu-01")}
AROUND = Surroundings(NODES, at(10))
CLAIMED = allotted("GPU-1,NVIDIA,20389,25:;")
DOCUMENT = spec(run=2, generation=7, gpu=gpu())


def read(pod: JSON, around: Surroundings = AROUND, **changes: Any) -> Pod:
    found = read_pod(pod, replace(around, **changes))
    assert found is not None
    return found


def ours(container: JSON | None = None, **fields: Any) -> JSON:
    """The pod of `DOCUMENT`, bound to its node and card unless said otherwise."""
    annotations = fields.pop("annotations", CLAIMED)
    return a_pod(DOCUMENT, container, annotations=annotations, **fields)


def later(seconds: float, **fields: Any) -> dict[str, Any]:
    return {"now": at(seconds), **fields}


# --- life ------------------------------------------------------------------------------------------------------------


def test_a_ready_pod_tells_everything_about_its_run() -> None:
    found = read(ours(running(), phase="Running", conditions=[READY]))
    assert (found.session, found.run, found.generation) == (SESSION, 2, 7)
    assert found.name.endswith("-2") and found.node == "gpu-01" and found.cards == ("GPU-1",)
    assert found.alive and found.ready and found.alive_at == at(10)
    assert found.trouble is found.lost is found.stopping_since is None and not found.exited and not found.pulling


@pytest.mark.parametrize("label", ["gshare.io/session", "gshare.io/run"])
@pytest.mark.parametrize("value", [None, "", "x", "0", "-1"])
def test_a_pod_without_a_session_or_a_run_is_not_ours(label: str, value: str | None) -> None:
    pod = ours(running())
    del pod["metadata"]["labels"][label]
    pod["metadata"]["labels"] |= {label: value} if value is not None else {}
    assert read_pod(pod, AROUND) is None
    assert read_pod(a_foreign_pod(), AROUND) is None


def test_a_pod_that_waits_for_a_node_is_alive_and_not_ready() -> None:
    found = read(ours(bound=False, annotations={}))
    assert found.alive and not found.ready and found.node == "" and found.cards == () and found.trouble is None


def test_on_a_silent_node_a_pod_lives_on_and_proves_no_more_than_the_node() -> None:
    silent = {"gpu-01": NodeState(ready=False, heartbeat_at=at(-300))}
    found = read(ours(running(), phase="Running"), nodes=silent)
    assert found.alive and found.alive_at == at(-300) and found.lost is None and found.trouble is None
    unheard = {"gpu-01": NodeState(ready=False)}
    assert read(ours(running(), phase="Running"), nodes=unheard).alive_at is None


def test_no_proof_of_life_lies_after_the_look() -> None:
    early = {"gpu-01": NodeState(ready=False, heartbeat_at=at(500))}
    assert read(ours(running(), phase="Running"), nodes=early).alive_at == at(10)


def test_on_a_node_that_no_longer_exists_nothing_lives() -> None:
    found = read(ours(running(), phase="Running"), nodes={})
    assert not found.alive and found.lost is Reason.NODE_LOST


def test_who_asked_for_the_end_is_not_told_but_since_when() -> None:
    pod = ours(running(), phase="Running", conditions=[READY])
    pod["metadata"] |= {"deletionTimestamp": stamp(35), "deletionGracePeriodSeconds": 30}
    found = read(pod)
    assert found.stopping_since == at(5) and found.alive and found.lost is None


def test_a_program_that_ended_without_an_error_has_exited() -> None:
    found = read(ours(running(state=ended(0, at=8)), phase="Succeeded"))
    assert found.exited and not found.alive and found.alive_at == at(8) and not found.crashed_at


def test_a_container_that_ended_without_an_error_is_believed_before_the_pods_phase_says_so() -> None:
    found = read(ours(running(state=ended(0, at=8)), phase="Running"))
    assert found.exited and found.alive
    assert not read(ours(running(state=ended(1, at=8)), phase="Running")).exited


# --- cards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        (allotted("GPU-2,NVIDIA,20389,25:;"), "GPU-2"),
        (allotted("GPU-1,NVIDIA,1,1:GPU-2,NVIDIA,1,1:;"), "GPU-1, GPU-2"),
        (allotted("GPU-1,NVIDIA,x,1:;"), "no card"),
        ({}, "no card"),
    ],
)
def test_another_card_than_the_claimed_is_a_trouble_before_anything_runs(
    annotations: dict[str, str], words: str
) -> None:
    trouble = read(ours(waiting("ContainerCreating"), annotations=annotations)).trouble
    assert trouble is not None and trouble.reason is Reason.CLAIM_MISMATCH
    assert trouble.message == f"HAMi has bound {words} where GPU-1 was claimed."


def test_a_wrong_choice_is_noticed_before_the_pod_is_bound() -> None:
    trouble = read(ours(bound=False, annotations=allotted("GPU-2,NVIDIA,1,1:;"))).trouble
    assert trouble is not None and trouble.reason is Reason.CLAIM_MISMATCH
    assert read(ours(bound=False, annotations={})).trouble is None


def test_whole_cards_match_in_any_order() -> None:
    whole = spec(gpu=gpu(mode="exclusive", cards=("GPU-1", "GPU-2")))
    pod = a_pod(whole, running(), annotations=allotted("GPU-2,NVIDIA,1,1:GPU-1,NVIDIA,1,1:;"), phase="Running")
    found = read(pod)
    assert found.trouble is None and found.cards == ("GPU-2", "GPU-1")


def test_the_mig_instance_that_hami_chose_is_adopted() -> None:
    sliced = spec(gpu=gpu(mig=MigSlice(profile="1g.10gb", start=6)))
    chosen = '[{"gpuUUID":"GPU-1","profile":"1g.10gb","placement":{"start":5,"size":1}}]'
    annotations = allotted("GPU-1,NVIDIA,9728,15:;", **{"hami.io/vgpu-mig-allocations": chosen})
    found = read(a_pod(sliced, running(), annotations=annotations, phase="Running"))
    assert found.mig == MigSlice(profile="1g.10gb", start=5) and found.trouble is None


def test_a_borrowers_card_is_the_claimed_one_since_hami_knows_nothing_of_it() -> None:
    borrower = spec(gpu=gpu(mode="exclusive", borrowed=True))
    found = read(a_pod(borrower, running(), phase="Running"))
    assert found.cards == ("GPU-1",) and found.trouble is None
    assert read(a_pod(borrower, bound=False)).cards == ()


def test_a_session_without_a_card_has_no_card_to_compare() -> None:
    found = read(a_pod(spec(), running(), phase="Running", conditions=[READY]))
    assert found.ready and found.cards == () and found.trouble is None


# --- before it runs --------------------------------------------------------------------------------------------------


def unscheduled(message: str, reason: str = "Unschedulable") -> JSON:
    return ours(bound=False, annotations={}, conditions=[is_condition("PodScheduled", "False", reason, message)])


def test_a_held_node_lock_is_waited_for_and_then_named() -> None:
    pod = unscheduled(
        "binding rejected: node gpu-01 has been locked within 5m0s: node lock contention", "SchedulerError"
    )
    assert read(pod, **later(119)).trouble is None
    trouble = read(pod, **later(120)).trouble
    assert trouble is not None and trouble.reason is Reason.NODE_LOCK and "locked within 5m0s" in trouble.message


def test_a_placement_that_the_scheduler_refuses_fails_with_its_words_and_hamis() -> None:
    pod = unscheduled("0/3 nodes are available: 1 NodeUnfitPod.")
    events = [an_event("FilteringFailed", "1 nodes CardTimeSlicingExhausted(gpu-01)")]
    assert read(pod, **later(59, events=events)).trouble is None
    trouble = read(pod, **later(60, events=events)).trouble
    assert trouble is not None and trouble.reason is Reason.CLAIM_MISMATCH
    assert trouble.message == "0/3 nodes are available: 1 NodeUnfitPod. 1 nodes CardTimeSlicingExhausted(gpu-01)"


def test_a_pinned_node_that_no_longer_exists_is_named_at_once() -> None:
    trouble = read(ours(bound=False, annotations={}), nodes={"gpu-02": NodeState(ready=True)}).trouble
    assert trouble is not None and trouble.reason is Reason.NODE_GONE and "gpu-01" in trouble.message
    renamed = {"other": NodeState(ready=True, hostname="gpu-01")}
    assert read(ours(bound=False, annotations={}), nodes=renamed).trouble is None


def test_a_node_that_does_not_admit_the_pod_has_failed_the_placement() -> None:
    said = "Allocate failed due to device number not matched, which is unexpected"
    found = read(ours(phase="Failed", reason="UnexpectedAdmissionError", message=said))
    assert found.trouble is not None and found.trouble.reason is Reason.CLAIM_MISMATCH
    assert said in found.trouble.message and found.lost is None and not found.alive


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ErrImagePull", 'failed to resolve "registry.example/x@sha256:0": not found'),
        ("ImagePullBackOff", "Back-off pulling image: ErrImagePull: 401 unauthorized"),
        ("InvalidImageName", "couldn't parse image name"),
        ("ErrImageNeverPull", "image is not present with pull policy of Never"),
    ],
)
def test_an_image_that_will_never_come_fails_at_once_in_the_registrys_words(reason: str, message: str) -> None:
    trouble = read(ours(waiting(reason, message)), **later(1)).trouble
    assert trouble is not None and trouble.reason is Reason.IMAGE_PULL_FAILED and trouble.message == message


def test_an_image_that_may_still_come_is_waited_for() -> None:
    pod = ours(
        waiting("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout"),
        conditions=[is_condition("PodScheduled", "True", at=100)],
    )
    early = read(pod, **later(159))
    assert early.trouble is None and early.pulling
    late = read(pod, **later(160))
    assert (
        late.trouble is not None and late.trouble.message == "dial tcp 10.0.0.1:443: i/o timeout" and not late.pulling
    )


def test_a_kubelet_that_only_backs_off_is_explained_by_its_event() -> None:
    events = [
        an_event("Failed", 'Failed to pull image "x": manifest unknown'),
        an_event("Failed", "Error: ImagePullBackOff"),
    ]
    trouble = read(ours(waiting("ImagePullBackOff", 'Back-off pulling image "x"')), **later(1, events=events)).trouble
    assert trouble is not None and trouble.message == 'Failed to pull image "x": manifest unknown'
    others = [*events, an_event("Failed", "cannot mount the volume"), an_event("Pulling", "pull of another image")]
    trouble = read(ours(waiting("ImagePullBackOff", 'Back-off pulling image "x"')), **later(1, events=others)).trouble
    assert trouble is not None and trouble.message == 'Failed to pull image "x": manifest unknown'
    bare = read(ours(waiting("ImagePullBackOff", 'Back-off pulling image "x"')), **later(60)).trouble
    assert bare is not None and bare.message == 'Back-off pulling image "x"'


def test_an_image_on_its_way_is_pulling() -> None:
    creating = ours(waiting("ContainerCreating"))
    assert read(creating, events=[an_event("Pulling")]).pulling
    assert not read(creating, events=[an_event("Pulling"), an_event("Pulled")]).pulling
    assert not read(creating).pulling


@pytest.mark.parametrize("field", ["lastTimestamp", "eventTime", "metadata", "series"])
def test_events_count_by_their_time_and_not_by_their_place(field: str) -> None:
    def seen_at(reason: str, seconds: float) -> JSON:
        inner = {"metadata": "creationTimestamp", "series": "lastObservedTime"}.get(field)
        return an_event(reason) | {field: {inner: stamp(seconds)} if inner else stamp(seconds)}

    creating = ours(waiting("ContainerCreating"))
    assert not read(creating, events=[seen_at("Pulled", 9), seen_at("Pulling", 1)]).pulling
    assert read(creating, events=[seen_at("Pulling", 9), seen_at("Pulled", 1)]).pulling
    assert read(creating, events=[seen_at("Pulling", 9), an_event("Pulled")]).pulling


@pytest.mark.parametrize("reason", ["FailedMount", "FailedAttachVolume"])
def test_a_volume_that_does_not_come_is_named_after_a_while(reason: str) -> None:
    pod = ours(waiting("ContainerCreating"))
    events = [an_event(reason, "Multi-Attach error for volume pvc-1")]
    assert read(pod, **later(119, events=events)).trouble is None
    trouble = read(pod, **later(120, events=events)).trouble
    assert trouble is not None and trouble.reason is Reason.MOUNT_FAILED and "Multi-Attach" in trouble.message
    assert read(ours(running(), phase="Running"), **later(999, events=events)).trouble is None


def test_a_container_that_cannot_be_made_is_named_with_the_kubelets_words() -> None:
    pod = ours(waiting("CreateContainerConfigError", 'secret "s-access" not found'))
    assert read(pod, **later(29)).trouble is None
    trouble = read(pod, **later(30)).trouble
    assert trouble is not None and trouble.message == 'CreateContainerConfigError: secret "s-access" not found'


# --- crashes ---------------------------------------------------------------------------------------------------------


def test_a_crash_loop_is_never_ready_and_keeps_the_containers_words() -> None:
    looping = waiting(
        "CrashLoopBackOff", "back-off 10s", restartCount=1, lastState=ended(1, 5, "No module named jupyter\n")
    )
    found = read(ours(looping, phase="Running", conditions=[READY]))
    assert not found.ready and found.alive and found.crashed_at == (at(5),) and found.words == "No module named jupyter"


@pytest.mark.parametrize(
    ("message", "reason", "words"),
    [
        ("", "Error", "Error (exit code 137)"),
        ("", "OOMKilled", "OOMKilled (exit code 137)"),
        ("Killed", "OOMKilled", "OOMKilled (exit code 137) Killed"),
    ],
)
def test_a_container_without_words_is_told_by_how_it_ended(message: str, reason: str, words: str) -> None:
    crashed = running(restartCount=1, lastState=ended(137, 5, message, reason))
    assert read(ours(crashed, phase="Running")).words == words


def test_crashes_that_were_seen_are_remembered_and_none_counts_twice() -> None:
    second = running(restartCount=2, lastState=ended(1, 900))
    found = read(ours(second, phase="Running"), **later(901, crashed_at=(at(700),)))
    assert found.crashed_at == (at(700), at(900))
    assert read(ours(second, phase="Running"), **later(902, crashed_at=found.crashed_at)).crashed_at == found.crashed_at


def test_crashes_that_nobody_saw_count_only_where_they_cannot_be_old() -> None:
    third = waiting("CrashLoopBackOff", restartCount=3, lastState=ended(1, 60))
    assert read(ours(third, phase="Running"), **later(61)).crashed_at == (at(60),) * 3
    old = waiting("CrashLoopBackOff", restartCount=3, lastState=ended(1, 3600))
    assert read(ours(old, phase="Running"), **later(3601)).crashed_at == (at(3600),)


def test_an_end_without_an_error_is_no_crash() -> None:
    assert read(ours(running(restartCount=1, lastState=ended(0, 5)), phase="Running")).crashed_at == ()


def test_three_crashes_are_reported_as_failed_in_the_containers_words() -> None:
    looping = waiting("CrashLoopBackOff", restartCount=3, lastState=ended(1, 60, "Address already in use"))
    pod = read(ours(looping, phase="Running", conditions=[READY]), **later(61))
    step = converge(wants(2, 7, gpu=gpu()), Memory(session=SESSION), [pod], at(61))
    report = step.memory.records[-1].report
    assert report is not None and report.phase is Phase.FAILED and report.reason is Reason.CRASH_LOOP
    assert report.message == "Address already in use"


# --- ends ------------------------------------------------------------------------------------------------------------

EVICTED = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi."
OVER = "Pod ephemeral local storage usage exceeds the total limit of containers 50Gi."


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": EVICTED}, Reason.EVICTED),
        ({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}, Reason.EVICTED),
        ({"phase": "Failed", "reason": "Evicted", "message": OVER}, Reason.DISK_EXCEEDED),
        ({"phase": "Failed", "reason": "Evicted", "message": 'Usage of EmptyDir volume "home" exceeds the limit "1Gi".'}, Reason.DISK_EXCEEDED),
        ({"phase": "Failed", "reason": "NodeLost"}, Reason.NODE_LOST),
        ({"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown."}, Reason.NODE_LOST),
        ({"phase": "Running", "conditions": [is_condition("DisruptionTarget", "True", "EvictionByEvictionAPI")]}, Reason.DRAINED),
        ({"phase": "Running", "conditions": [is_condition("DisruptionTarget", "True", "DeletionByTaintManager")]}, Reason.NODE_LOST),
        ({"phase": "Running", "conditions": [is_condition("DisruptionTarget", "True", "PreemptionByScheduler")]}, Reason.EVICTED),
        ({"phase": "Failed", "conditions": [is_condition("DisruptionTarget", "True", "TerminationByKubelet", "imminent node shutdown")]}, Reason.NODE_LOST),
        ({"phase": "Running", "conditions": [is_condition("DisruptionTarget", "False", "EvictionByEvictionAPI")]}, None),
        ({"phase": "Failed"}, Reason.VANISHED),
    ],
)  # fmt: skip
def test_why_the_cluster_ended_a_pod(status: dict[str, Any], reason: Reason | None) -> None:
    found = read(ours(running(state=ended(137, 9)), **status))
    assert found.lost is reason
    assert found.trouble is None


def test_a_pod_that_fails_because_its_end_was_asked_for_is_not_lost() -> None:
    pod = ours(running(state=ended(143, 9)), phase="Failed")
    pod["metadata"] |= {"deletionTimestamp": stamp(30), "deletionGracePeriodSeconds": 30}
    found = read(pod)
    assert found.lost is None and found.stopping_since == NOW and not found.alive


@pytest.mark.parametrize("status", [{}, {"conditions": 7}, {"containerStatuses": [None, {"state": {"waiting": 7}}]}])
def test_odd_objects_are_read_without_failing(status: dict[str, Any]) -> None:
    pod = ours()
    pod["status"] = status
    pod["metadata"]["creationTimestamp"] = 7
    assert isinstance(read(pod).alive_at, datetime)


def test_a_document_that_ends_the_run_stops_what_is_read() -> None:
    pod = read(ours(running(), phase="Running", conditions=[READY]))
    step = converge(wants(2, 8, Desired.PAUSED, gpu=gpu()), Memory(session=SESSION), [pod], at(11))
    assert [type(action).__name__ for action in step.actions] == ["Stop"]
