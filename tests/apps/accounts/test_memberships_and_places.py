"""Seats and places: roles below one's own, the same answer by e-mail, intents when something is taken away."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from accounts import queries, services
from accounts.domain.roles import Role
from accounts.models import AuditEntry, DrainIntent, Membership, Notification
from accounts.services.memberships import place_of
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user, an_org_admin, an_organisation

pytestmark = pytest.mark.django_db


def code(call, **arguments) -> str:
    with pytest.raises(DomainError) as refused:
        call(**arguments)
    return refused.value.code


def test_existing_people_join_by_exact_address_and_nothing_is_told_about_unknown_ones():
    group = a_group()
    admin = a_user(group, "group_admin")
    place = place_of(admin, group_id=group.pk)
    outsider = a_user(email="ada@example.org")
    add = services.add_membership_by_email
    assert add(email="ADA@example.org", place=place, role=Role.MEMBER, by=admin) is None
    assert add(email="nobody@example.org", place=place, role=Role.MEMBER, by=admin) is None
    assert add(email="ada@example.org", place=place, role=Role.MEMBER, by=admin) is None
    assert Membership.objects.get(user=outsider, group=group).role == "member"
    assert AuditEntry.objects.filter(act="membership.add").count() == 1
    assert group.name in Notification.objects.get(user=outsider).title


def test_roles_are_given_and_taken_only_below_ones_own():
    group = a_group()
    admin, equal, member = a_user(group, "group_admin"), a_user(group, "group_admin"), a_user(group)
    place = place_of(admin, group_id=group.pk)
    seat_of = {row.user_id: row.pk for row in Membership.objects.all()}
    assert (
        code(services.add_membership_by_email, email="x@y.example", place=place, role=Role.GROUP_ADMIN, by=admin)
        == "forbidden"
    )
    assert code(services.change_role, membership_id=seat_of[member.pk], role=Role.GROUP_ADMIN, by=admin) == "forbidden"
    assert code(services.change_role, membership_id=seat_of[equal.pk], role=Role.GUEST, by=admin) == "forbidden"
    assert code(services.remove_membership, membership_id=seat_of[equal.pk], by=admin) == "forbidden"
    assert code(services.remove_membership, membership_id=seat_of[admin.pk], by=admin) == "forbidden"
    services.change_role(membership_id=seat_of[member.pk], role=Role.GUEST, by=admin)
    org_admin = an_org_admin(group.organisation)
    services.change_role(membership_id=seat_of[equal.pk], role=Role.MEMBER, by=org_admin)
    assert (
        code(
            services.add_membership,
            user_id=member.pk,
            place=place_of(org_admin, organisation_id=group.organisation_id),
            role=Role.ORG_ADMIN,
            by=org_admin,
        )
        == "forbidden"
    )
    top = a_super_admin()
    services.add_membership(
        user_id=member.pk, place=place_of(top, organisation_id=group.organisation_id), role=Role.ORG_ADMIN, by=top
    )


def test_removing_a_seat_ends_the_right_at_once_and_leaves_an_intent():
    group = a_group()
    admin, member = a_user(group, "group_admin"), a_user(group)
    seat = Membership.objects.get(user=member)
    services.remove_membership(membership_id=seat.pk, by=admin, reason="moved")
    assert queries.requester_facts(member.pk, group.pk).role is None
    intent = queries.open_drains()[0]
    assert (intent.kind, intent.user_id, intent.group_id) == ("membership", member.pk, group.pk)
    entry = AuditEntry.objects.get(act="membership.remove")
    assert (entry.before, entry.after, entry.reason) == ({"role": "member"}, None, "moved")
    services.add_membership_by_email(
        email=member.email, place=place_of(admin, group_id=group.pk), role=Role.MEMBER, by=admin
    )
    assert queries.open_drains() == []


def test_making_somebody_a_guest_ends_what_he_runs_and_making_him_a_member_again_lets_it_be():
    group = a_group()
    admin, member = a_user(group, "group_admin"), a_user(group)
    seat = Membership.objects.get(user=member)
    services.change_role(membership_id=seat.pk, role=Role.GUEST, by=admin)
    assert [(drain.kind, drain.user_id) for drain in queries.open_drains()] == [("membership", member.pk)]
    services.change_role(membership_id=seat.pk, role=Role.MEMBER, by=admin)
    assert queries.open_drains() == []
    services.change_role(membership_id=seat.pk, role=Role.GROUP_ADMIN, by=an_org_admin(group.organisation))
    assert queries.open_drains() == []


def test_by_address_a_deactivated_group_answers_the_same_for_everybody():
    group = a_group()
    admin = a_user(group, "group_admin")
    services.set_group_active(group_id=group.pk, active=False, by=None)
    place = place_of(admin, group_id=group.pk)
    known = a_user()
    for email in (known.email, "nobody@example.org"):
        assert (
            code(services.add_membership_by_email, email=email, place=place, role=Role.MEMBER, by=admin) == "conflict"
        )


def test_what_the_actor_cannot_see_is_not_found():
    group, foreign = a_group(), a_group()
    admin, stranger = a_user(group, "group_admin"), a_user(foreign)
    seat = Membership.objects.get(user=stranger)
    assert code(services.remove_membership, membership_id=seat.pk, by=admin) == "not_found"
    assert code(services.change_role, membership_id=uuid7(), role=Role.GUEST, by=admin) == "not_found"
    assert (
        code(
            services.add_membership,
            user_id=stranger.pk,
            place=place_of(admin, group_id=group.pk),
            role=Role.MEMBER,
            by=admin,
        )
        == "not_found"
    )
    with pytest.raises(DomainError, match="not_found"):
        place_of(admin, group_id=foreign.pk)


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"role": "org_admin", "group": True}, "membership_in_one_place"),
        ({"role": "member", "organisation": True}, "membership_in_one_place"),
        ({"role": "member"}, "membership_in_one_place"),
        ({"role": "member", "group": True, "organisation": True}, "membership_in_one_place"),
        ({"role": "king", "group": True}, "membership_in_one_place"),
    ],
)
def test_the_database_refuses_seats_that_fit_no_place(fields, constraint):
    group, user = a_group(), a_user()
    rows = {
        "group": group if fields.get("group") else None,
        "organisation": group.organisation if fields.get("organisation") else None,
    }
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        Membership.objects.create(user=user, role=fields["role"], created_at=LONG_AGO, **rows)


def test_a_second_seat_in_one_place_is_refused():
    group = a_group()
    admin, member = a_user(group, "group_admin"), a_user(group)
    place = place_of(admin, group_id=group.pk)
    assert code(services.add_membership, user_id=member.pk, place=place, role=Role.GUEST, by=admin) == "conflict"


def test_organisations_are_the_super_administrators_and_groups_their_organisations():
    top, organisation = a_super_admin(), an_organisation()
    admin = an_org_admin(organisation)
    assert code(services.create_organisation, name="Mine", by=admin) == "forbidden"
    made = services.create_organisation(name="Mine", by=top)
    assert code(services.create_organisation, name="mine", by=top) == "conflict"
    services.create_group(organisation_id=organisation.pk, name="lab", by=admin)
    assert code(services.create_group, organisation_id=organisation.pk, name="LAB", by=admin) == "conflict"
    services.create_group(organisation_id=made.pk, name="lab", by=top)
    assert code(services.create_group, organisation_id=made.pk, name="other", by=admin) == "not_found"
    for name in ("", "   ", "x" * 151, "a\x00b", "tab\x07"):
        assert code(services.create_organisation, name=name, by=top) == "invalid"


def test_switching_a_place_off_leaves_an_intent_and_takes_nobody_in():
    group = a_group()
    admin = an_org_admin(group.organisation)
    services.set_group_active(group_id=group.pk, active=False, by=admin)
    assert not queries.requester_facts(admin.pk, group.pk).group_active
    assert DrainIntent.objects.get(closed_at=None).group_id == group.pk
    place = place_of(admin, group_id=group.pk)
    newcomer = a_user(organisation=group.organisation)
    assert code(services.add_membership, user_id=newcomer.pk, place=place, role=Role.MEMBER, by=admin) == "conflict"
    services.set_group_active(group_id=group.pk, active=True, by=admin)
    assert queries.open_drains() == []
    assert (
        code(services.set_organisation_active, organisation_id=group.organisation_id, active=False, by=admin)
        == "forbidden"
    )
    services.set_organisation_active(organisation_id=group.organisation_id, active=False, by=a_super_admin())
    assert not queries.requester_facts(admin.pk, group.pk).group_active
    assert queries.open_drains()[0].organisation_id == group.organisation_id


def test_requester_facts_are_one_statement(django_assert_num_queries):
    group = a_group()
    user = a_user(group, "guest")
    with django_assert_num_queries(1):
        facts = queries.requester_facts(user.pk, group.pk)
    assert (facts.role, facts.active, facts.group_active, facts.sign_in_epoch) == (Role.GUEST, True, True, 0)
    assert queries.requester_facts(uuid7(), group.pk) is None
    assert queries.requester_facts(user.pk, uuid7()) is None


def test_seats_come_with_names_and_by_name():
    organisation = an_organisation("Acme")
    first, second = a_group(organisation, "beta"), a_group(organisation, "alpha")
    user = a_user(first)
    Membership.objects.create(user=user, group=second, role="guest", created_at=LONG_AGO)
    assert [(seat.group_name, seat.role, seat.organisation_name) for seat in queries.seats_of(user)] == [
        ("alpha", Role.GUEST, "Acme"),
        ("beta", Role.MEMBER, "Acme"),
    ]
