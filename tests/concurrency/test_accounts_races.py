"""People, seats and the requester's lock under real concurrency."""

from __future__ import annotations

import pytest

from accounts import leases, queries, services
from accounts.domain.policies import Scope, ScopeKind
from accounts.domain.roles import Role
from accounts.models import DrainIntent, Group, Lease, Membership, PolicyValue, User
from accounts.services.memberships import place_of
from gshare_core.errors import DomainError
from gshare_core.kit.locks import ordered
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user, an_org_admin, an_organisation
from tests.concurrency.rivals import Held, Waiting, times, together
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
RIVALS = 8


def codes(results: list) -> list[str]:
    return sorted(result.code if isinstance(result, DomainError) else "done" for result in results)


def seat(user: User) -> Membership:
    return Membership.objects.get(user=user)


def test_removing_a_seat_waits_for_the_create_that_relies_on_it():
    group = a_group()
    admin, member = a_user(group, "group_admin"), a_user(group)
    row = seat(member)

    def create(pause):
        with ordered():
            requester = services.lock_requester(member.pk, group.pk)
            pause()
            return requester.membership is not None

    creating = Held(create)
    removing = Waiting(lambda: services.remove_membership(membership_id=row.pk, by=admin))
    until(removing.is_blocked, within=10, what="the removal to wait for the create")
    assert Membership.objects.filter(pk=row.pk).exists()
    assert creating.release() is True
    assert removing.result() is None
    assert not Membership.objects.filter(pk=row.pk).exists()
    assert queries.open_drains()[0].user_id == member.pk


def test_a_create_waits_for_the_removal_and_then_finds_no_seat():
    group = a_group()
    admin, member = a_user(group, "group_admin"), a_user(group)
    row = seat(member)

    def remove(pause):
        with ordered():
            services.remove_membership(membership_id=row.pk, by=admin)
            pause()

    def create():
        with ordered():
            return services.lock_requester(member.pk, group.pk).membership

    removing = Held(remove)
    creating = Waiting(create)
    until(creating.is_blocked, within=10, what="the create to wait for the removal")
    removing.release()
    assert creating.result() is None


def test_a_create_waits_for_a_deactivation_and_then_finds_the_person_inactive():
    group = a_group()
    member = a_user(group)

    def deactivate(pause):
        with ordered():
            services.deactivate_user(user_id=member.pk, by=None)
            pause()

    def create():
        with ordered():
            return services.lock_requester(member.pk, group.pk).user.is_active

    ending, creating = Held(deactivate), Waiting(create)
    until(creating.is_blocked, within=10, what="the create to wait for the deactivation")
    ending.release()
    assert creating.result() is False


def test_of_two_administrators_who_demote_each_other_one_comes_too_late():
    organisation = an_organisation()
    for _round in range(5):
        first, second = (a_user(organisation=organisation, is_super_admin=True) for _ in range(2))
        results = together(
            lambda one=first, two=second: services.set_super_admin(user_id=two.pk, value=False, by=one),
            lambda one=first, two=second: services.set_super_admin(user_id=one.pk, value=False, by=two),
        )
        assert codes(results) == ["done", "forbidden"]
        User.objects.filter(is_super_admin=True).update(is_super_admin=False)


def test_of_two_who_remove_each_others_rights_one_comes_too_late():
    group = a_group()
    for _round in range(5):
        top = a_super_admin()
        first, second = an_org_admin(group.organisation), a_user(group, "group_admin")
        place = place_of(top, group_id=group.pk)
        services.add_membership(user_id=first.pk, place=place, role=Role.MEMBER, by=top)
        of_first, of_second = Membership.objects.get(user=first, group=group), seat(second)
        results = together(
            lambda row=of_second, by=first: services.remove_membership(membership_id=row.pk, by=by),
            lambda row=of_first, by=second: services.remove_membership(membership_id=row.pk, by=by),
        )
        # The second act removes only a plain seat: it succeeds when it comes first, and is too late afterwards.
        assert codes(results) in (["done", "done"], ["done", "forbidden"], ["done", "not_found"])
        assert not Membership.objects.filter(user=second, group=group).exists()


