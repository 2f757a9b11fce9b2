"""Volumes: making, growing, sharing, mounting, deleting, taking back."""

from datetime import timedelta

import pytest

from accounts.domain.policies import Kind
from cluster import queries, services, volumes
from cluster.models import Attachment, Volume
from cluster.services import ShareWish, VolumeWish
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered
from sessions_app.api.serializers import AskSerializer
from tests.builders import a_cluster, a_group, a_limit, a_user, an_org_admin, an_organisation, ids

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return a_cluster(storage_classes={"home": "nfs", "data": "ceph"})


@pytest.fixture
def group():
    return a_group()


@pytest.fixture
def alice(group):
    return a_user(group)


def a_volume(by, cluster, **fields):
    values = {"name": f"v-{uuid7()}", "kind": "data", "access": "rwo", "size_gib": 10, "group_id": None}
    return services.create_volume(by=by, wish=VolumeWish(cluster_id=cluster.pk, **values | fields))


def mount(volume, *, mode="rw", path="/data", session=None, run=None):
    with ordered():
        services.attach(
            session_id=session or uuid7(),
            run_id=run or uuid7(),
            mounts=[{"volume": str(volume.pk), "path": path, "mode": mode}],
            at=clock.now(),
        )


def fact(user, volume, mode="rw"):
    return volumes.mount_facts(user_id=user.pk, group_id=uuid7(), mounts=[(volume.pk, mode)])[0]


def refused(code, call, *args, **fields):
    with pytest.raises(DomainError) as error:
        call(*args, **fields)
    assert error.value.code == code
    return error.value


def test_a_volume_gets_the_storage_class_that_its_cluster_maps_its_kind_to(cluster, alice):
    made = a_volume(alice, cluster, kind="home")

    assert made.storage_class == "nfs"
    assert made.claim == f"vol-{made.pk.hex}"
    mounted = services.volume_mounts([{"volume": str(made.pk), "path": "/home/work", "mode": "ro"}])[0]
    assert (mounted.claim, mounted.read_only, mounted.access_mode) == (made.claim, True, "ReadWriteOnce")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("name", wrong) for wrong in (" ", "x" * 64, "a\nb", "Data", "-a", "a-", "a_b", "a.b", "데이터")],
        ("kind", "tape"),
        ("access", "rw"),
        ("size_gib", 0),
    ],
)
def test_wishes_that_mean_nothing_name_their_field(field, value, cluster, alice):
    assert field in refused("invalid", a_volume, alice, cluster, **{field: value}).errors


def test_two_volumes_of_one_person_do_not_share_a_name(cluster, alice):
    a_volume(alice, cluster, name="data")

    refused("conflict", a_volume, alice, cluster, name="data")


def test_names_keep_the_rule_of_sessions_names_and_say_it_in_the_same_words(cluster, alice):
    made = a_volume(alice, cluster, name="  0-data-1 ")
    assert made.name == "0-data-1"

    error = refused("invalid", services.change_volume, by=alice, volume_id=made.pk, name="My data")

    session = AskSerializer(data={"name": "My data"})
    assert not session.is_valid()
    assert error.errors["name"] == [str(session.errors["name"][0])]


def test_somebody_who_is_a_guest_everywhere_creates_nothing(cluster, group):
    refused("forbidden", a_volume, a_user(group, role="guest"), cluster)


def test_a_groups_volume_is_made_by_its_administrator(cluster, group, alice):
    made = a_volume(a_user(group, role="group_admin"), cluster, group_id=group.pk)

    assert made.owner is None
    refused("forbidden", a_volume, alice, cluster, group_id=group.pk)
    refused("not_found", a_volume, a_user(a_group()), cluster, group_id=group.pk)


def test_a_home_volume_is_made_once(cluster, alice):
    first = services.ensure_home(by=alice, cluster_id=cluster.pk)

    assert services.ensure_home(by=alice, cluster_id=cluster.pk) == first
    assert (first.kind, first.access) == ("home", "rwo")


# Limits ---------------------------------------------------------------------------------------------------------------


