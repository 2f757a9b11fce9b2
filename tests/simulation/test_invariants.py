"""What is planted is found: rows that no production code would write break the simulation."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gshare_core.ids import uuid7
from sessions_app.models import Preemption, Session
from tests.simulation.stage import Simulation, staged
from tests.simulation.world import BrokenInvariantError

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]


def _preempted(simulation: Simulation, victim: Session) -> None:
    """Somebody was asked to make room, as the rows say it, without his pod being asked anything."""
    other = Session.objects.exclude(pk=victim.pk).earliest("created_at")
    now = simulation.world.now
    Preemption.objects.create(
        id=uuid7(),
        session=other,
        requester_id=other.owner_id,
        victim=victim,
        victim_run=victim.run_number,
        chosen_at=now,
        asked_at=now,
    )


def test_what_is_planted_is_found() -> None:
    with staged(5, people=60, faults=0) as simulation:
        simulation.run(timedelta(hours=4))
        simulation.invariants.check()
        running = Session.objects.filter(state="running", preemptible=False).exclude(mode="cpu").earliest("created_at")

        _preempted(simulation, running)
        with pytest.raises(BrokenInvariantError, match="paused_at=None declared=False lower=False"):
            simulation.invariants.check()
        simulation.invariants.check()  # it is told once

        asked = simulation.world.now - timedelta(minutes=5)
        Session.objects.filter(pk=running.pk).update(state="paused", resume_at=asked)
        with pytest.raises(BrokenInvariantError, match="is to resume by itself and is not tried"):
            simulation.invariants.check()
