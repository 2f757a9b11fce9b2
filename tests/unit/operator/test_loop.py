"""The loop: what one session's trouble does to others, what a failed look concludes, what the inventory says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from cluster.operator.feed import Wishes
from cluster.operator.inventory import Beat
from cluster.operator.loop import Operator, Pace
from cluster.operator.state import Pod, Unavailable
from cluster.operator.store import Store
from gshare_core.clock import ManualClock
from gshare_core.contract import Activity, Desired, DesiredFeed, Inventory, Mount, Phase, SessionSpec
from gshare_core.ids import uuid7
from tests.unit.operator.build import NOW, SESSION, MemorySubstrate, after, spec, tombstone, wants


class Moody(MemorySubstrate):
    """A substrate that refuses some sessions, or everything."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[UUID] = set()
        self.blind = False
        self.locked_volumes = False

    async def remove_volume(self, claim: str) -> None:
        if self.locked_volumes:
            raise OSError("the file system is read-only")
        await super().remove_volume(claim)

    async def observe(self, now: datetime) -> Sequence[Pod]:
        if self.blind:
            raise Unavailable("the machine does not answer")
        return self.look(now)

    async def start(self, spec: SessionSpec, now: datetime) -> None:
        if spec.session_id in self.refused:
            raise OSError("no space left")
        await super().start(spec, now)


class Site:
    """An operator's parts without processes around them."""

    def __init__(self, folder: Path, substrate: Moody | None = None) -> None:
        self.folder = folder
        self.substrate = substrate or Moody()
        self.clock = ManualClock(NOW)
        self.wishes = Wishes()
        self.restart()

    def restart(self) -> None:
        self.store = Store(self.folder)
        self.operator = Operator(self.substrate, self.store, self.wishes, self.clock)

    def want(self, *documents: object) -> None:
        feed = DesiredFeed.model_validate({"seq": 1, "documents": documents})
        self.wishes.take(feed, everything=True)

    def phase(self, session: UUID = SESSION, run: int = 1) -> Phase | None:
        record = self.store.get(session).record(run)
        return record.report.phase if record and record.report else None

    def acknowledge_all(self) -> None:
        for session, record in self.store.pending():
            assert record.report is not None
            self.store.acknowledge(session, record.run, record.report.sequence)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_session_that_cannot_be_made_holds_up_no_other_and_is_tried_again(site: Site) -> None:
    stuck, others = UUID(int=1), [SESSION, uuid4()]
    site.substrate.refused = {stuck}
    site.want(*(wants(session=session) for session in (stuck, *others)))
    await site.operator.look()
    assert {session for session, _ in site.substrate.started} == set(others)
    site.substrate.refused = set()
    await site.operator.look()
    assert (stuck, 1) in site.substrate.pods


async def test_a_look_that_fails_concludes_nothing(site: Site) -> None:
    site.want(wants())
    await site.operator.look()
    await site.operator.look()
    site.substrate.blind = True
    await site.operator.look()
    assert site.phase() is Phase.STARTING
    assert site.operator.observed_at == NOW
    site.substrate.blind = False
    await site.operator.look()
    assert site.phase() is Phase.STARTING


async def test_after_a_full_reading_every_run_is_reported_once_more(site: Site) -> None:
    site.want(wants())
    await site.operator.look()
    await site.operator.look()
    site.acknowledge_all()
    await site.operator.look()
    assert site.store.pending() == []
    site.operator.wake(everything=True)
    await site.operator.look()
    assert [session for session, _ in site.store.pending()] == [SESSION]
    site.acknowledge_all()
    await site.operator.look()
    assert site.store.pending() == []


async def test_a_pod_that_was_made_and_is_away_before_anybody_saw_it_has_vanished(site: Site) -> None:
    site.want(wants())
    await site.operator.look()
    site.substrate.pods.clear()
    site.restart()
    await site.operator.look()
    assert site.phase() is Phase.GONE
    assert site.substrate.started == [(SESSION, 1)]


async def test_what_the_control_plane_dropped_is_forgotten_once_its_end_is_acknowledged(site: Site) -> None:
    site.want(wants(1, 2, Desired.STOPPED))
    await site.operator.look()
    site.want()
    await site.operator.look()
    assert site.phase() is Phase.GONE
    site.acknowledge_all()
    await site.operator.look()
    assert list(site.store) == []