def test_personal_volumes_stay_within_the_persons_limit_at_home(cluster, alice):
    a_limit(alice.organisation, storage_gib=15)
    a_volume(alice, cluster, size_gib=10)

    error = refused("quota_exceeded", a_volume, alice, cluster, size_gib=6)

    assert error.facts == {
        "field": "storage_gib",
        "limit": 15,
        "used": 10,
        "asked": 6,
        "scope": f"organisation:{alice.organisation_id}",
    }
    a_volume(alice, cluster, size_gib=5)


def test_a_groups_volumes_count_in_the_groups_total_and_in_no_persons(cluster, group, alice):
    admin = a_user(group, role="group_admin")
    a_limit(group, kind=Kind.TOTAL, storage_gib=20)
    a_limit(group.organisation, storage_gib=5)
    a_volume(admin, cluster, size_gib=20, group_id=group.pk)

    refused("quota_exceeded", a_volume, admin, cluster, size_gib=1, group_id=group.pk)
    a_volume(admin, cluster, size_gib=5)


def test_an_organisations_total_counts_both_kinds(cluster, group, alice):
    a_limit(group.organisation, kind=Kind.TOTAL, storage_gib=20)
    a_volume(a_user(group, role="group_admin"), cluster, size_gib=12, group_id=group.pk)
    a_volume(alice, cluster, size_gib=7)

    assert volumes.used_storage(f"organisation:{group.organisation_id}") == 19
    refused("quota_exceeded", a_volume, alice, cluster, size_gib=2)


def test_the_refusal_names_the_scope_that_set_the_limit(cluster, group, alice):
    admin = a_user(group, role="group_admin")
    a_limit(group, kind=Kind.TOTAL, storage_gib=20)
    a_limit(alice, storage_gib=3)

    assert refused("quota_exceeded", a_volume, admin, cluster, size_gib=21, group_id=group.pk).facts["scope"] == (
        f"group:{group.pk}"
    )
    assert refused("quota_exceeded", a_volume, alice, cluster, size_gib=4).facts["scope"] == f"user:{alice.pk}"
    a_limit(group.organisation, kind=Kind.TOTAL, storage_gib=10)
    made = a_volume(admin, cluster, size_gib=9, group_id=group.pk)
    grown = refused("quota_exceeded", services.change_volume, by=admin, volume_id=made.pk, size_gib=12)
    assert grown.facts["scope"] == f"organisation:{group.organisation_id}"


def test_growing_is_held_against_the_limit_and_shrinking_is_refused(cluster, alice):
    a_limit(alice.organisation, storage_gib=15)
    made = a_volume(alice, cluster, size_gib=10)

    assert services.change_volume(by=alice, volume_id=made.pk, size_gib=15).size_gib == 15
    refused("quota_exceeded", services.change_volume, by=alice, volume_id=made.pk, size_gib=16)
    refused("invalid", services.change_volume, by=alice, volume_id=made.pk, size_gib=14)


def test_a_deleted_volume_counts_until_it_is_given_up(cluster, alice):
    a_limit(alice.organisation, storage_gib=10)
    made = a_volume(alice, cluster, size_gib=10)
    services.delete_volume(by=alice, volume_id=made.pk)
    refused("quota_exceeded", a_volume, alice, cluster, size_gib=1)

    assert services.purge_volumes(at=clock.now() + timedelta(hours=24, seconds=1)) == 1

    a_volume(alice, cluster, size_gib=10)


# Deleting -------------------------------------------------------------------------------------------------------------


def test_a_mounted_volume_is_not_deleted(cluster, alice):
    made, run = a_volume(alice, cluster), uuid7()
    mount(made, run=run)

    refused("in_use", services.delete_volume, by=alice, volume_id=made.pk)

    with ordered():
        services.release_attachments(run, at=clock.now())
    services.delete_volume(by=alice, volume_id=made.pk)
    refused("mount_forbidden", mount, made)


