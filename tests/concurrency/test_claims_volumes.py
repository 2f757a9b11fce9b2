"""Volumes under real concurrency."""

import pytest

from accounts.domain.policies import Kind
from cluster import services
from cluster.models import Attachment, Volume
from cluster.services import VolumeWish
from cluster.volumes import used_storage
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from tests.builders import a_cluster, a_group, a_limit, a_user
from tests.concurrency.rivals import times, together

pytestmark = pytest.mark.django_db(transaction=True)
CONNECTIONS = 8


@pytest.fixture
def cluster():
    return a_cluster()


@pytest.fixture
def alice():
    return a_user(a_group())


def a_volume(by, cluster, **fields):
    values = {"name": f"v-{uuid7()}", "kind": "data", "access": "rwo", "size_gib": 10}
    return services.create_volume(by=by, wish=VolumeWish(cluster_id=cluster.pk, **values | fields))


def mount(volume):
    with ordered():
        services.attach(
            session_id=uuid7(),
            run_id=uuid7(),
            mounts=[{"volume": str(volume.pk), "path": "/data", "mode": "rw"}],
            at=clock.now(),
        )


def codes(results):
    """The refusals' codes; anything else that was raised fails the test."""
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, DomainError):
            raise result
    return sorted(result.code for result in results if isinstance(result, DomainError))


def test_a_single_writer_volume_goes_to_one_of_those_who_mount_at_once(cluster, alice):
    made = a_volume(alice, cluster)

    results = together(*times(CONNECTIONS, lambda: mount(made)))

    assert codes(results) == ["mount_conflict"] * (CONNECTIONS - 1)
    assert Attachment.objects.filter(released_at=None).count() == 1


def test_several_volumes_mounted_in_opposite_orders_do_not_deadlock(cluster, alice):
    made = [a_volume(alice, cluster, access="rwx") for _number in range(4)]

    def mount_all(order):
        mounts = [{"volume": str(each.pk), "path": f"/data/{each.pk}", "mode": "rw"} for each in order]
        with ordered():
            services.attach(session_id=uuid7(), run_id=uuid7(), mounts=mounts, at=clock.now())

    works = [lambda order=made[:: 1 if n % 2 else -1]: mount_all(order) for n in range(CONNECTIONS)]

    assert codes(together(*works)) == []
    assert Attachment.objects.count() == 4 * CONNECTIONS


def test_a_volume_is_deleted_or_mounted_and_never_both(cluster, alice):
    for _round in range(5):
        made = a_volume(alice, cluster)

        results = together(
            *times(4, lambda made=made: mount(made)),
            *times(4, lambda made=made: services.delete_volume(by=alice, volume_id=made.pk)),
        )

        codes(results)
        held = Attachment.objects.filter(volume=made, released_at=None).exists()
        deleted = Volume.objects.get(pk=made.pk).deleted_at is not None
        assert held != deleted


def test_the_last_gib_of_a_limit_goes_to_one(cluster, alice):
    a_limit(alice.organisation, storage_gib=15)

    results = together(*times(CONNECTIONS, lambda: a_volume(alice, cluster, size_gib=10)))

    assert codes(results) == ["quota_exceeded"] * (CONNECTIONS - 1)
    assert Volume.objects.count() == 1


def test_volumes_made_and_grown_at_once_never_pass_a_persons_limit(cluster, alice):
    a_limit(alice.organisation, storage_gib=30)
    made = [a_volume(alice, cluster, size_gib=5) for _number in range(2)]

    for _round in range(3):
        grow = [
            lambda each=each: services.change_volume(
                by=alice, volume_id=each.pk, size_gib=Volume.objects.get(pk=each.pk).size_gib + 3
            )
            for each in made * 2
        ]
        refusals = codes(together(*grow, *times(4, lambda: a_volume(alice, cluster, size_gib=3))))
        assert set(refusals) <= {"quota_exceeded", "conflict"}
        assert used_storage(f"user:{alice.pk}") <= 30

    assert used_storage(f"user:{alice.pk}") >= 28  # refused for want of room, not of luck


def test_a_groups_total_holds_against_several_administrators_at_once(cluster):
    group = a_group()
    admins = [a_user(group, role="group_admin") for _number in range(CONNECTIONS)]
    a_limit(group, kind=Kind.TOTAL, storage_gib=25)
    a_limit(group.organisation, kind=Kind.TOTAL, storage_gib=34)

    results = together(
        *[lambda by=admin: a_volume(by, cluster, size_gib=10, group_id=group.pk) for admin in admins[:4]],
        *[lambda by=admin: a_volume(by, cluster, size_gib=8) for admin in admins[4:]],
    )

    assert set(codes(results)) == {"quota_exceeded"}
    assert used_storage(f"group:{group.pk}") <= 20
    assert used_storage(f"organisation:{group.organisation_id}") <= 34


def test_a_restored_volume_and_a_new_one_do_not_both_take_the_last_room(cluster, alice):
    a_limit(alice.organisation, storage_gib=10)
    deleted = a_volume(alice, cluster, size_gib=10)
    services.delete_volume(by=alice, volume_id=deleted.pk)

    results = together(
        *times(4, lambda: services.restore_volume(by=alice, volume_id=deleted.pk)),
        *times(4, lambda: a_volume(alice, cluster, size_gib=10)),
    )

    assert codes(results) == ["quota_exceeded"] * 4
    assert used_storage(f"user:{alice.pk}") == 10


def test_a_home_asked_for_from_many_windows_at_once_is_one(cluster, alice):
    results = together(*times(CONNECTIONS, lambda: services.ensure_home(by=alice, cluster_id=cluster.pk)))

    assert codes(results) == []
    assert len({result.pk for result in results}) == 1


def test_a_cluster_is_removed_or_gets_a_volume_and_never_both(alice):
    for _round in range(4):
        cluster = a_cluster()

        codes(
            together(
                *times(4, lambda cluster=cluster: a_volume(alice, cluster)),
                *times(4, lambda cluster=cluster: services.remove_cluster(by=None, cluster_id=cluster.pk)),
            )
        )

        cluster.refresh_from_db()
        assert (cluster.removed_at is not None) != Volume.objects.filter(cluster=cluster).exists()
