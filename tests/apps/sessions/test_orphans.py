"""A run that ended without word from its cluster blocks its card until it is known to be gone, and no longer."""

from datetime import timedelta

import pytest

from cluster.models import Card, Claim, Desired
from sessions_app import reconciler, sweep
from sessions_app.services import pause_session, resume_session, stop_session
from tests.apps.sessions.world import asked, fresh

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def orphaned(session):
    return Claim.objects.filter(session_id=session.pk, state=Claim.State.ORPHANED).count()


@pytest.fixture
def session(world):
    """Paused without word: forced first, then given up."""
    session = world.run("L")
    pause_session(asked(world, session))
    for _forced_then_ended in range(2):
        world.time.advance(4 * MINUTE)
        reconciler.reconcile()
    assert (fresh(session).state, orphaned(session)) == ("paused", 1)
    return session


def test_an_orphan_is_freed_by_inventory_also_after_a_later_run_of_its_session_has_ended(world, session):
    resume_session(asked(world, session))
    world.ready(fresh(session))
    stop_session(asked(world, session))
    world.gone(session)
    assert (fresh(session).state, orphaned(session), world.card.used_slots) == ("stopped", 1, 1)
    world.beat()
    assert orphaned(session) == 1, "nothing says that its end was observed"

    sweep.sweep()

    tombstone = Desired.objects.get(session_id=session.pk)
    assert (tombstone.spec, tombstone.run) == (None, 1)
    world.report(fresh(session), "terminating", run=1, generation=tombstone.generation)
    world.time.advance(MINUTE)
    world.beat()
    assert not Desired.objects.exists()
    assert (orphaned(session), world.card.used_slots) == (0, 0)


@pytest.mark.parametrize("known_by", ["report", "inventory"])
def test_the_document_of_an_orphaned_run_goes_with_it_while_the_session_waits_for_another(world, session, known_by):
    old = fresh(session)
    Card.objects.filter(node=world.node).update(is_draining=True)
    resume_session(asked(world, session))
    assert (fresh(session).state, fresh(session).run_number) == ("queued", 2)
    if known_by == "report":
        world.report(old, "gone", "stopped")
    else:
        world.report(old, "terminating")
        Desired.objects.filter(session_id=session.pk).update(
            observed_run=1, observed_generation=old.generation, observed_at=world.time.now()
        )
        world.time.advance(MINUTE)
        world.beat()
    assert orphaned(session) == 0
    assert not Desired.objects.filter(session_id=session.pk).exists()
    assert fresh(session).state == "queued"
