"""The audit chain's arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from accounts.domain.chain import GENESIS, Link, faults, seal_hash
from gshare_core.ids import uuid7

AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


def chain(length: int) -> list[Link]:
    links, before = [], GENESIS
    for seq in range(1, length + 1):
        entry = {"id": uuid7(), "at": AT + timedelta(seconds=seq), "act": "user.register", "after": {"n": seq}}
        before = seal_hash(seq, before, entry)
        links.append(Link(seq, before, entry))
    return links


def test_an_untouched_chain_has_no_fault():
    assert faults(chain(5)) == []
    assert faults([]) == []


@given(st.integers(1, 6), st.sampled_from(["change", "drop", "swap", "forge"]))
def test_any_change_in_the_middle_is_found_where_it_is(place, way):
    links = chain(8)
    victim = links[place]
    if way == "change":
        links[place] = Link(victim.seq, victim.hash, {**victim.entry, "act": "user.deactivate"})
    elif way == "drop":
        del links[place]
    elif way == "swap":
        links[place] = Link(victim.seq, victim.hash, links[place - 1].entry)
    else:
        entry = {**victim.entry, "act": "nothing happened"}
        links[place] = Link(victim.seq, seal_hash(victim.seq, links[place - 1].hash, entry), entry)
    assert faults(links)
    assert min(fault.seq for fault in faults(links)) >= place


def test_the_hash_does_not_depend_on_the_order_of_keys_or_the_zone_of_a_time():
    one = {"at": AT, "before": {"a": 1, "b": 2}}
    two = {"before": {"b": 2, "a": 1}, "at": AT.astimezone(timezone(timedelta(hours=9)))}
    assert seal_hash(1, GENESIS, one) == seal_hash(1, GENESIS, two)


def test_findings_are_bounded():
    links = [Link(link.seq, "0" * 64, link.entry) for link in chain(50)]
    assert len(faults(links, most=7)) == 7
