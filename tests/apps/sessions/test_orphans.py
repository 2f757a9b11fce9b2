"""A run that ended without word from its cluster blocks its card until it is known to be gone, and no longer."""

from datetime import timedelta

import pytest

from cluster.models import Card, Claim, Desired
from gshare_core.contract import Inventory
from sessions_app import reconciler, reports
from sessions_app.models import Session
from sessions_app.services import Asked, pause_session, resume_session, stop_session

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def fresh(session):
    return Session.objects.get(pk=session.pk)


def asked(world, session):
    return Asked(session.pk, world.alice.user)


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


def beat(world):
    """The cluster lists its node, Ready, with its cards, and no pod."""
    cards = [
        {"uuid": card.uuid, "index": card.index, "model": card.model, "vram_mib": card.vram_mib, "slots": card.slots}
        for card in Card.objects.filter(node=world.node)
    ]
    row = {"cpu_milli": 128_000, "memory_mib": 524_288, "scratch_gib": 2_000}
    now = world.time.now().isoformat()
    document, bad = Inventory.read(
        {
            "contract_version": 1,
            "observed_at": now,
            "sent_at": now,
            "nodes": [
                {
                    "name": world.node.name,
                    "ready": True,
                    **row,
                    "cards": [card | {"core_percent": 100} for card in cards],
                }
            ],
            "volumes": [],
            "sessions": [],
        }
    )
    assert not bad
    reports.receive_inventory(world.cluster.pk, document, bad)


def test_an_orphan_is_freed_by_inventory_also_after_a_later_run_of_its_session_has_ended(world, session):
    resume_session(asked(world, session))
    world.ready(fresh(session))
    stop_session(asked(world, session))
    world.gone(session)
    assert (fresh(session).state, orphaned(session), world.card.used_slots) == ("stopped", 1, 1)
    world.time.advance(MINUTE)
    beat(world)
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
        beat(world)
    assert orphaned(session) == 0
    assert not Desired.objects.filter(session_id=session.pk).exists()
    assert fresh(session).state == "queued"