async def test_a_tombstone_is_answered_again_when_it_comes_again(site: Site) -> None:
    for _ in range(2):
        site.want(tombstone(1, 2))
        await site.operator.look()
        assert site.phase() is Phase.GONE
        site.acknowledge_all()
        await site.operator.look()
        assert list(site.store) == []


async def test_before_everything_was_read_nothing_is_forgotten(site: Site) -> None:
    site.want(wants(1, 2, Desired.STOPPED))
    await site.operator.look()
    site.acknowledge_all()
    site.wishes = Wishes()
    site.restart()
    await site.operator.look()
    assert [memory.session for memory in site.store] == [SESSION]


async def test_the_inventory_has_a_row_for_every_pod_with_its_proof_of_life(site: Site) -> None:
    unwanted = uuid4()
    site.substrate.make(spec(3, 7, session=unwanted), NOW)
    site.want(wants())
    await site.operator.look()
    site.clock.set(after(5))
    site.substrate.change(SESSION, 1, ready=True)
    await site.operator.look()
    site.clock.set(after(9))
    beat = Beat(Receiver(), site.substrate, site.store, site.operator, site.clock)
    document = await beat.document()
    assert document is not None
    assert (document.observed_at, document.sent_at) == (after(5), after(9))
    rows = {row.id: (row.run, row.generation, row.phase, row.last_alive_at) for row in document.sessions}
    assert rows == {
        SESSION: (1, 1, Phase.RUNNING, after(5)),
        unwanted: (3, 7, Phase.STARTING, after(5)),
    }
    assert [node.name for node in document.nodes] == ["n1"]


async def test_there_is_no_inventory_before_the_first_look(site: Site) -> None:
    assert await Beat(Receiver(), site.substrate, site.store, site.operator, site.clock).document() is None


class Receiver:
    """Takes inventories and forgets them."""

    async def inventory(self, document: Inventory) -> None:
        pass


async def test_a_volume_that_was_given_up_is_removed_as_long_as_the_control_plane_says_so(site: Site) -> None:
    site.wishes.take(DesiredFeed(seq=1, removed_volumes=("vol-1",)), everything=True)
    await site.operator.look()
    assert site.substrate.removed_volumes == ["vol-1"]
    site.wishes.take(DesiredFeed(seq=1), everything=False)
    await site.operator.look()
    assert site.substrate.removed_volumes == ["vol-1"]


async def test_a_volume_that_some_document_mounts_is_never_removed(site: Site) -> None:
    mounted = Mount(claim="vol-1", mount_path="/data", size_gib=1)
    feed = DesiredFeed(seq=1, documents=(wants(volumes=(mounted,)),), removed_volumes=("vol-1", "vol-2"))
    site.wishes.take(feed, everything=True)
    await site.operator.look()
    assert site.substrate.removed_volumes == ["vol-2"]


async def test_before_everything_was_read_and_while_nothing_can_be_read_no_volume_is_removed(site: Site) -> None:
    site.wishes.take(DesiredFeed(seq=1, removed_volumes=("vol-1",)), everything=False)
    await site.operator.look()
    site.wishes.take(DesiredFeed(seq=1, removed_volumes=("vol-1",)), everything=True)
    site.wishes.lose_touch()
    await site.operator.look()
    assert site.substrate.removed_volumes == []


async def test_a_volume_that_cannot_be_removed_now_holds_up_no_session(site: Site) -> None:
    site.substrate.locked_volumes = True
    site.wishes.take(DesiredFeed(seq=1, documents=(wants(),), removed_volumes=("vol-1",)), everything=True)
    await site.operator.look()
    assert site.substrate.started == [(SESSION, 1)]
    assert site.operator.observed_at == NOW


@dataclass
class Watched:
    """Whoever samples what sessions do; fails when told so."""

    fails: bool = False

    async def activity(self, now: datetime) -> dict[tuple[UUID, int], Activity]:
        if self.fails:
            raise Unavailable("the monitor is away")
        return {(SESSION, 1): Activity(at=now, cpu_usec=7)}


