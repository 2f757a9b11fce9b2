"""Nodes of Kubernetes as inventory: what they can give, their cards, what pods hold, what is unknown."""

from __future__ import annotations

import json

import pytest

from cluster.operator.reading.nodes import node_state, pods_by_node, read_node
from gshare_core.contract import BoundShare
from tests.unit.operator.build import NOW, SESSION, gpu, spec
from tests.unit.operator.kube_objects import (
    JSON,
    a_card,
    a_foreign_pod,
    a_node,
    a_pod,
    allotted,
    at,
    ready,
    stamp,
)


def test_a_node_says_what_it_can_give() -> None:
    row = read_node(a_node(cards=[a_card()], labels={"gshare.io/yield": "true", "zone": "a"}), []).row
    assert (row.name, row.ready, row.cpu_milli, row.memory_mib, row.scratch_gib) == (
        "gpu-01",
        True,
        64_000,
        524_288,
        2048,
    )
    assert row.labels["zone"] == "a" and row.yield_capable
    assert [card.uuid for card in row.cards] == ["GPU-1"]
    assert not read_node(a_node(), []).row.yield_capable


def test_what_foreign_pods_ask_is_not_offered() -> None:
    requests = {"cpu": "1500m", "memory": "1Gi", "ephemeral-storage": "1Gi"}
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    init = {"resources": {"requests": {"cpu": "3"}}}
    pods = [
        a_foreign_pod(requests=requests, spec={"initContainers": [init, sidecar], "overhead": {"cpu": "250m"}}),
        a_foreign_pod("ended", requests=requests, phase="Succeeded"),
        a_foreign_pod("elsewhere", "gpu-02", requests=requests),
        a_pod(spec(gpu=gpu())),
    ]
    row = read_node(a_node(), pods).row
    assert (row.cpu_milli, row.memory_mib, row.scratch_gib) == (64_000 - 3_750, 524_288 - 1024, 2047)


def test_an_amount_that_is_used_up_is_not_the_same_as_one_that_is_unknown() -> None:
    pods = [a_foreign_pod(requests={"cpu": "64", "memory": "512Gi", "ephemeral-storage": "2Ti"})]
    row = read_node(a_node(), pods).row
    assert (row.cpu_milli, row.memory_mib, row.scratch_gib) == (1, 1, 1)
    silent = a_node()
    silent["status"]["allocatable"] = {"cpu": "lots"}
    assert (read_node(silent, []).row.cpu_milli, read_node(silent, []).row.memory_mib) == (0, 0)


# --- cards -----------------------------------------------------------------------------------------------------------


def test_a_node_without_cards_has_none_and_one_that_is_silent_about_them_keeps_them() -> None:
    plain = read_node(a_node("cpu-01", cards=None), [])
    assert plain.row.cards == () and plain.cards_known and plain.unknown == ()
    before = read_node(a_node(cards=[a_card()]), []).row
    for register in (None, "[", "nonsense"):
        reading = read_node(a_node(cards=register, allocatable={"nvidia.com/gpu": "16"}), [], before=before)
        assert [card.uuid for card in reading.row.cards] == ["GPU-1"] and not reading.cards_known and reading.unknown


def test_cards_that_offer_nothing_and_register_nothing_are_unknown_at_first() -> None:
    reading = read_node(a_node(cards=None, allocatable={"nvidia.com/gpu": "16"}), [])
    assert reading.row.cards == () and not reading.cards_known and reading.unknown


def test_one_card_that_cannot_be_read_keeps_what_was_known_of_it() -> None:
    both = [a_card("GPU-a", devmem=100), a_card("GPU-b", index=1)]
    before = read_node(a_node(cards=both), []).row
    reading = read_node(a_node(cards=[a_card("GPU-a", devmem=None), a_card("GPU-b", index=1)]), [], before=before)
    assert [(card.uuid, card.vram_mib) for card in reading.row.cards] == [("GPU-a", 100), ("GPU-b", 81559)]
    assert not reading.cards_known


def test_a_card_that_a_whole_register_no_longer_names_is_gone() -> None:
    before = read_node(a_node(cards=[a_card("GPU-a"), a_card("GPU-b")]), []).row
    reading = read_node(a_node(cards=[a_card("GPU-a")]), [], before=before)
    assert [card.uuid for card in reading.row.cards] == ["GPU-a"] and reading.cards_known


@pytest.mark.parametrize(
    "node",
    [
        a_node(cards=[a_card(health=False)]),
        a_node(cards=[a_card()], allocatable={"nvidia.com/gpu": "0"}),
        a_node(cards=[a_card()], annotations={"hami.io/device-cordon": "GPU-9, GPU-1"}),
    ],
    ids=["broken", "plugin gone", "card cordoned"],
)
def test_a_card_on_which_nothing_can_be_placed_is_not_healthy(node: JSON) -> None:
    assert [card.healthy for card in read_node(node, []).row.cards] == [False]
    assert [card.healthy for card in read_node(a_node(cards=[a_card()]), []).row.cards] == [True]


