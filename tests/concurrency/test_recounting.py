"""Recounting beside live traffic: what is half done in somebody's transaction is no difference, and no repair undoes it."""

from __future__ import annotations

from typing import Any

import pytest

from cluster import fleets
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from sessions_app import recounting
from sessions_app.models import Session, Usage
from sessions_app.services import Asked, pause_session
from tests.apps.sessions.world import a_world, manual_clock
from tests.concurrency.rivals import Held, Waiting
from tests.recount import everything_agrees
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_change_that_is_under_way_is_no_difference_and_a_repair_waits_for_it_and_counts_it() -> None:
    fleets.forget()
    time = manual_clock()
    with clock.using(time):
        world = a_world(time)
        session = world.run("M")

        def pause(stop: Any) -> None:
            with clock.using(time), ordered():
                pause_session(Asked(session.pk, world.alice.user))
                stop()

        def repair() -> list[recounting.Difference]:
            with clock.using(time):
                return recounting.repair()

        assert recounting.differences() == []
        Usage.objects.filter(scope=f"group:{world.alice.group.pk}", field="max_queued").update(used=3)
        pausing = Held(pause)
        assert [difference.field for difference in recounting.differences()] == ["max_queued"]
        repairing = Waiting(repair)
        until(repairing.is_blocked, what="the repair to wait for the pause")
        pausing.release()
        assert [difference.field for difference in repairing.result()] == ["max_queued"]
        assert Session.objects.get(pk=session.pk).state == "pausing"
        assert recounting.differences() == []
        assert everything_agrees()