@pytest.mark.parametrize("fails", [False, True])
async def test_the_beat_carries_what_sessions_do_and_goes_out_without_it(site: Site, fails: bool) -> None:
    site.want(wants())
    await site.operator.look()
    await site.operator.look()
    beat = Beat(Receiver(), site.substrate, site.store, site.operator, site.clock, watched=Watched(fails))
    document = await beat.document()
    assert document is not None
    assert [row.activity is None for row in document.sessions] == [fails]


# Two classes of work --------------------------------------------------------------------------------------------------


class Eventful(Moody):
    """A substrate whose pods are opened apart, which tells in which order it was asked; something happens with every start."""

    def __init__(self) -> None:
        super().__init__()
        self.made_open = False
        self.asked: list[tuple[str, UUID]] = []
        self.news: Callable[[], None] = lambda: None

    async def start(self, spec: SessionSpec, now: datetime) -> None:
        self.asked.append(("start", spec.session_id))
        await super().start(spec, now)
        self.news()

    async def open(self, spec: SessionSpec) -> None:
        self.asked.append(("open", spec.session_id))
        await super().open(spec)

    def of(self, act: str) -> list[UUID]:
        return [session for kind, session in self.asked if kind == act]


class Apart(Site):
    """A site whose substrate opens pods apart."""

    substrate: Eventful

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Eventful())

    def restart(self) -> None:
        super().restart()
        pace = Pace(slice_seconds=0.0)  # every look is short of time
        self.operator = Operator(self.substrate, self.store, self.wishes, self.clock, pace=pace)
        self.substrate.news = self.operator.wake
        self.substrate.pods = {key: replace(pod, is_open=False) for key, pod in self.substrate.pods.items()}

    async def look(self, seconds: float = 0.1) -> None:
        self.clock.set(self.clock.now() + timedelta(seconds=seconds))
        await self.operator.look()


@pytest.fixture
def apart(tmp_path: Path) -> Apart:
    return Apart(tmp_path)


async def test_starts_and_ends_come_before_what_can_wait(apart: Apart) -> None:
    first, ending, second = uuid4(), uuid4(), uuid4()
    apart.want(wants(session=first), wants(session=ending))
    await apart.look()
    assert apart.substrate.of("open") == [], "nothing leads to what was not seen yet"
    apart.want(wants(session=first), wants(1, 2, Desired.STOPPED, session=ending), wants(session=second))
    await apart.look()
    assert apart.substrate.asked[2:] == [("start", second), ("open", first)]
    assert (ending, 1) not in apart.substrate.opened


async def test_what_can_wait_goes_on_while_starts_keep_coming_the_longest_waiting_first(apart: Apart) -> None:
    crowd = [uuid7() for _ in range(12)]
    wanted = [wants(session=session) for session in crowd]
    apart.want(*wanted)
    await apart.look()
    for number in range(1, 5):
        wanted += [wants(session=uuid7())]
        apart.want(*wanted)
        await apart.look()
        opened = len(apart.substrate.of("open"))
        if number == 1:
            assert opened < len(crowd), "it is put off"
    assert apart.substrate.of("open")[: len(crowd)] == crowd, "the longest waiting first, and none for ever"


async def test_a_look_that_had_no_time_for_all_is_followed_at_once_unless_it_fails(apart: Apart) -> None:
    crowd = [wants(session=uuid7()) for _ in range(12)]
    apart.want(*crowd)
    await apart.look()
    apart.want(*crowd, wants(session=uuid7()))
    await apart.look()
    assert apart.operator.has_left_over
    apart.substrate.blind = True
    await apart.look()
    assert not apart.operator.has_left_over, "nobody is asked again and again without a breath"
    apart.substrate.blind = False
    for _ in range(4):
        await apart.look()
    assert not apart.operator.has_left_over


async def test_a_way_that_was_not_made_when_the_operator_died_is_made_by_the_next_one(apart: Apart) -> None:
    apart.want(wants())
    await apart.look()
    apart.restart()  # between the two classes
    apart.substrate.change(SESSION, 1, ready=True)
    await apart.look()
    assert apart.phase() is Phase.STARTING, "nobody is sent there yet"
    await apart.look()
    assert (apart.substrate.of("open"), apart.phase()) == ([SESSION], Phase.RUNNING)
    apart.restart()
    await apart.look()
    assert (apart.substrate.of("open"), apart.phase()) == ([SESSION], Phase.RUNNING), "it is known to be there"
