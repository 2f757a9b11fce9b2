"""What happens to sessions when somebody loses a volume: a share that ends or is lowered, a seat that is taken away."""

from datetime import timedelta

import pytest

from accounts.models import DrainIntent, Membership
from accounts.services import remove_membership
from billing.models import Account
from cluster import queries, services
from cluster.models import Card, Volume
from cluster.services import ShareWish, VolumeWish
from gshare_core.errors import DomainError
from sessions_app import draining, queue
from sessions_app.models import Session
from sessions_app.services import Asked, pause_session, resume_session
from tests.apps.sessions.world import MountAsk
from tests.builders import a_customer, a_group, a_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob(world):
    """A colleague with credits in alice's group."""
    return a_customer(1_000, group=world.alice.group)


@pytest.fixture
def volume(world):
    """A volume of alice that several may write."""
    wish = VolumeWish("shared", "data", "rwx", 1, world.cluster.pk)
    return services.create_volume(by=world.alice.user, wish=wish)


def share(world, volume, bob, mode="rw"):
    wish = ShareWish(mode, user_id=bob.user.pk)
    return services.share_volume(by=world.alice.user, volume_id=volume.pk, wish=wish)


def unshare(world, share_):
    services.end_share(by=world.alice.user, volume_id=share_.volume_id, share_id=share_.pk)


def mounting(volume, mode="rw"):
    return (MountAsk(volume.pk, "/data", mode),)


def state(session):
    found = Session.objects.get(pk=session.pk)
    return found.state, found.reason


def drained():
    """Whether a late enough pass closes every intent."""
    return not queries.open_volume_drains() and not DrainIntent.objects.filter(closed_at=None).exists()


def test_who_lost_a_volume_is_paused_and_cannot_resume_with_it(world, volume, bob):
    given = share(world, volume, bob)
    session = world.run("L", customer=bob, mounts=mounting(volume))
    own = world.run("M", mounts=mounting(volume))

    unshare(world, given)
    assert not queries.visible_volumes(bob.user).exists()
    assert draining.drain() == 1

    assert state(session) == ("pausing", "access_revoked")
    assert "shared" in Session.objects.get(pk=session.pk).detail
    assert state(own) == ("running", "")
    world.gone(session)
    assert state(session) == ("paused", "access_revoked")
    with pytest.raises(DomainError) as refusal:
        resume_session(Asked(session.pk, bob.user))
    assert (refusal.value.code, refusal.value.gate) == ("mount_forbidden", 2)


def test_the_volume_given_back_lets_the_session_resume(world, volume, bob):
    given = share(world, volume, bob)
    session = world.run("L", customer=bob, mounts=mounting(volume))
    unshare(world, given)
    draining.drain()
    world.gone(session)

    share(world, volume, bob)
    resume_session(Asked(session.pk, bob.user))

    assert state(session)[0] == "starting"
    assert draining.drain() == 0


def test_a_share_given_back_before_anybody_looked_ends_nothing(world, volume, bob):
    given = share(world, volume, bob)
    session = world.run("L", customer=bob, mounts=mounting(volume))
    unshare(world, given)
    share(world, volume, bob)

    assert draining.drain() == 0
    assert state(session) == ("running", "")


def test_who_may_only_read_from_now_on_keeps_what_he_reads_and_loses_what_he_writes(world, volume, bob):
    share(world, volume, bob)
    writer = world.run("L", customer=bob, mounts=mounting(volume, "rw"))
    reader = world.run("L", customer=bob, mounts=mounting(volume, "ro"))

    share(world, volume, bob, "ro")
    draining.drain()

    assert state(writer) == ("pausing", "access_revoked")
    assert state(reader) == ("running", "")


