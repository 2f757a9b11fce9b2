"""A resume by itself and its owner who calls it off, at the same instant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster.models import Card
from gshare_core.kit import locks
from gshare_core.kit.clock import DatabaseClock
from sessions_app import plans, reconciler, requesters
from sessions_app.models import Run
from sessions_app.services import stay_paused
from tests.apps.sessions.world import World, a_world, asked, fresh
from tests.concurrency.reporting import report
from tests.concurrency.rivals import Held, Waiting
from tests.recount import everything_agrees
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def hold_line(world: World, lane: str) -> Held:
    """The session's lane, held by somebody who takes his time."""

    def body(pause: Callable[[], None]) -> None:
        with locks.ordered():
            locks.lock_name(locks.Rank.LANE, lane)
            pause()

    return Held(body)


def test_who_calls_it_off_between_the_look_and_the_resume_has_it_paused() -> None:
    world = a_world(DatabaseClock())  # type: ignore[arg-type]  # -- it tells the time
    session = world.create("L", auto_resume=True)
    report(session, "running", ready=True)
    session.refresh_from_db()
    report(session, "gone", "evicted")
    assert "stay-paused" in fresh(session).allowed
    ask, person = plans.ask_of(session), requesters.who(world.alice.user, world.alice.group.pk)
    lane = plans.read_plan(ask, person, at=world.time.now(), session=session).lane
    assert lane is not None

    held = hold_line(world, lane)
    waking = Waiting(reconciler.waking)
    until(waking.is_blocked, what="the resume to wait for the line")
    stay_paused(asked(world, session))
    held.release()

    assert waking.result() == 0
    assert fresh(session).state == "paused"
    assert Run.objects.count() == 1
    assert set(Card.objects.values_list("used_slots", flat=True)) == {0}
    assert everything_agrees()
