"""The operator's pods before HAMi's filter and its books beside HAMi's: the claimed card or none, and the same sums."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.operator.manifests import ManifestSettings, Owner, manifests_of
from cluster.operator.reading.nodes import NodeState, read_node
from cluster.operator.reading.pods import Surroundings, read_pod
from gshare_core.contract import GpuShare, MigSlice, Reason, SessionSpec, session_name
from tests.kube.hami_twin import words
from tests.kube.hami_twin.bench import MIG_PROFILES, NOW, Bench, OneNode, card, mig_card
from tests.kube.hami_twin.recorded import recorded_lines, replayed_on
from tests.unit.operator.build import gpu, spec

AROUND = Surroundings({"n1": NodeState(ready=True)}, NOW)


def pod_of(document: SessionSpec, **context: Any) -> dict[str, Any]:
    """The pod as the API server would keep it."""
    owner = Owner(session_name(document.session_id), "u")
    pod = manifests_of(document, owner, "token", ManifestSettings(), **context).pod
    pod["metadata"] |= {"uid": pod["metadata"]["name"], "namespace": "default"}
    return pod


def share(number: int, cards: Sequence[str], **fields: Any) -> SessionSpec:
    return spec(session=UUID(int=number + 1), gpu=gpu("n1", tuple(cards), **fields))


def filtered(bench: Bench, document: SessionSpec, **context: Any) -> dict[str, Any]:
    """What HAMi says of the document's pod."""
    return bench.filter(pod_of(document, **context), ["n1"])


def seen(bench: Bench, document: SessionSpec) -> dict[str, Any]:
    """The pod with what HAMi wrote on it."""
    return bench.cluster.pod_objects[("default", pod_of(document)["metadata"]["name"])]


def test_a_claimed_card_is_the_bound_card() -> None:
    bench = OneNode(card("GPU-a"), card("GPU-b", 1))
    document = share(0, ["GPU-a"], vram_mib=9000, core_percent=12)
    assert filtered(bench, document)["allocated"] == "GPU-a,NVIDIA,9000,12:;"
    found = read_pod(seen(bench, document), AROUND)
    assert found is not None and found.cards == ("GPU-a",) and found.trouble is None


def test_whole_cards_are_all_bound_and_then_nothing_fits_on_them() -> None:
    bench = OneNode(card("GPU-a"), card("GPU-b", 1), card("GPU-c", 2))
    whole = share(0, ["GPU-a", "GPU-c"], mode="exclusive", vram_mib=81920, core_percent=100)
    assert filtered(bench, whole)["fits"]
    found = read_pod(seen(bench, whole), AROUND)
    assert found is not None and set(found.cards) == {"GPU-a", "GPU-c"} and found.trouble is None
    assert not filtered(bench, share(1, ["GPU-c"], vram_mib=1024, core_percent=1))["fits"]
    assert filtered(bench, share(2, ["GPU-b"], vram_mib=1024, core_percent=1))["fits"]


def test_a_slice_is_bound_in_mig_mode_and_no_share_lands_on_a_mig_card() -> None:
    bench = OneNode(card("GPU-a"), mig_card("GPU-m", 1))
    sliced = share(0, ["GPU-m"], vram_mib=10194, core_percent=12, mig=MigSlice(profile="1g.10gb", start=6))
    assert filtered(bench, sliced, profile_mib=MIG_PROFILES[0]["memoryMB"])["allocated"] == "GPU-m,NVIDIA,9728,15:;"
    found = read_pod(seen(bench, sliced), AROUND)
    assert found is not None and found.mig == MigSlice(profile="1g.10gb", start=6) and found.trouble is None
    refused = filtered(bench, share(1, ["GPU-m"], vram_mib=9000, core_percent=12))
    assert refused["failed"] == "1/2 CardTypeMismatch, 1/2 CardUuidMismatch"


