"""What the twin of HAMi's scheduler writes, tracks and knows, with the known faults of the real one."""

from __future__ import annotations

import json
from datetime import timedelta

from tests.kube.hami_twin import words
from tests.kube.hami_twin.bench import A, B, Bench, OneNode, card, limits, mig_card, pinned, pod

# --- several containers, and what HAMi writes down -------------------------------------------------------------------


def test_two_containers_may_land_on_two_cards_unless_one_is_pinned() -> None:
    two = [limits(mem=1000, cores=1), limits(mem=2000, cores=2)]
    bench = OneNode(card(A), card(B, 1))
    assert bench.filter(pod("p", two), ["n1"])["allocated"] == "GPU-b,NVIDIA,1000,1:;GPU-a,NVIDIA,2000,2:;"
    held = OneNode(card(A), card(B, 1))
    pin = pod("p", two, annotations=pinned(A))
    assert held.filter(pin, ["n1"])["allocated"] == "GPU-a,NVIDIA,1000,1:;GPU-a,NVIDIA,2000,2:;"


def test_the_slot_of_a_container_without_cards_is_lost() -> None:
    for containers in ([{}, limits(mem=1000, cores=1)], [limits(mem=1000, cores=1), {}]):
        assert OneNode(card(A)).filter(pod("p", containers), ["n1"])["allocated"] == "GPU-a,NVIDIA,1000,1:;"
    with_init = pod("p", [limits(mem=1000, cores=1)], init=[{}])
    assert OneNode(card(A)).filter(with_init, ["n1"])["allocated"] == "GPU-a,NVIDIA,1000,1:;"