def test_a_deletion_can_be_taken_back_for_a_day(cluster, alice):
    made = a_volume(alice, cluster)
    services.delete_volume(by=alice, volume_id=made.pk)
    assert not fact(alice, made).found

    restored = services.restore_volume(by=alice, volume_id=made.pk)

    assert restored.deleted_at is None
    assert fact(alice, made).found
    services.delete_volume(by=alice, volume_id=made.pk)
    Volume.objects.update(deleted_at=clock.now() - timedelta(hours=25), created_at=clock.now() - timedelta(days=2))
    refused("not_found", services.restore_volume, by=alice, volume_id=made.pk)


def test_a_volume_is_not_restored_beside_another_of_its_name(cluster, alice):
    made = a_volume(alice, cluster, name="data")
    services.delete_volume(by=alice, volume_id=made.pk)
    a_volume(alice, cluster, name="data")

    refused("conflict", services.restore_volume, by=alice, volume_id=made.pk)


def test_what_is_not_due_is_not_given_up(cluster, alice):
    made = a_volume(alice, cluster)
    services.delete_volume(by=alice, volume_id=made.pk)

    assert services.purge_volumes(at=clock.now() + timedelta(hours=23)) == 0


# Mounting -------------------------------------------------------------------------------------------------------------


def test_a_single_writer_volume_has_one_holder(cluster, alice):
    made = a_volume(alice, cluster)
    session, run, _other = ids()
    mount(made, session=session, run=run)

    error = refused("mount_conflict", mount, made, mode="ro")

    assert error.gate == 2
    assert fact(alice, made).held_by == session
    with ordered():
        assert services.release_attachments(run, at=clock.now()) == 1
    mount(made)


def test_an_orphaned_runs_attachment_keeps_its_own_session_out_too(cluster, alice):
    made = a_volume(alice, cluster)
    session, run, _other = ids()
    mount(made, session=session, run=run)

    refused("mount_conflict", mount, made, session=session, run=uuid7())


def test_a_shared_volume_has_as_many_holders_as_like(cluster, alice):
    made = a_volume(alice, cluster, access="rwx")

    mount(made)
    mount(made)

    assert Attachment.objects.filter(released_at=None).count() == 2
    assert fact(alice, made).held_by is None


def test_a_refused_mount_leaves_the_others_to_be_rolled_back_together(cluster, alice):
    free, held = a_volume(alice, cluster), a_volume(alice, cluster)
    mount(held)
    mounts = [{"volume": str(each.pk), "path": f"/data/{n}", "mode": "rw"} for n, each in enumerate((free, held))]

    with pytest.raises(DomainError), ordered():
        services.attach(session_id=uuid7(), run_id=uuid7(), mounts=mounts, at=clock.now())

    assert Attachment.objects.filter(released_at=None).count() == 1


def test_an_unknown_volume_answers_like_a_foreign_one(cluster, alice):
    foreign = a_volume(a_user(a_group()), cluster)
    unknown = uuid7()

    found, missing = volumes.mount_facts(
        user_id=alice.pk, group_id=uuid7(), mounts=[(foreign.pk, "rw"), (unknown, "rw")]
    )

    assert (found.found, found.readable, found.name) == (missing.found, missing.readable, missing.name)
    assert not found.found


@pytest.mark.parametrize(
    ("role", "found", "writable"), [("member", True, True), ("group_admin", True, True), ("guest", False, False)]
)
def test_a_groups_volume_is_mounted_by_who_works_in_it(role, found, writable, cluster, group):
    made = a_volume(a_user(group, role="group_admin"), cluster, group_id=group.pk, access="rwx")

    seen = fact(a_user(group, role=role), made)

    assert (seen.found, seen.writable) == (found, writable)


def test_a_read_only_volume_is_written_by_nobody(cluster, alice):
    made = a_volume(alice, cluster, access="rox")

    seen = fact(alice, made)
    assert seen.readable
    assert not seen.writable


