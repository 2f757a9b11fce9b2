"""A control plane that wants nothing of much that runs is not believed at once."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.operator.brake import held_back
from gshare_core.contract import Desired, DesiredDocument, DesiredFeed, is_absurd
from tests.unit.operator.build import GRACE, NOW, after, pod, wants
from tests.unit.operator.test_loop import Site

SESSIONS = [UUID(int=number) for number in range(1, 11)]


def buried(session: UUID, *, confirmed: bool = False) -> DesiredDocument:
    return DesiredDocument(session=session, seq=50, spec=None, run=1, generation=9, confirmed=confirmed)


@pytest.fixture
async def site(tmp_path: Path) -> Site:
    """Ten sessions that run."""
    found = Site(tmp_path)
    found.want(*(wants(session=session) for session in SESSIONS))
    await found.operator.look()
    await found.operator.look()
    assert len(found.substrate.pods) == 10
    return found


async def look(site: Site, *documents: DesiredDocument) -> set[UUID]:
    """What runs on when these documents came and time for every end has passed."""
    feed = DesiredFeed(seq=60, documents=documents)
    site.wishes.take(feed, everything=False)
    for seconds in (1, GRACE + 2, GRACE + 4, GRACE + 200, GRACE + 202):
        site.clock.set(after(seconds))
        await site.operator.look()
    return {session for (session, _run), pod in site.substrate.pods.items() if pod.alive and not pod.stopping_since}


async def test_an_empty_feed_ends_nothing(site: Site) -> None:
    site.want()
    assert await look(site) == set(SESSIONS)


async def test_too_many_tombstones_end_nothing_and_are_said_loudly(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    assert await look(site, *(buried(session) for session in SESSIONS)) == set(SESSIONS)
    assert "wants nothing of 10 sessions" in caplog.text


@pytest.mark.parametrize(("number", "living"), [(1, 9), (2, 8), (3, 10)])
async def test_up_to_a_fifth_is_believed(site: Site, number: int, living: int) -> None:
    assert len(await look(site, *(buried(session) for session in SESSIONS[:number]))) == living


async def test_what_is_confirmed_is_believed(site: Site) -> None:
    assert await look(site, *(buried(session, confirmed=True) for session in SESSIONS)) == set()


async def test_when_there_are_fewer_they_are_believed(site: Site) -> None:
    await look(site, *(buried(session) for session in SESSIONS[:4]))
    again = [wants(1, 10, session=session) for session in SESSIONS[:2]]
    assert await look(site, *again) == {*SESSIONS[:2], *SESSIONS[4:]}


async def test_ordinary_ends_are_never_too_many(site: Site) -> None:
    assert await look(site, *(wants(1, 2, Desired.STOPPED, session=session) for session in SESSIONS)) == set()


async def test_what_is_ending_counts_so_that_nothing_dies_in_small_bites(site: Site) -> None:
    site.substrate.stubborn = True
    site.wishes.take(DesiredFeed(seq=60, documents=tuple(map(buried, SESSIONS[:2]))), everything=False)
    site.clock.set(after(1))
    await site.operator.look()
    site.wishes.take(DesiredFeed(seq=61, documents=tuple(map(buried, SESSIONS[2:4]))), everything=False)
    await site.operator.look()
    stopping = {session for (session, _run), pod in site.substrate.pods.items() if pod.stopping_since}
    assert stopping == set(SESSIONS[:2])


@given(st.integers(0, 40), st.integers(0, 40))
def test_never_more_than_a_fifth_or_two_die_unconfirmed(doomed: int, others: int) -> None:
    sessions = [UUID(int=number + 1) for number in range(doomed + others)]
    pods = [pod(session=session, alive_at=NOW) for session in sessions]
    documents = {session: buried(session) for session in sessions[:doomed]}
    believed = doomed - len(held_back(documents, pods))
    assert believed in (0, doomed)
    assert believed <= max(2, (doomed + others) // 5)
    assert (believed == 0) == (doomed == 0 or is_absurd(doomed, doomed + others))