def test_a_cordoned_node_takes_nothing_new_and_its_cards_are_well() -> None:
    row = read_node(a_node(cards=[a_card()], spec={"unschedulable": True}), []).row
    assert (row.unschedulable, [card.healthy for card in row.cards]) == (True, [True])
    assert not read_node(a_node(cards=[a_card()]), []).row.unschedulable


# --- what is held ----------------------------------------------------------------------------------------------------


def test_what_pods_hold_is_listed_by_card_with_whose_it_is() -> None:
    cards = [a_card("GPU-1"), a_card("GPU-2", index=1)]
    ours = a_pod(spec(gpu=gpu()), annotations=allotted("GPU-1,NVIDIA,20389,25:;"))
    theirs = a_foreign_pod(annotations=allotted("GPU-1,NVIDIA,1000,1:GPU-2,NVIDIA,1000,1:;"))
    first, second = read_node(a_node(cards=cards), [ours, theirs]).row.cards
    assert first.bound == (
        BoundShare(session=SESSION, vram_mib=20389, core_percent=25),
        BoundShare(session=None, vram_mib=1000, core_percent=1),
    )
    assert second.bound == (BoundShare(session=None, vram_mib=1000, core_percent=1),)


def test_a_pod_counts_until_it_has_ended_bound_or_not_deleted_or_not() -> None:
    def count(**changes: object) -> int:
        pod = a_pod(spec(gpu=gpu()), bound=False, annotations=allotted("GPU-1,NVIDIA,20389,25:;"))
        pod["metadata"] |= {key: value for key, value in changes.items() if key == "deletionTimestamp"}
        pod["status"] |= {key: value for key, value in changes.items() if key == "phase"}
        return len(read_node(a_node(cards=[a_card()]), [pod]).row.cards[0].bound)

    assert count() == count(deletionTimestamp=stamp()) == count(phase="Running") == 1
    assert count(phase="Succeeded") == count(phase="Failed") == 0


def test_a_reservation_on_another_node_does_not_count_here() -> None:
    pod = a_foreign_pod(annotations=allotted("GPU-1,NVIDIA,1,1:;", "gpu-02"))
    assert read_node(a_node(cards=[a_card()]), [pod]).row.cards[0].bound == ()


def test_what_cannot_be_read_of_foreign_pods_is_said() -> None:
    unread = a_foreign_pod("unread", annotations=allotted("GPU-1,NVIDIA,many,1:;"))
    bypass = a_foreign_pod("bypass", requests={"nvidia.com/gpu": "1"})
    reading = read_node(a_node(cards=[a_card()]), [unread, bypass])
    assert reading.unknown == (
        "what pod else/unread holds of the node's cards cannot be read",
        "pod else/bypass has cards that HAMi does not know of",
    )
    assert reading.cards_known


def test_the_pods_that_matter_to_a_node_are_those_on_it_and_those_that_keep_its_cards() -> None:
    here, keeps = (
        a_foreign_pod("here", "n1"),
        a_foreign_pod("keeps", "", annotations=allotted("GPU-1,NVIDIA,1,1:;", "n1")),
    )
    both = a_foreign_pod("both", "n2", annotations=allotted("GPU-1,NVIDIA,1,1:;", "n1"))
    same = a_foreign_pod("same", "n1", annotations=allotted("GPU-1,NVIDIA,1,1:;", "n1"))
    assert pods_by_node([here, keeps, both, same, a_foreign_pod("nowhere", "")]) == {
        "n1": [here, keeps, both, same],
        "n2": [both],
    }


# --- signs of life ---------------------------------------------------------------------------------------------------


def test_a_node_speaks_when_its_kubelet_says_so_and_is_silent_otherwise() -> None:
    assert read_node(a_node(ready="True"), []).row.ready
    assert not read_node(a_node(ready="Unknown"), []).row.ready and not read_node(a_node(ready="False"), []).row.ready
    bare: JSON = {"metadata": {"name": "bare"}}
    assert not read_node(bare, []).row.ready and node_state(bare).heartbeat_at is None


def test_the_newest_sign_of_life_counts() -> None:
    node = a_node()
    node["status"]["conditions"] = [ready("Unknown", beat=-300)]
    assert node_state(node).heartbeat_at == at(-300)
    lease = {"spec": {"renewTime": "2026-11-30T11:59:00.000000Z"}}
    assert node_state(node, lease).heartbeat_at == at(-60)
    assert node_state(node, {"spec": {"renewTime": "never"}}).heartbeat_at == at(-300)


def test_the_lock_of_a_node_is_told() -> None:
    lock = read_node(a_node(annotations={"hami.io/mutex.lock": f"{stamp()},gshare-sessions,s-1"}), []).lock
    assert lock is not None and lock.since == NOW and lock.pod == "s-1"


def test_odd_objects_are_read_without_failing() -> None:
    odd: JSON = json.loads(
        '{"metadata":{"name":"n","labels":{"a":1},"annotations":null},"status":{"conditions":[7],"allocatable":[]}}'
    )
    reading = read_node(odd, [{"metadata": None, "status": {"containerStatuses": {}}}, {}])
    assert reading.row.name == "n" and reading.row.labels == {}
