"""The line's order is total, earmarks never promise more than there is, and use counts once however it is cut."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.domain.earmarks import Holding, Room, soonest
from cluster.domain.fleet import Card, Node
from cluster.domain.outlook import Waiter, outlook
from cluster.domain.requests import Request
from sessions_app.domain.queue import Bucket, Fairness, Outcome, Pass, Waiting, in_order, penalty, use_between

NOON = datetime(2026, 10, 14, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
MODEL = "NVIDIA A100"

moments = st.integers(0, 500).map(lambda minutes: NOON + timedelta(minutes=minutes))
entries = st.builds(
    Waiting,
    session=st.uuids(),
    bucket=st.builds(Bucket, st.sampled_from("ab"), st.sampled_from("SML")),
    priority=st.integers(-2, 2),
    order_at=moments,
    enqueued_at=moments,
    whose=st.tuples(st.sampled_from([UUID(int=1), UUID(int=2)]), st.just(UUID(int=3))),
)
lines = st.lists(entries, max_size=30, unique_by=lambda entry: entry.session)


def by_bucket(line):
    buckets = {}
    for entry in sorted(line, key=lambda entry: entry.key):
        buckets.setdefault(entry.bucket, []).append(entry)
    return list(buckets.values())


@given(lines)
def test_the_order_is_total_and_does_not_depend_on_how_it_is_read(line):
    walked = list(in_order(by_bucket(line)))
    assert walked == sorted(line, key=lambda entry: (-entry.priority, entry.order_at, entry.session))
    assert len({entry.key for entry in walked}) == len(line)


@given(lines, st.data())
def test_a_pass_tries_nobody_like_one_who_found_no_room_and_names_the_first_of_each_lane(line, data):
    following, tried, no_room = Pass(), [], []
    for entry in in_order(by_bucket(line)):
        if not following.tries(entry):
            assert any(
                entry.bucket == other.bucket and (outcome is Outcome.NO_ROOM or entry.whose == other.whose)
                for other, outcome in tried
            )
            continue
        outcome = data.draw(st.sampled_from(list(Outcome)))
        tried.append((entry, outcome))
        is_head = following.heard(entry, outcome)
        if outcome is Outcome.NO_ROOM:
            assert is_head == (entry.bucket.lane not in {other.bucket.lane for other in no_room})
            no_room.append(entry)
    assert set(following.heads) == {entry.bucket.lane for entry in no_room}


@given(st.lists(st.integers(0, 40_000), min_size=2, max_size=8).map(sorted), st.integers(0, 40_000))
def test_use_counts_the_same_however_it_is_cut(cuts, later):
    times = [NOON + timedelta(minutes=minute) for minute in cuts]
    now = times[-1] + timedelta(minutes=later)
    parts = sum(use_between(start, end, now, WEEK) for start, end in pairwise(times))
    assert parts == pytest.approx(use_between(times[0], times[-1], now, WEEK), abs=1e-6)
    assert 0 <= parts <= (times[-1] - times[0]) / timedelta(hours=1) + 1e-6


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_penalty_grows_with_use_and_is_bounded(own, group):
    fairness = Fairness(WEEK, timedelta(minutes=1), timedelta(seconds=5), timedelta(hours=1))
    assert timedelta(0) <= penalty(own, group, fairness) <= timedelta(hours=1)
    assert penalty(own, group, fairness) <= penalty(own + 1, group, fairness)


# Kept places ----------------------------------------------------------------------------------------------------------

VRAM = 80_000
shares = st.sampled_from([(VRAM // 16, 62), (VRAM // 8, 125), (VRAM // 4, 250), (VRAM // 2, 500), (VRAM, 1_000)])
requests = st.builds(
    lambda share, cards, whole, cpu: Request(
        models=[MODEL],
        cards=cards if whole else 1,
        exclusive=whole,
        vram_mib=0 if whole else share[0],
        core_percent=0 if whole else share[1] / 10,
        cpu_milli=cpu,
        memory_mib=1_000,
    ),
    shares,
    st.integers(1, 3),
    st.booleans(),
    st.integers(500, 40_000),
)


@st.composite
def busy_nodes(draw):
    """A node with cards and who holds what of them, with an end or without."""
    name = draw(st.sampled_from(["n1", "n2", "n3"]))
    count = draw(st.integers(1, 4))
    cards, holdings, used_cpu = [], [], 0
    for index in range(count):
        uuid, vram, milli, slots = f"{name}-{index}", 0, 0, 0
        for share in draw(st.lists(shares, max_size=4)):
            if vram + share[0] > VRAM or milli + share[1] > 1_000:
                continue
            vram, milli, slots, used_cpu = vram + share[0], milli + share[1], slots + 1, used_cpu + 4_000
            ends = draw(st.none() | moments)
            holdings.append(Holding((uuid,), (share[0],), (share[1],), 4_000, 0, 0, ends, hard=draw(st.booleans())))
        cards.append(Card(uuid, MODEL, VRAM, slots=16, used_vram_mib=vram, used_milli=milli, used_slots=slots))
    node = Node(name, 128_000, 500_000, 1_000, tuple(cards), used_cpu_milli=used_cpu)
    return node, holdings


fleets = st.lists(busy_nodes(), min_size=1, max_size=3, unique_by=lambda pair: pair[0].name)


@given(fleets, requests)
def test_a_kept_place_could_hold_the_request_once_its_holders_have_gone(fleet, request):
    nodes, held = [node for node, _ in fleet], {node.name: holdings for node, holdings in fleet}
    found = soonest(request, nodes, held, NOON)
    if found is None:
        for node in nodes:
            empty = Room(node)
            for holding in held[node.name]:
                empty.give_back(holding)
            assert empty.cards_for(request.ask) is None
        return
    node = next(node for node in nodes if node.name == found.node)
    room = Room(node)
    for holding in held[found.node]:
        if found.ready_at is None or (
            holding.hard and holding.ends_at is not None and holding.ends_at <= found.ready_at
        ):
            room.give_back(holding)
    assert len(set(found.cards)) == request.ask.cards
    assert room.cards_for(request.ask) is not None
    assert {card.uuid for card in node.cards} >= set(found.cards)


@given(fleets, st.lists(requests, min_size=1, max_size=6), st.data())
def test_the_outlook_never_over_commits_and_answers_everybody_who_could_start_when_all_ends(fleet, asked, data):
    nodes, held = [node for node, _ in fleet], {node.name: holdings for node, holdings in fleet}
    lasts = data.draw(st.none() | st.integers(1, 300).map(lambda minutes: timedelta(minutes=minutes)))
    line = [Waiter(UUID(int=number), request, lasts, hard=True) for number, request in enumerate(asked)]
    found = outlook(nodes, held, line, NOON)
    assert all(start.at >= NOON for start in found.values())
    everything_ends = lasts is not None and all(h.ends_at is not None for holdings in held.values() for h in holdings)
    for waiter in line:
        fits_an_empty_node = False
        for node in nodes:
            empty = Room(node)
            for holding in held[node.name]:
                empty.give_back(holding)
            fits_an_empty_node |= empty.cards_for(waiter.request.ask) is not None
        if not fits_an_empty_node:
            assert waiter.session not in found
        elif everything_ends:
            assert waiter.session in found
