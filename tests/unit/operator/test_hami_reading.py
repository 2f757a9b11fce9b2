"""Reading what HAMi writes: registers in all encodings, allotted devices, MIG instances, locks. Unknown is never zero."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cluster.domain.hami import (
    Device,
    held,
    is_lock_contention,
    read_devices,
    read_instances,
    read_lock,
    read_register,
)
from tests.unit.operator.kube_objects import a_card

CSV = "GPU-0a,10,81920,100,NVIDIA-NVIDIA A100-SXM4-80GB,0,true"


def test_the_present_form_is_a_list_ordered_by_index() -> None:
    register = read_register(json.dumps([a_card("GPU-b", index=1, numa=1), a_card("GPU-a", count=10)]))
    assert register.encoding == "json" and register.is_complete
    assert [(card.uuid, card.index, card.slots) for card in register.cards] == [("GPU-a", 0, 10), ("GPU-b", 1, 16)]
    first = register.cards[0]
    assert first.vram_mib == 81559 and first.core_percent == 100 and first.mode == "hami-core" and first.healthy
    assert first.model == "NVIDIA H100 80GB HBM3"


def test_the_older_forms_are_read_too() -> None:
    nine = read_register(f"{CSV},3,mig:")
    assert nine.encoding == "csv-9" and nine.is_complete
    (card,) = nine.cards
    assert (card.uuid, card.slots, card.vram_mib, card.core_percent) == ("GPU-0a", 10, 81920, 100)
    assert (card.index, card.mode, card.healthy, card.model) == (3, "mig", True, "NVIDIA A100-SXM4-80GB")
    seven = read_register(f"{CSV}:{CSV.replace('0a', '1b').replace('true', 'false')}:")
    assert seven.encoding == "csv-7" and seven.is_complete
    assert [(card.uuid, card.index, card.healthy) for card in seven.cards] == [
        ("GPU-0a", 0, True),
        ("GPU-1b", 1, False),
    ]


def test_the_prefix_that_the_plugin_adds_is_not_the_models() -> None:
    assert read_register(json.dumps([a_card(type="NVIDIA-Tesla T4")])).cards[0].model == "Tesla T4"


def test_a_card_that_does_not_say_its_health_is_broken_and_one_without_a_mode_is_shared() -> None:
    (card,) = read_register(json.dumps([a_card(health=None, mode=None, index=None)])).cards
    assert not card.healthy and card.mode == "hami-core" and card.index == 0


@pytest.mark.parametrize("field", ["devmem", "count", "devcore", "type", "id"])
@pytest.mark.parametrize("value", [None, 0, "", 1.5, -1, True])
def test_a_card_that_does_not_say_how_much_it_has_is_unknown_and_hides_no_other(field: str, value: object) -> None:
    register = read_register(json.dumps([a_card("GPU-a", **{field: value}), a_card("GPU-b", index=1)]))
    assert [card.uuid for card in register.cards] == ["GPU-b"]
    assert len(register.unreadable) == 1 and not register.is_complete


@pytest.mark.parametrize("text", [None, "", "  ", "[", "{}", "nonsense", "a,b:", f"{CSV},1:", f"{CSV},1,mig:x,y:"])
def test_what_cannot_be_read_is_unknown(text: str | None) -> None:
    register = read_register(text)
    assert register.cards == () and register.unreadable and not register.is_complete


@pytest.mark.parametrize("spoiled", [("10", "ten"), ("81920", "0"), ("true", "maybe"), ("GPU-0a", "GPU 0a")])
def test_an_old_card_that_cannot_be_read_is_unknown(spoiled: tuple[str, str]) -> None:
    register = read_register(f"{CSV.replace(*spoiled)}:{CSV.replace('0a', '1b')}:")
    assert [card.uuid for card in register.cards] == ["GPU-1b"] and len(register.unreadable) == 1


def test_an_empty_list_says_that_there_is_no_card() -> None:
    register = read_register("[]")
    assert register.cards == () and register.is_complete


def test_a_card_that_is_there_twice_counts_once_and_is_said() -> None:
    register = read_register(json.dumps([a_card(devmem=100), a_card(devmem=200)]))
    assert [card.vram_mib for card in register.cards] == [100]
    assert register.unreadable == ("card GPU-1 is there twice",)


def test_profiles_are_those_of_cards_in_mig_mode() -> None:
    profiles = [
        {"name": "1g.10gb", "memoryMB": 9728, "core": 15, "sliceCount": 1, "placements": [{"start": 6, "size": 1}]},
        {"name": "broken"},
    ]
    register = read_register(
        json.dumps([a_card("GPU-a", mode="mig", migProfiles=profiles), a_card("GPU-b", migProfiles=profiles)])
    )
    assert [[profile.name for profile in card.mig_profiles] for card in register.cards] == [["1g.10gb"], []]
    (profile,) = register.cards[0].mig_profiles
    assert (profile.vram_mib, profile.core_percent, profile.placements[0].start) == (9728, 15, 6)


@given(some.text(max_size=80) | some.text('[]{}",:;0123456789.GPU-true', max_size=80))
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    read_register(text)
    read_devices(text)
    read_instances(text)
    read_lock(text)


JUNK = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(some.lists(some.dictionaries(some.sampled_from([*a_card(), "index", "migProfiles"]), JUNK) | JUNK, max_size=4))
def test_no_list_is_too_odd_to_be_read(rows: list[object]) -> None:
    register = read_register(json.dumps(rows))
    assert all(card.vram_mib > 0 and card.slots > 0 for card in register.cards)
    assert len(register.cards) + len(register.unreadable) >= len(rows)


# --- what pods hold --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A,NVIDIA,1000,1:;", [[("A", 1000, 1)]]),
        ("A,NVIDIA,1000,1:B,NVIDIA,1000,1:;", [[("A", 1000, 1), ("B", 1000, 1)]]),
        ("A,NVIDIA,1000,1:;B,NVIDIA,2000,2:;", [[("A", 1000, 1)], [("B", 2000, 2)]]),
        (";A,NVIDIA,1000,1:;", [[], [("A", 1000, 1)]]),
        (",,0,0:;A,NVIDIA,1000,1:;", [[], [("A", 1000, 1)]]),
        ("A[0-3],NVIDIA,10240,0:;", [[("A", 10240, 0)]]),
        ("A,NVIDIA,1000,1:", [[("A", 1000, 1)]]),
        (";", [[]]),
    ],
)
def test_device_lists_are_read(text: str, found: list[list[tuple[str, int, int]]]) -> None:
    assert read_devices(text) == tuple(tuple(Device(*device) for device in devices) for devices in found)


@pytest.mark.parametrize(
    "text", [None, "", "A:;", "A,NVIDIA,1000:;", "A,NVIDIA,x,1:;", "A,NVIDIA,-1,1:;", ",NVIDIA,1,1:;"]
)
def test_a_device_list_that_is_not_whole_is_unknown(text: str | None) -> None:
    assert read_devices(text) is None


def test_init_containers_need_their_most_and_others_their_sum() -> None:
    containers = read_devices("A,NVIDIA,9000,9:;A,NVIDIA,3000,3:;A,NVIDIA,2000,2:;") or ()
    assert held(containers, init_containers=1, app_containers=2) == {"A": Device("A", 9000, 9, slots=2)}
    assert held(containers, init_containers=0, app_containers=3) == {"A": Device("A", 14000, 14, slots=3)}


def test_where_a_place_is_missing_everything_is_added_up() -> None:
    containers = read_devices("A,NVIDIA,9000,9:;A,NVIDIA,3000,3:;") or ()
    assert held(containers, init_containers=1, app_containers=2) == {"A": Device("A", 12000, 12, slots=2)}


def test_mig_instances_are_read_or_unknown() -> None:
    text = '[{"gpuUUID":"A","profile":"1g.10gb","placement":{"start":6,"size":1},"migUUID":"MIG-1"}]'
    (instance,) = read_instances(text) or ()
    assert (instance.gpu_uuid, instance.profile, instance.start, instance.mig_uuid) == ("A", "1g.10gb", 6, "MIG-1")
    assert read_instances(None) == read_instances("") == ()
    assert read_instances("[{}]") is read_instances("{") is read_instances("7") is None


def test_locks_are_read_in_both_forms() -> None:
    since = datetime(2026, 11, 29, 18, 33, 54, tzinfo=UTC)
    lock = read_lock("2026-11-29T18:33:54Z,default,p1")
    assert lock is not None and (lock.since, lock.namespace, lock.pod) == (since, "default", "p1")
    old = read_lock("2026-11-29T18:33:54Z")
    assert old is not None and (old.since, old.pod) == (since, "")
    assert read_lock(None) is read_lock("soon,default,p1") is read_lock("2026-11-29T18:33:54Z,p1") is None


def test_the_schedulers_words_for_a_held_lock_are_recognised() -> None:
    assert is_lock_contention("binding rejected: node n1 has been locked within 5m0s: node lock contention")
    assert is_lock_contention("node n1 has been locked within 5 minutes")
    assert not is_lock_contention("0/3 nodes are available: 3 Insufficient cpu.")
