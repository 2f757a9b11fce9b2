"""The loop: what one session's trouble does to others, what a failed look concludes, what the inventory says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from cluster.operator.feed import Wishes
from cluster.operator.inventory import Beat
from cluster.operator.loop import Operator
from cluster.operator.state import Pod, Unavailable
from cluster.operator.store import Store
from gshare_core.clock import ManualClock
from gshare_core.contract import Activity, Desired, DesiredFeed, Inventory, Mount, Phase, SessionSpec
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.substrate = Moody()
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