def test_a_borrower_passes_hami_by() -> None:
    bench = OneNode(card("GPU-a"))
    filtered(bench, share(0, ["GPU-a"], mode="exclusive", vram_mib=81920, core_percent=100))
    borrower = share(1, ["GPU-a"], mode="exclusive", vram_mib=81920, core_percent=100, borrowed=True)
    answer = filtered(bench, borrower)
    assert answer == {"fits": True, "allocated": None}


def test_a_card_that_hami_took_instead_is_noticed() -> None:
    bench = OneNode(card("GPU-a"), card("GPU-b", 1))
    document = share(0, ["GPU-a"])
    pod = pod_of(document)
    del pod["metadata"]["annotations"][words.USE_UUID]  # as old releases did that did not know the pin
    bench.filter(pod, ["n1"])
    found = read_pod(seen(bench, document), AROUND)
    assert found is not None and found.trouble is not None and found.trouble.reason is Reason.CLAIM_MISMATCH


def test_sixteen_sixteenths_fill_a_card_that_has_sixteen_slots() -> None:
    bench = OneNode(card("GPU-a", devmem=81559, count=16), card("GPU-b", 1, count=16))
    for number in range(16):
        assert filtered(bench, share(number, ["GPU-a"], vram_mib=81559 // 16, core_percent=6))["fits"]
    node = bench.cluster.node("n1") or {}
    (first, _) = read_node(node, list(bench.cluster.pod_objects.values())).row.cards
    assert len(first.bound) == first.slots == 16


@some.composite
def sessions(draw: some.DrawFn) -> GpuShare:
    uuids = ["GPU-0", "GPU-1", "GPU-2"]
    if draw(some.booleans()):
        cards = draw(some.lists(some.sampled_from(uuids), min_size=1, max_size=3, unique=True))
        return gpu("n1", tuple(cards), mode="exclusive", vram_mib=81920, core_percent=100)
    wanted = {"vram_mib": draw(some.integers(1024, 81920)), "core_percent": draw(some.integers(1, 100))}
    return gpu("n1", (draw(some.sampled_from(uuids)),), **wanted)


@given(some.lists(sessions(), max_size=12), some.integers(1, 16))
def test_whatever_is_asked_pods_get_their_claimed_cards_or_nothing(shares: list[GpuShare], slots: int) -> None:
    bench = OneNode(*(card(f"GPU-{index}", index, count=slots) for index in range(3)))
    for number, wanted in enumerate(shares):
        document = spec(session=UUID(int=number + 1), gpu=wanted)
        fits = filtered(bench, document)["fits"]
        found = read_pod(seen(bench, document), AROUND)
        assert found is not None and found.trouble is None
        assert set(found.cards) == (set(wanted.cards) if fits else set())
    node = bench.cluster.node("n1") or {}
    for row in read_node(node, list(bench.cluster.pod_objects.values())).row.cards:
        assert sum(held.vram_mib for held in row.bound) <= row.vram_mib and len(row.bound) <= row.slots
        assert sum(held.core_percent for held in row.bound) <= row.core_percent


@pytest.mark.parametrize("line", recorded_lines(), ids=lambda line: line["node"])
def test_the_operators_books_are_hamis_books(line: dict[str, Any]) -> None:
    for bench in replayed_on(line):
        node = bench.cluster.node(line["node"]) or {}
        reading = read_node(node, list(bench.cluster.pod_objects.values()))
        assert reading.cards_known and reading.unknown == ()
        ours = {
            row.uuid: (
                len(row.bound),
                sum(held.vram_mib for held in row.bound),
                sum(held.core_percent for held in row.bound),
            )
            for row in reading.row.cards
        }
        assert ours == bench.counted(line["node"])
        assert [row.uuid for row in reading.row.cards] == [entry["id"] for entry in by_index(line["cards"])]


def by_index(cards: list[dict[str, Any]]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(json.dumps(cards))
    return sorted(listed, key=lambda entry: entry.get("index", 0))