def test_who_waits_with_a_volume_that_he_lost_is_refused_and_gets_his_hold_back(world, volume, bob):
    given = share(world, volume, bob)
    Card.objects.update(is_draining=True)
    waiting = world.create("L", customer=bob, mounts=mounting(volume))
    assert state(waiting)[0] == "queued"
    assert Account.objects.get(pk=bob.wallet).held > 0

    unshare(world, given)
    draining.drain()

    assert state(waiting) == ("failed", "mount_forbidden")
    assert Account.objects.get(pk=bob.wallet).held == 0
    Card.objects.update(is_draining=False)
    queue.drain()
    assert state(waiting)[0] == "failed"


def test_a_resumed_session_that_waits_stays_paused(world, volume, bob):
    given = share(world, volume, bob)
    session = world.run("L", customer=bob, mounts=mounting(volume))
    pause_session(Asked(session.pk, bob.user))
    world.gone(session)
    Card.objects.update(is_draining=True)
    resume_session(Asked(session.pk, bob.user))
    assert state(session)[0] == "queued"

    unshare(world, given)
    draining.drain()

    assert state(session) == ("paused", "mount_forbidden")


def test_what_starts_is_paused_and_what_is_paused_stays_so(world, volume, bob):
    given = share(world, volume, bob)
    paused = world.run("L", customer=bob, mounts=mounting(volume))
    pause_session(Asked(paused.pk, bob.user))
    world.gone(paused)
    starting = world.create("L", customer=bob, mounts=mounting(volume))

    unshare(world, given)
    assert draining.drain() == 1

    assert state(starting) == ("pausing", "access_revoked")
    assert state(paused) == ("paused", "user")


def test_a_group_that_lost_a_volume_loses_it_for_all_its_people_but_not_for_its_owner(world, volume, bob):
    group = world.alice.group
    given = services.share_volume(by=world.alice.user, volume_id=volume.pk, wish=ShareWish("rw", group_id=group.pk))
    session = world.run("L", customer=bob, mounts=mounting(volume))
    own = world.run("L", mounts=mounting(volume))

    unshare(world, given)
    draining.drain()

    assert state(session) == ("pausing", "access_revoked")
    assert state(own) == ("running", "")


def test_an_intent_closes_only_on_a_late_pass_that_finds_nothing(world, volume, bob):
    given = share(world, volume, bob)
    session = world.run("L", customer=bob, mounts=mounting(volume))
    unshare(world, given)
    assert draining.drain() == 1
    draining.drain()
    assert not drained()

    world.time.advance(timedelta(minutes=5, seconds=1))
    draining.drain()

    assert drained()
    assert state(session)[0] == "pausing"


def test_a_seat_taken_away_takes_the_groups_volumes_from_sessions_of_other_groups_too(world, bob):
    other = a_group(world.alice.group.organisation)
    seat = Membership.objects.create(user=bob.user, group=other, role="member", created_at=world.time.now())
    admin = a_user(other, role="group_admin")
    theirs = services.create_volume(
        by=admin, wish=VolumeWish("team", "data", "rwx", 1, world.cluster.pk, group_id=other.pk)
    )
    session = world.run("L", customer=bob, mounts=mounting(theirs))
    free = world.run("L", customer=bob)

    remove_membership(membership_id=seat.pk, by=None)
    draining.drain()

    assert state(session) == ("pausing", "access_revoked")
    assert state(free) == ("running", "")
    world.time.advance(timedelta(minutes=5, seconds=1))
    draining.drain()
    assert drained()


def test_a_volume_cannot_be_deleted_while_an_orphan_holds_it(world, volume):
    session = world.run("L", mounts=mounting(volume))
    pause_session(Asked(session.pk, world.alice.user))

    with pytest.raises(DomainError) as refusal:
        services.delete_volume(by=world.alice.user, volume_id=volume.pk)
    assert refusal.value.code == "in_use"

    world.gone(session)
    services.delete_volume(by=world.alice.user, volume_id=volume.pk)
    assert Volume.objects.get(pk=volume.pk).deleted_at is not None