# Sharing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ro", "rw"])
def test_a_share_lets_somebody_of_the_organisation_mount_in_its_mode(mode, cluster, alice, group):
    made, bob = a_volume(alice, cluster, access="rwx"), a_user(group)
    assert not fact(bob, made).found

    share = services.share_volume(by=alice, volume_id=made.pk, wish=ShareWish(mode, user_id=bob.pk))

    seen = fact(bob, made)
    assert (seen.found, seen.writable) == (True, mode == "rw")
    services.end_share(by=alice, volume_id=made.pk, share_id=share.pk)
    assert not fact(bob, made).found


def test_only_what_takes_a_right_away_asks_for_sessions_to_be_ended(cluster, alice, group):
    made, bob = a_volume(alice, cluster, access="rwx"), a_user(group)

    def share(mode):
        return services.share_volume(by=alice, volume_id=made.pk, wish=ShareWish(mode, user_id=bob.pk))

    share("ro")
    share("rw")
    assert queries.open_volume_drains() == []
    lowered = share("ro")
    assert [drain.volume_id for drain in queries.open_volume_drains()] == [made.pk]
    services.end_share(by=alice, volume_id=made.pk, share_id=lowered.pk)
    assert len(queries.open_volume_drains()) == 1


def test_sharing_again_changes_the_mode(cluster, alice, group):
    made, bob = a_volume(alice, cluster, access="rwx"), a_user(group)
    services.share_volume(by=alice, volume_id=made.pk, wish=ShareWish("ro", email=bob.email.upper()))

    services.share_volume(by=alice, volume_id=made.pk, wish=ShareWish("rw", user_id=bob.pk))

    assert made.shares.count() == 1
    assert fact(bob, made).writable


def test_a_share_with_a_group_reaches_who_works_in_it(cluster, group):
    other = a_group(group.organisation)
    admin = an_org_admin(group.organisation)
    made, alice = a_volume(admin, cluster), admin
    services.share_volume(by=alice, volume_id=made.pk, wish=ShareWish("ro", group_id=other.pk))

    assert fact(a_user(other), made).readable
    assert not fact(a_user(other, role="guest"), made).found


def test_nothing_is_shared_beyond_the_organisation(cluster, alice):
    made = a_volume(alice, cluster)
    stranger, place = a_user(a_group()), a_group()
    unseen = a_group(alice.organisation)

    for wish in (
        ShareWish("ro", group_id=unseen.pk),
        ShareWish("ro", user_id=stranger.pk),
        ShareWish("ro", email="nobody@example.org"),
        ShareWish("ro", group_id=place.pk),
        ShareWish("ro", user_id=alice.pk),
        ShareWish("ro"),
        ShareWish("rwx", user_id=alice.pk),
    ):
        refused("invalid", services.share_volume, by=alice, volume_id=made.pk, wish=wish)


def test_who_may_mount_does_not_thereby_manage(cluster, alice, group):
    made, bob = a_volume(alice, cluster, access="rwx"), a_user(group)
    services.share_volume(by=alice, volume_id=made.pk, wish=ShareWish("rw", user_id=bob.pk))

    refused("forbidden", services.delete_volume, by=bob, volume_id=made.pk)
    refused("forbidden", services.change_volume, by=bob, volume_id=made.pk, size_gib=20)
    refused("forbidden", services.share_volume, by=bob, volume_id=made.pk, wish=ShareWish("rw", user_id=bob.pk))


def test_strangers_do_not_see_it_and_the_homes_administrator_looks_after_it(cluster, alice):
    made = a_volume(alice, cluster)
    admin = an_org_admin(alice.organisation)

    refused("not_found", services.delete_volume, by=a_user(a_group()), volume_id=made.pk)
    refused("not_found", services.delete_volume, by=an_org_admin(an_organisation()), volume_id=made.pk)
    assert not fact(admin, made).found  # to look after is not to read
    services.delete_volume(by=admin, volume_id=made.pk)


def test_removing_somebody_from_a_group_takes_his_mounts_at_once(cluster, group):
    admin, bob = a_user(group, role="group_admin"), a_user(group)
    made = a_volume(admin, cluster, group_id=group.pk, access="rwx")
    assert fact(bob, made).found

    bob.memberships.all().delete()

    assert not fact(bob, made).found
