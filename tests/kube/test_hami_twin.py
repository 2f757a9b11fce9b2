"""The twin of HAMi's scheduler answers as the real one was recorded to answer, and has its known faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gshare_site.settings.test import GIVEN
from tests.kube.hami_twin import words
from tests.kube.hami_twin.bench import A, B, Bench, OneNode, card, limits, mig_card, pinned, pod
from tests.kube.hami_twin.recorded import RECORDED, recorded_lines, replay

LINES = recorded_lines()


# --- the recording ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES, ids=[line["node"] for line in LINES])
def test_every_recorded_answer_is_given(line: dict[str, Any]) -> None:
    for replayed in replay(line):
        assert dict(replayed.answered) == dict(replayed.recorded), replayed.where


def test_the_recording_is_whole() -> None:
    steps = [step for line in LINES for step in line["steps"]]
    assert len(LINES) == 72 and len(steps) == 1008
    assert sum("limits" in step for step in steps) == 893


@pytest.mark.skipif(not GIVEN.get("GSHARE_HAMI_RECORDED"), reason="GSHARE_HAMI_RECORDED names no further recording")
def test_another_recording_is_answered_too() -> None:
    for line in recorded_lines(Path(GIVEN.get("GSHARE_HAMI_RECORDED", RECORDED))):
        for replayed in replay(line):
            assert dict(replayed.answered) == dict(replayed.recorded), replayed.where


# --- the documented vectors ------------------------------------------------------------------------------------------


def test_a_pinned_card_is_the_one_that_is_given() -> None:
    node = OneNode(card(A), card(B, 1))
    assert node.ask(mem=3000, cores=10, annotations=pinned(A)) == "GPU-a,NVIDIA,3000,10:;"


def test_a_pin_that_no_card_has_refuses_every_card() -> None:
    assert OneNode(card(A), card(B, 1)).ask(mem=3000, annotations=pinned("GPU-z")) == "2/2 CardUuidMismatch"


def test_a_node_without_a_register_is_unregistered() -> None:
    bench = OneNode(card(A))
    assert bench.filter(pod("p", [limits(mem=1000)]), ["nope"])["failed"] == "node unregistered"


def test_a_register_in_the_old_form_is_no_register() -> None:
    bench = Bench()
    bench.node("n1", "GPU-a,10,81920,100,NVIDIA-NVIDIA A100-SXM4-80GB,0,true:")
    assert bench.filter(pod("p", [limits(mem=1000)]), ["n1"])["failed"] == "node unregistered"


def test_more_memory_than_any_card_has() -> None:
    assert OneNode(card(A), card(B, 1)).ask(mem=90000) == "2/2 CardInsufficientMemory"


def test_a_percentage_is_cut_to_whole_mebibytes_and_no_amount_means_the_whole_card() -> None:
    node = OneNode(card(A, devmem=81559))
    assert node.ask(pct=33, cores=5) == "GPU-a,NVIDIA,26914,5:;"
    assert node.ask() == "1/1 CardInsufficientMemory"


def test_memory_wins_over_a_percentage_and_no_memory_is_the_whole_card() -> None:
    assert OneNode(card(A)).ask(mem=777, pct=50) == "GPU-a,NVIDIA,777,0:;"
    assert OneNode(card(A)).ask(mem=0) == "GPU-a,NVIDIA,81920,0:;"
    assert OneNode(card(A)).ask(mem=0, pct=0) == "GPU-a,NVIDIA,81920,0:;"
    assert OneNode(card(A)).ask(pct=150) == "GPU-a,NVIDIA,81920,0:;"


def test_quantities_are_parsed_and_what_cannot_be_a_memory_passes_by() -> None:
    assert OneNode(card(A)).ask(mem="8k") == "GPU-a,NVIDIA,8000,0:;"
    assert OneNode(card(A)).ask(mem="1Gi") == "1/1 CardInsufficientMemory"
    bench = OneNode(card(A))
    for impossible in ("2Gi", "1.5", "-5"):
        assert bench.ask(mem=impossible) == "None"
        assert words.ALLOCATED not in bench.annotations(f"p{bench._asked}")


def test_requests_count_where_a_limit_is_absent() -> None:
    bench = OneNode(card(A))
    asking = pod("p", [limits(mem=1000)])
    asking["spec"]["containers"][0]["resources"]["requests"] = {words.RESOURCE_MEMORY: 9, words.RESOURCE_CORES: 7}
    assert bench.filter(asking, ["n1"])["allocated"] == "GPU-a,NVIDIA,1000,7:;"


def test_all_cores_need_an_empty_card_and_leave_nothing_for_others() -> None:
    node = OneNode(card(A, devmem=81559))
    assert node.ask(mem=1000, cores=0).startswith("GPU-a")
    assert node.ask(mem=1000, cores=100) == "1/1 ExclusiveDeviceAllocateConflict"
    assert node.ask(mem=1000, cores=99).startswith("GPU-a")
    assert node.ask(mem=1000, cores=1).startswith("GPU-a")
    assert node.ask(mem=1000, cores=0) == "1/1 CardComputeUnitsExhausted"
    exclusive = OneNode(card(A))
    assert exclusive.ask(mem=1000, cores=100).startswith("GPU-a")
    assert exclusive.ask(mem=1000, cores=1) == "1/1 CardInsufficientCore"
    assert exclusive.ask(mem=1000, cores=0) == "1/1 CardComputeUnitsExhausted"


def test_scaled_cores_know_no_exclusive_pod() -> None:
    node = OneNode(card(A, devcore=200))
    assert node.ask(mem=1000, cores=100).startswith("GPU-a") and node.ask(mem=1000, cores=100).startswith("GPU-a")
    assert node.ask(mem=1000) == "1/1 CardComputeUnitsExhausted"


def test_more_than_all_cores_is_all_of_them() -> None:
    node = OneNode(card(A))
    assert node.ask(mem=1000, cores=1).startswith("GPU-a")
    assert node.ask(mem=1000, cores=150) == "1/1 CardInsufficientCore"


def test_slots_limit_the_pods_of_a_card() -> None:
    node = OneNode(card(A, count=2))
    assert node.ask(mem=100).startswith("GPU-a") and node.ask(mem=100).startswith("GPU-a")
    assert node.ask(mem=100) == "1/1 CardTimeSlicingExhausted"


def test_sixteen_small_tiers_fill_a_card_with_sixteen_slots() -> None:
    node = OneNode(card(A, count=16), card(B, 1, count=16))
    for _ in range(16):
        assert node.ask(mem=5120, cores=6, annotations=pinned(A)) == "GPU-a,NVIDIA,5120,6:;"
    refused = node.ask(mem=5120, cores=6, annotations=pinned(A))
    assert refused == "1/2 CardTimeSlicingExhausted, 1/2 CardUuidMismatch"


def test_more_cards_than_the_node_has() -> None:
    assert OneNode(card(A), card(B, 1)).ask(gpu=3, mem=1000) == "NodeInsufficientDevice"


def test_a_card_whose_health_is_not_said_is_not_healthy() -> None:
    assert OneNode(card(A, health=None)).ask(mem=1000) == "1/1 CardNotHealth"


def test_a_card_whose_type_lacks_the_vendor_gets_no_pod() -> None:
    assert OneNode(card(A, type="Tesla T4")).ask(mem=1000) == "NodeInsufficientDevice"


def test_a_mode_or_a_type_that_does_not_match() -> None:
    for mode in ("mig", "mps"):
        assert OneNode(card(A)).ask(mem=1000, annotations={words.MODE: mode}) == "1/1 CardTypeMismatch"
    assert OneNode(mig_card(A)).ask(mem=1000, annotations={words.MODE: "hami-core"}) == "1/1 CardTypeMismatch"
    assert OneNode(card(A)).ask(mem=1000, annotations={words.USE_TYPE: "t4, a100"}).startswith("GPU-a")
    assert OneNode(card(A)).ask(mem=1000, annotations={words.NO_USE_TYPE: "a100"}) == "1/1 CardTypeMismatch"


def test_pins_are_exact_trimmed_and_nothing_when_empty() -> None:
    node = OneNode(card(A), card(B, 1))
    assert node.ask(mem=1, annotations={words.USE_UUID: f" {B} ,x"}) == "GPU-b,NVIDIA,1,0:;"
    assert node.ask(mem=1, annotations={words.USE_UUID: "gpu-a"}) == "2/2 CardUuidMismatch"
    assert node.ask(mem=1, annotations={words.USE_UUID: " ", words.NO_USE_UUID: B}) == "GPU-a,NVIDIA,1,0:;"


def test_two_cards_of_a_set_are_both_given() -> None:
    node = OneNode(card(A), card(B, 1), card("GPU-c", 2))
    assert node.ask(gpu=2, mem=1000, cores=1, annotations=pinned(A, B)) == "GPU-b,NVIDIA,1000,1:GPU-a,NVIDIA,1000,1:;"


def test_quota_refuses_memory_and_cores() -> None:
    node = OneNode(*(card(f"GPU-{index}", index) for index in range(4)))
    hard = {"limits.nvidia.com/gpumem": "5k", "limits.nvidia.com/gpucores": "50"}
    node.cluster.quota_objects["default"] = [{"spec": {"hard": hard}}]
    assert node.ask(mem=4000, cores=10).startswith("GPU-")
    assert node.ask(mem=2000, cores=1) == "4/4 ResourceQuotaNotFit"
    assert node.ask(mem=1, cores=45) == "4/4 ResourceQuotaNotFit"
    assert node.ask(mem=1000, cores=40).startswith("GPU-")


# --- MIG -------------------------------------------------------------------------------------------------------------


def test_the_smallest_profile_with_a_free_place_is_chosen() -> None:
    node = OneNode(mig_card(A))
    asked = [(9000, 10), (10240, 10), (19000, 20), (5000, 1)]
    given = [(node.ask(mem=mem, cores=cores), node.placements()) for mem, cores in asked]
    assert given == [
        ("GPU-a,NVIDIA,9728,15:;", [("1g.10gb", 6)]),
        ("GPU-a,NVIDIA,19968,29:;", [("2g.20gb", 0)]),
        ("GPU-a,NVIDIA,19968,29:;", [("2g.20gb", 2)]),
        ("GPU-a,NVIDIA,9728,15:;", [("1g.10gb", 5)]),
    ]


def test_a_large_instance_and_small_ones_until_the_memory_is_gone() -> None:
    node = OneNode(mig_card(A))
    node.ask(mem=40000, cores=1)
    assert node.placements() == [("3g.40gb", 4)]
    for start in (3, 2, 1, 0):
        node.ask(mem=9000, cores=1)
        assert node.placements() == [("1g.10gb", start)]
    assert node.ask(mem=9000, cores=1) == "1/1 CardInsufficientMemory"


def test_a_used_mig_card_has_not_all_cores() -> None:
    node = OneNode(mig_card(A))
    node.ask(mem=9000, cores=1)
    assert node.ask(mem=9000, cores=100) == "1/1 CardInsufficientCore"


def test_two_instances_may_come_from_one_card() -> None:
    node = OneNode(mig_card(A), mig_card(B, 1))
    assert node.ask(gpu=2, mem=5000, cores=1) == "GPU-b,NVIDIA,9728,15:GPU-b,NVIDIA,9728,15:;"
    assert node.placements() == [("1g.10gb", 6), ("1g.10gb", 5)]
    assert OneNode(mig_card(A)).ask(gpu=2, mem=5000, cores=1) == "GPU-a,NVIDIA,9728,15:GPU-a,NVIDIA,9728,15:;"


def test_memory_for_which_no_place_is_left() -> None:
    node = OneNode(mig_card(A))
    node.ask(mem=9000, cores=1)
    node.ask(mem=40000, cores=1)
    assert node.placements() == [("3g.40gb", 0)]
    assert node.ask(mem=19000, cores=1).startswith("GPU-a") and node.placements() == [("2g.20gb", 4)]
    assert node.ask(mem=12033, cores=1) == "1/1 CardInsufficientMemory"
    assert node.ask(mem=12032, cores=1) == "1/1 CardMigTopologyInfeasible"


def test_a_node_with_both_kinds_of_cards_gives_each_in_its_mode() -> None:
    node = OneNode(card(A), mig_card(B, 1))
    assert node.ask(mem=9000, cores=1, annotations=pinned(A)) == "GPU-a,NVIDIA,9000,1:;"
    assert node.ask(mem=9000, cores=1, annotations=pinned(B)) == "GPU-b,NVIDIA,9728,15:;"


def test_a_mig_pod_whose_reservation_cannot_be_read_makes_its_card_unhealthy() -> None:
    for broken in ("", "[]", '[{"gpuUUID":"GPU-a"}]', '[{"containerIndex":0,"migUUID":"x"}]'):
        node = OneNode(mig_card(A))
        node.ask(mem=9000, cores=1)
        annotated = node.cluster.pod_objects[("default", "p1")]
        annotated["metadata"]["annotations"][words.MIG_ALLOCATIONS] = broken
        node.twin.pod_changed(annotated)
        assert node.ask(mem=9000, cores=1) == "1/1 CardNotHealth"


# --- order of cards and nodes ----------------------------------------------------------------------------------------


def test_idle_cards_are_used_from_the_highest_numa_node_and_index() -> None:
    node = OneNode(*(card(f"GPU-{index}", index, numa=index // 2) for index in range(4)))
    assert [node.ask(mem=1000)[:5] for _ in range(4)] == ["GPU-3", "GPU-2", "GPU-1", "GPU-0"]


def test_a_policy_packs_spreads_or_takes_idle_cards_only() -> None:
    def second(policy: str) -> str:
        node = OneNode(card(A), card(B, 1))
        node.ask(mem=1000, annotations=pinned(A))
        node.ask(mem=100, annotations=pinned(B))
        return node.ask(mem=1000, annotations={words.CARD_POLICY: policy})

    assert second("binpack").startswith(A) and second("spread").startswith(B)
    assert second("mutex") == "2/2 ExclusiveDeviceAllocateConflict"
    assert second("no such policy").startswith(B)
    assert second("numa,binpack").startswith(A)


def test_linked_cards_are_given_together_and_the_worst_linked_alone() -> None:
    links = {"GPU-0": {"GPU-1": 9, "GPU-2": 1}, "GPU-1": {"GPU-0": 9, "GPU-2": 1}, "GPU-2": {"GPU-0": 1, "GPU-1": 1}}
    scores = json.dumps([{"uuid": uuid, "score": score} for uuid, score in links.items()])
    bench = OneNode(card(A))
    bench.node("n1", [card(uuid, index) for index, uuid in enumerate(links)], **{words.PAIR_SCORES: scores})
    asks = {words.CARD_POLICY: "topology-aware"}
    assert bench.ask(mem=10, annotations=asks) == "GPU-2,NVIDIA,10,0:;"
    assert bench.ask(gpu=2, mem=10, annotations=asks) == "GPU-1,NVIDIA,10,0:GPU-0,NVIDIA,10,0:;"


def test_cards_of_one_numa_node_when_that_is_asked() -> None:
    bound = {words.NUMA_BIND: "true"}
    cards = [card(f"GPU-{index}", index, numa=index % 2) for index in range(4)]
    assert OneNode(*cards).ask(gpu=2, mem=10, annotations=bound) == "GPU-3,NVIDIA,10,0:GPU-1,NVIDIA,10,0:;"
    lonely = OneNode(card(A), card(B, 1, numa=1))
    assert lonely.ask(gpu=2, mem=10, annotations=bound) == "1/2 AllocatedCardsInsufficientRequest, 1/2 NumaNotFit"


def test_the_fuller_node_is_chosen_and_the_emptier_when_spreading() -> None:
    for policy, chosen in (("binpack", "n1"), ("spread", "n2")):
        bench = OneNode(card(A))
        bench.node("n2", [card(B)])
        bench.ask(mem=1000)
        asking = pod("q", [limits(mem=10)], annotations={words.NODE_POLICY: policy})
        bench.filter(asking, ["n1", "n2"])
        assert bench.annotations("q")[words.ASSIGNED_NODE] == chosen


def test_weights_that_cannot_be_read_make_the_pod_unschedulable() -> None:
    said = OneNode(card(A)).ask(mem=10, annotations={words.SCORING_WEIGHTS: "slot=1,core=1"})
    assert said == (
        'calcScore failed invalid hami.io/device-scoring-weights annotation "slot=1,core=1": expected slot, core, and '
        "memory weights for pod p1"
    )
    for wrong in (
        "slot=1,core=1,core=1",
        "slot=1,core=1,memory=x",
        "slot=1,core=1,memory=-1",
        "slot=0,core=0,memory=0",
    ):
        assert OneNode(card(A)).ask(mem=10, annotations={words.SCORING_WEIGHTS: wrong}).startswith("calcScore failed")
