"""A share that ends while sessions are being created with it: none is left that mounts the volume."""

from datetime import timedelta
from typing import Any

import pytest

from cluster import queries, services
from cluster.services import ShareWish, VolumeWish
from gshare_core.errors import DomainError
from gshare_core.kit.clock import DatabaseClock
from sessions_app import draining
from sessions_app.domain.lifecycle import COUNTING, State
from sessions_app.models import Session
from tests.apps.sessions.world import MountAsk, a_world, limit
from tests.builders import a_customer
from tests.concurrency.rivals import times, together

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("cards", [1, 4])  # some wait in line, or all are placed
def test_a_share_that_ends_during_creates_leaves_no_session_with_the_volume(cards: int, gshare: Any) -> None:
    world = a_world(DatabaseClock(), cards=cards)  # type: ignore[arg-type]  # -- both tell the time
    bob = a_customer(1_000, group=world.alice.group)
    limit("user", "max_sessions", 100, target=bob.user)
    wish = VolumeWish("shared", "data", "rwx", 1, world.cluster.pk)
    volume = services.create_volume(by=world.alice.user, wish=wish)
    share = services.share_volume(by=world.alice.user, volume_id=volume.pk, wish=ShareWish("rw", user_id=bob.user.pk))

    def ask() -> str:
        try:
            world.create("L", customer=bob, mounts=(MountAsk(volume.pk, "/data", "rw"),))
        except DomainError as refusal:
            return refusal.code
        return "made"

    def end() -> str:
        services.end_share(by=world.alice.user, volume_id=volume.pk, share_id=share.pk)
        return "ended"

    answers = together(*times(6, ask), end, *times(2, draining.drain))

    assert set(map(str, answers)) <= {"made", "ended", "mount_forbidden", *map(str, range(7))}, answers
    gshare(intent_settle=timedelta(0))
    draining.drain()
    mine = Session.objects.filter(owner=bob.user)
    assert not mine.filter(state__in=(*COUNTING, State.QUEUED)).exists()
    assert set(mine.values_list("reason", flat=True)) <= {"access_revoked", "mount_forbidden"}
    draining.drain()
    assert queries.open_volume_drains() == []
    with pytest.raises(DomainError, match="volume"):
        world.create("L", customer=bob, mounts=(MountAsk(volume.pk, "/data", "rw"),))
