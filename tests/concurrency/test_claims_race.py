"""Claims under real concurrency: many connections at once, and the rows stay true."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.db.models import Count, Sum

from cluster import fleets, services
from cluster.domain.placement import Request
from cluster.models import Card, Claim, FleetChange, Node
from cluster.sequence import record_change
from cluster.services.claims import Reserved
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, a_node, ids
from tests.cluster_acts import a_quarter, release, take
from tests.concurrency.rivals import together

pytestmark = pytest.mark.django_db(transaction=True)
CONNECTIONS = 10


@pytest.fixture(autouse=True)
def _fresh_fleet():
    fleets.forget()
    yield
    fleets.forget()


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Run everything at the same moment, each on a connection of its own; errors are raised."""
    results = together(*works)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def won(results: list[Any]) -> int:
    return sum(isinstance(result, Reserved) for result in results)


def assert_rows_agree() -> None:
    """What cards and nodes say is used equals what the claims that hold it say, and nothing exceeds its capacity."""
    for card in Card.objects.all():
        held = Claim.objects.holding().filter(card=card)
        sums = held.aggregate(vram=Sum("vram_mib"), milli=Sum("milli"), slots=Sum("slots"))
        used = (card.used_vram_mib, card.used_milli, card.used_slots)
        assert used == (sums["vram"] or 0, sums["milli"] or 0, sums["slots"] or 0)
        assert card.used_vram_mib <= card.vram_mib
        assert card.used_milli <= card.core_milli
        assert card.used_slots <= card.slots
    for node in Node.objects.all():
        held = Claim.objects.holding().filter(node=node)
        sums = held.aggregate(cpu=Sum("cpu_milli"), memory=Sum("memory_mib"), scratch=Sum("scratch_gib"))
        used = (node.used_cpu_milli, node.used_memory_mib, node.used_scratch_gib)
        assert used == (sums["cpu"] or 0, sums["memory"] or 0, sums["scratch"] or 0)


def test_the_last_quarter_of_a_card_goes_to_one():
    a_node(a_cluster(), cards=[{}])
    for _number in range(3):
        take(a_quarter())

    results = at_once(*[lambda: take(a_quarter())] * CONNECTIONS)

    assert won(results) == 1
    assert_rows_agree()


def test_the_last_slot_goes_to_one():
    a_node(a_cluster(), cards=[{"slots": 1}])
    small = Request(vram_mib=1_024, core_percent=1, cpu_milli=100, memory_mib=256)

    results = at_once(*[lambda: take(small)] * CONNECTIONS)

    assert won(results) == 1
    assert_rows_agree()


def test_the_last_memory_of_a_node_goes_to_one_and_the_loser_takes_no_card():
    a_node(a_cluster(), cards=[{}, {}, {}, {}], memory_mib=16_384)

    results = at_once(*[lambda: take(a_quarter())] * CONNECTIONS)

    assert won(results) == 1
    assert Claim.objects.count() == 1
    assert_rows_agree()


def test_whole_cards_and_shares_of_them_never_overlap():
    a_node(a_cluster(), cards=[{}, {}], cpu_milli=1_000_000, memory_mib=10_000_000, scratch_gib=10_000)
    whole = Request(cards=2, exclusive=True, cpu_milli=1_000, memory_mib=1_024)

    results = at_once(*[lambda: take(whole)] * 5, *[lambda: take(a_quarter())] * 5)

    exclusive = sum(1 for result in results if isinstance(result, Reserved) and result.kind == "exclusive")
    shared = won(results) - exclusive
    assert (exclusive, shared) in {(1, 0), (0, 5)}
    assert_rows_agree()