def test_an_init_container_and_its_pod_share_a_card_until_it_has_ended() -> None:
    bench = OneNode(card(A))
    asking = pod("p", [limits(mem=3000, cores=3)], init=[limits(mem=80000, cores=9)])
    assert bench.filter(asking, ["n1"])["allocated"] == "GPU-a,NVIDIA,80000,9:;GPU-a,NVIDIA,3000,3:;"
    assert bench.ask(mem=2000) == "1/1 CardInsufficientMemory"
    begun = bench.cluster.pod_objects[("default", "p")]
    begun["status"] = {"initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}
    bench.twin.pod_changed(begun)
    assert bench.ask(mem=78000) == "GPU-a,NVIDIA,78000,0:;"


def test_the_choice_stands_on_the_pod_as_annotations_and_a_label() -> None:
    bench = OneNode(card(A))
    bench.ask(mem=3000, cores=10)
    written = bench.cluster.pod_objects[("default", "p1")]["metadata"]
    assert written["labels"] == {words.ASSIGNED_NODE: "n1"}
    assert written["annotations"] == {
        words.ASSIGNED_NODE: "n1",
        words.ASSIGNED_TIME: str(int(bench.now.timestamp())),
        words.TO_ALLOCATE: "GPU-a,NVIDIA,3000,10:;",
        words.ALLOCATED: "GPU-a,NVIDIA,3000,10:;",
    }


def test_a_node_name_that_is_no_label_makes_the_filter_fail_and_reserves_nothing() -> None:
    bench = Bench()
    bench.node("n" * 64, [card(A, count=1)])
    assert "metadata.labels" in bench.filter(pod("p", [limits(mem=10)]), ["n" * 64])["error"]
    assert bench.filter(pod("q", [limits(mem=81920)]), ["n" * 64]).get("failed") is None


# --- what is tracked -------------------------------------------------------------------------------------------------


def test_a_pod_counts_until_it_has_ended_also_while_it_is_deleted() -> None:
    bench = OneNode(card(A, count=1))
    bench.ask(mem=10)
    held = bench.cluster.pod_objects[("default", "p1")]
    held["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    bench.twin.pod_changed(held)
    assert bench.ask(mem=10) == "1/1 CardTimeSlicingExhausted"
    held["status"] = {"phase": "Failed"}
    bench.twin.pod_changed(held)
    assert bench.ask(mem=10) == "GPU-a,NVIDIA,10,0:;"


def test_a_pod_that_is_first_seen_while_it_is_deleted_is_forgotten() -> None:
    bench, other = OneNode(card(A, count=1)), OneNode(card(A, count=1))
    bench.ask(mem=10)
    held = bench.cluster.pod_objects[("default", "p1")]
    held["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    other.twin.pod_changed(held)
    assert other.ask(mem=10) == "GPU-a,NVIDIA,10,0:;"


def test_a_refused_second_filter_leaves_a_phantom_that_comes_back_with_the_next_event() -> None:
    bench = OneNode(card(A, count=1))
    bench.ask(mem=10)
    bench.node("n1", [card(A, count=1, health=None)])
    stale = bench.cluster.pod_objects[("default", "p1")]
    assert not bench.filter(stale, ["n1"])["fits"]
    assert stale["metadata"]["annotations"][words.ALLOCATED] == "GPU-a,NVIDIA,10,0:;"
    bench.node("n1", [card(A, count=1)])
    assert bench.ask(mem=10) == "GPU-a,NVIDIA,10,0:;"
    bench.twin.pod_changed(stale)
    bench.delete("p2")
    assert bench.ask(mem=10) == "1/1 CardTimeSlicingExhausted"


def test_a_reservation_on_a_card_that_is_not_there_counts_nothing() -> None:
    bench = OneNode(card(A, count=1))
    foreign = pod("f", [limits(mem=10)])
    foreign["metadata"]["annotations"] = {words.ASSIGNED_NODE: "n1", words.ALLOCATED: "GPU-gone,NVIDIA,10,1:;"}
    bench.twin.pod_changed(foreign)
    assert bench.ask(mem=10) == "GPU-a,NVIDIA,10,0:;"


# --- what is known of nodes ------------------------------------------------------------------------------------------


def test_a_cordon_takes_effect_only_with_a_changed_register() -> None:
    bench = OneNode(card(A), card(B, 1))
    cordoned = {words.CORDON: f"{A} , {B}"}
    bench.cluster.node_objects["n1"]["metadata"]["annotations"].update(cordoned)
    bench.twin.refresh()
    assert bench.ask(mem=10).startswith("GPU-")
    register = json.dumps([card(B, 1), card(A)])
    bench.cluster.node_objects["n1"]["metadata"]["annotations"][words.REGISTER] = register
    bench.twin.refresh()
    assert bench.ask(mem=10) == "2/2 CardCordoned"


def test_a_deleted_node_is_unregistered_at_once() -> None:
    bench = OneNode(card(A))
    bench.twin.node_deleted("n1")
    assert bench.ask(mem=10) == "node unregistered"


def test_cards_that_are_no_longer_allocatable_are_forgotten() -> None:
    bench = OneNode(card(A))
    bench.cluster.node_objects["n1"]["status"]["allocatable"] = {}
    bench.twin.refresh()
    assert bench.ask(mem=10) == "node unregistered"


def test_a_register_that_cannot_be_read_changes_nothing() -> None:
    bench = OneNode(card(A))
    for broken in ("{", "{}", '["x"]', '[{"id":"GPU-b","devmem":"80"}]', '[{"id":"GPU-b","devmem":1.5}]', "[]"):
        bench.cluster.node_objects["n1"]["metadata"]["annotations"][words.REGISTER] = broken
        bench.twin.refresh()
        assert bench.ask(mem=10).startswith(A)


def test_a_mig_reservation_on_a_card_that_is_shared_makes_it_unhealthy() -> None:
    reserved = '[{"gpuUUID":"%s","profile":"1g.10gb","placement":{"start":0,"size":1}}]'
    for uuid, refused in ((A, "1/2 CardNotHealth, 1/2 CardUuidMismatch"), ("GPU-gone", None)):
        bench = OneNode(card(A), mig_card(B, 1))
        foreign = pod("f", [limits(mem=10)])
        foreign["metadata"]["annotations"] = {
            words.ASSIGNED_NODE: "n1",
            words.ALLOCATED: f"{A},NVIDIA,10,1:;",
            words.MIG_ALLOCATIONS: reserved % uuid,
        }
        bench.twin.pod_changed(foreign)
        answer = bench.ask(mem=10, annotations=pinned(A))
        assert answer == (refused or f"{A},NVIDIA,10,0:;")
        # Of a reservation on a card that is not there, nobody knows which MIG card it means.
        healthy = bench.ask(mem=10, annotations=pinned(B))
        assert healthy.startswith(B) if refused else "CardNotHealth" in healthy


def test_a_node_that_offers_no_card_yet_is_believed_for_a_minute() -> None:
    bench = Bench()
    bench.cluster.put_node("n1", {words.REGISTER: json.dumps([card(A)])}, 0)
    bench.twin.refresh()
    assert bench.filter(pod("p", [limits(mem=10)]), ["n1"])["fits"]
    bench.now += timedelta(seconds=59)
    bench.twin.refresh()
    assert bench.filter(pod("q", [limits(mem=10)]), ["n1"])["fits"]
    bench.now += timedelta(seconds=2)
    bench.twin.refresh()
    assert bench.filter(pod("r", [limits(mem=10)]), ["n1"])["failed"] == "node unregistered"
    assert words.HANDSHAKE not in bench.cluster.node_objects["n1"]["metadata"]["annotations"]


def test_by_topology_exactly_as_many_cards_as_are_wanted_are_taken_as_they_are() -> None:
    bench = OneNode(card(A), card(B, 1))
    asks = {words.CARD_POLICY: "topology-aware"}
    assert bench.ask(gpu=2, mem=10, annotations=asks) == "GPU-b,NVIDIA,10,0:GPU-a,NVIDIA,10,0:;"
    assert bench.ask(gpu=2, mem=10, annotations={**asks, **pinned(A)}) == (
        "1/2 AllocatedCardsInsufficientRequest, 1/2 CardUuidMismatch"
    )
    apart = OneNode(card(A), card(B, 1, numa=1))
    bound = {**asks, words.NUMA_BIND: "true"}
    assert apart.ask(gpu=2, mem=10, annotations=bound) == "1/2 AllocatedCardsInsufficientRequest"


def test_a_card_without_a_numa_node_is_on_the_first() -> None:
    bench = OneNode(card(A), card(B, 1, numa=1), card("GPU-c", 2, numa=0))
    assert bench.ask(gpu=2, mem=10, annotations={words.NUMA_BIND: "true"}) == ("GPU-c,NVIDIA,10,0:GPU-a,NVIDIA,10,0:;")