def test_adding_and_removing_the_same_seat_by_many_at_once_never_deadlocks_and_ends_in_one_state():
    group = a_group()
    admins = [a_user(group, "group_admin") for _ in range(4)]
    person = a_user(email="ada@example.org")
    place = place_of(admins[0], group_id=group.pk)

    def add(admin):
        return services.add_membership_by_email(email=person.email, place=place, role=Role.MEMBER, by=admin)

    def remove(admin):
        row = Membership.objects.filter(user=person, group=group).first()
        return row and services.remove_membership(membership_id=row.pk, by=admin)

    for _round in range(6):
        results = together(
            *(lambda admin=admin: add(admin) for admin in admins),
            *(lambda admin=admin: remove(admin) for admin in admins),
        )
        assert all(result is None or isinstance(result, DomainError) for result in results), results
        assert Membership.objects.filter(user=person, group=group).count() <= 1
        assert DrainIntent.objects.filter(closed_at=None).count() <= 1


def test_eight_equal_registrations_make_one_account():
    organisation = an_organisation()

    def register():
        return services.register_user(email="ada@example.org", name="Ada", organisation_id=organisation.pk, by=None)

    results = together(*times(RIVALS, register))
    assert codes(results) == ["conflict"] * (RIVALS - 1) + ["done"]
    assert User.objects.filter(email="ada@example.org").count() == 1


def test_eight_equal_groups_make_one():
    organisation = an_organisation()
    results = together(
        *times(RIVALS, lambda: services.create_group(organisation_id=organisation.pk, name="lab", by=None))
    )
    assert codes(results) == ["conflict"] * (RIVALS - 1) + ["done"]
    assert Group.objects.count() == 1


def test_eight_changes_of_one_policy_leave_one_number_per_field():
    group = a_group()
    scope = Scope(ScopeKind.GROUP, group.pk)
    results = together(
        *(
            lambda n=n: services.set_policy(scope=scope, per_user={"cards": n, "max_sessions": n}, totals={}, by=None)
            for n in range(RIVALS)
        )
    )
    assert codes(results) == ["done"] * RIVALS
    numbers = dict(PolicyValue.objects.values_list("field", "value"))
    assert numbers["cards"] == numbers["max_sessions"]


def test_two_password_changes_at_once_keep_one():
    user = a_user()
    results = together(
        *(
            lambda n=n: services.change_password(
                by=user, current="correct horse battery", new=f"seven green umbrellas {n}"
            )
            for n in range(2)
        )
    )
    assert codes(results) in (["conflict", "done"], ["done", "invalid"])


def test_a_lease_has_one_holder_at_a_time_and_is_free_after_its_end():
    turns = [turn for turn in together(*times(RIVALS, lambda: leases.take("tick:x", seconds=60))) if turn]
    assert len(turns) == 1
    assert leases.take("tick:x", seconds=60) is None
    assert leases.take("tick:y", seconds=60) is not None
    leases.give_back(turns[0])
    with leases.hold("tick:x", seconds=60) as turn:
        assert turn is not None
        assert not turns[0].renew(seconds=60)
        assert turn.renew(seconds=60)
    Lease.objects.update(until=LONG_AGO)
    assert leases.take("tick:x", seconds=1) is not None


def test_holders_of_a_lease_never_overlap():
    log: list[str] = []

    def work():
        done = 0
        for _ in range(40):
            with leases.hold("tick:busy", seconds=60) as turn:
                if turn:
                    log.append("in")
                    done += 1
                    log.append("out")
        return done

    results = together(*times(4, work))
    assert sum(results) == len(log) // 2 > 0
    assert log == ["in", "out"] * (len(log) // 2)