def test_eight_that_fit_all_get_a_place_however_they_collide(gshare):
    gshare(placement_retries=10)
    cluster = a_cluster()
    for number in range(2):
        a_node(cluster, f"n{number}", cards=[{}])

    results = at_once(*[lambda: take(a_quarter())] * 8)

    assert won(results) == 8
    assert_rows_agree()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_hundreds_of_claims_and_releases_never_over_commit(seed):
    cluster = a_cluster()
    for number in range(3):
        a_node(cluster, f"n{number}", cards=[{}, {"slots": 3}], cpu_milli=40_000)

    def churn(number: int) -> int:
        dice, held, taken = random.Random(seed * 1_000 + number), [], 0
        for _round in range(25):
            if held and dice.random() < 0.45:
                release(held.pop(dice.randrange(len(held))))
                continue
            _session, run, _other = ids()
            share = dice.choice([5_120, 10_240, 20_480, 40_960])
            request = a_quarter(vram_mib=share, core_percent=share * 100 // 81_920, cpu_milli=dice.choice([500, 4_000]))
            if dice.random() < 0.2:
                request = Request(cards=1, exclusive=True, cpu_milli=1_000, memory_mib=1_024)
            if isinstance(take(request, run_id=run), Reserved):
                held.append(run)
                taken += 1
        for run in held:
            release(run)
        return taken

    taken = at_once(*[lambda number=number: churn(number) for number in range(CONNECTIONS)])

    assert sum(taken) > 50
    assert_rows_agree()
    assert not Card.objects.exclude(used_slots=0).exists()
    assert not Node.objects.exclude(used_cpu_milli=0).exists()
    assert Claim.objects.filter(state="released").count() == Claim.objects.count()
    doubled = Claim.objects.values("run_id", "card").annotate(rows=Count("id")).filter(rows__gt=1)
    assert not doubled.exists()


def test_ten_ends_of_one_run_give_its_share_back_once():
    a_node(a_cluster(), cards=[{}])
    _session, run, _other = ids()
    take(a_quarter(), run_id=run)
    take(a_quarter())

    results = at_once(*[lambda: release(run)] * CONNECTIONS)

    assert results.count(True) == 1
    assert Card.objects.get().used_slots == 1
    assert_rows_agree()


def test_the_fleet_of_a_follower_ends_equal_to_the_rows():
    cluster = a_cluster()
    a_node(cluster, cards=[{}, {}], cpu_milli=1_000_000, memory_mib=10_000_000, scratch_gib=10_000)
    fleets.snapshot()

    at_once(*[lambda: take(a_quarter())] * 7, *[fleets.snapshot] * 3)

    seen = sum(card.used_vram_mib for node in fleets.snapshot() for card in node.cards)
    assert seen == sum(Card.objects.values_list("used_vram_mib", flat=True)) == 7 * 20_480


def test_the_counter_shows_a_follower_no_gap_that_fills_later():
    """Writers commit in any order they like; whoever reads the log again and again must find only ever greater numbers."""
    cluster = a_cluster()
    node = a_node(cluster, cards=[{}])
    finished = threading.Event()
    faults: list[str] = []

    def write() -> None:
        for _round in range(20):
            with ordered():
                record_change(cluster.pk, node.pk)

    def follow() -> None:
        seen: set[int] = set()
        highest = 0
        while not (finished.is_set() and len(seen) > 8 * 20):
            done = finished.is_set()
            numbers = set(FleetChange.objects.filter(cluster=cluster).values_list("seq", flat=True))
            late = {number for number in numbers - seen if number < highest}
            if late:
                faults.append(f"{late} appeared after {highest}")
            seen |= numbers
            highest = max(highest, *numbers)
            if done:
                return

    follower = threading.Thread(target=lambda: (follow(), connection.close()))
    follower.start()
    at_once(*[write] * 8)
    finished.set()
    follower.join(60)

    assert faults == []
    numbers = sorted(FleetChange.objects.filter(cluster=cluster).values_list("seq", flat=True))
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_a_claim_carried_on_while_its_old_run_is_reported_gone_stays_with_the_new_one():
    a_node(a_cluster(), cards=[{}])
    session, second, third = ids()
    take(a_quarter(), session_id=session, run_id=second, run=2)

    def carry() -> None:
        with ordered():
            services.carry_claims(from_run_id=second, to_run_id=third, to_run=3, at=clock.now())

    carry()
    at_once(*[lambda: release(second)] * 8)

    assert [claim.run_id for claim in Claim.objects.holding()] == [third]
    assert_rows_agree()
