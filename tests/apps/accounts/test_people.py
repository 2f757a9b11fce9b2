"""Registering, resetting, deactivating: who may, what it leaves behind."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.db import IntegrityError, transaction

from accounts import services
from accounts.domain.roles import Role
from accounts.models import AuditEntry, DrainIntent, Membership, User
from accounts.services.passwords import is_expired
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user, an_org_admin, an_organisation

pytestmark = pytest.mark.django_db


def refusal(call, **arguments) -> DomainError:
    with pytest.raises(DomainError) as refused:
        call(**arguments)
    return refused.value


def code(call, **arguments) -> str:
    return refusal(call, **arguments).code


def test_a_registered_person_has_a_home_an_initial_password_for_seven_days_and_an_audit_entry():
    group = a_group()
    admin = a_user(group, "group_admin")
    made = services.register_user(email="New.Person@Example.org", name=" New  Person ", group_id=group.pk, by=admin)
    user = User.objects.get(pk=made.user.pk)
    assert (user.email, user.name, user.organisation_id) == (
        "new.person@example.org",
        "New Person",
        group.organisation_id,
    )
    assert user.check_password(made.initial_password)
    assert len(made.initial_password) >= 12
    assert user.must_change_password
    assert user.initial_password_expires_at - user.created_at == timedelta(days=7)
    assert Membership.objects.get(user=user).role == "member"
    entry = AuditEntry.objects.get(act="user.register")
    assert (entry.actor_id, entry.target_id, entry.group_id) == (admin.pk, str(user.pk), group.pk)
    assert entry.organisation_id == group.organisation_id
    assert made.initial_password not in str(entry.after)


def test_a_group_admin_registers_only_into_his_group_and_only_below_himself():
    group = a_group()
    admin = a_user(group, "group_admin")
    sibling = a_group(group.organisation)
    register = services.register_user
    assert code(register, email="a@b.example", name="A", organisation_id=group.organisation_id, by=admin) == "forbidden"
    assert code(register, email="a@b.example", name="A", group_id=sibling.pk, by=admin) == "not_found"
    assert (
        code(register, email="a@b.example", name="A", group_id=group.pk, role=Role.GROUP_ADMIN, by=admin) == "forbidden"
    )
    elsewhere = an_organisation()
    assert (
        code(register, email="a@b.example", name="A", group_id=group.pk, organisation_id=elsewhere.pk, by=admin)
        == "not_found"
    )
    member = a_user(group)
    assert code(register, email="a@b.example", name="A", group_id=group.pk, by=member) == "forbidden"


def test_an_organisations_admin_registers_anywhere_in_it_and_nowhere_else():
    organisation = an_organisation()
    admin = an_org_admin(organisation)
    group = a_group(organisation)
    services.register_user(email="a@b.example", name="A", organisation_id=organisation.pk, by=admin)
    services.register_user(email="b@b.example", name="B", group_id=group.pk, role=Role.GROUP_ADMIN, by=admin)
    assert code(services.register_user, email="c@b.example", name="C", group_id=a_group().pk, by=admin) == "not_found"


@pytest.mark.parametrize("typed", ["ada@example.org", "ADA@Example.org", " ada@EXAMPLE.org "])
def test_an_address_registers_once_whatever_its_case(typed):
    a_user(email="ada@example.org")
    taken = refusal(services.register_user, email=typed, name="Ada", organisation_id=an_organisation().pk, by=None)
    assert (taken.code, list(taken.errors)) == ("conflict", ["email"])


@pytest.mark.parametrize(
    "typed", ["", "ada", "ada@", "@example.org", "a b@example.org", "\N{LATIN SMALL LETTER LONG S}am@example.org"]
)
def test_what_is_no_address_is_refused_with_its_field(typed):
    bad = refusal(services.register_user, email=typed, name="Ada", organisation_id=an_organisation().pk, by=None)
    assert (bad.code, list(bad.errors)) == ("invalid", ["email"])


def test_the_database_itself_refuses_a_second_spelling_and_a_person_without_home():
    a_user(email="ada@example.org")
    for fields in ({"email": "Ada@example.org"}, {"email": "x@example.org", "organisation": None}):
        with pytest.raises(IntegrityError), transaction.atomic():
            User.objects.create(**{"name": "X", "organisation": an_organisation(), "created_at": LONG_AGO} | fields)


def test_trap_55_a_group_admin_cannot_touch_who_outranks_him_or_belongs_elsewhere_too():
    group = a_group()
    admin = a_user(group, "group_admin")
    above = a_user(group)
    Membership.objects.create(user=above, organisation=group.organisation, role="org_admin", created_at=LONG_AGO)
    elsewhere = a_user(group)
    Membership.objects.create(user=elsewhere, group=a_group(), role="guest", created_at=LONG_AGO)
    equal = a_user(group, "group_admin")
    top = a_user(group, is_super_admin=True)
    for person in (above, elsewhere, equal, top, admin):
        assert code(services.reset_password, user_id=person.pk, by=admin) == "forbidden"
        assert code(services.change_email, user_id=person.pk, email="taken@example.org", by=admin) == "forbidden"
        assert code(services.deactivate_user, user_id=person.pk, by=admin) == "forbidden"
        assert code(services.rename_user, user_id=person.pk, name="Other", by=admin) == "forbidden"
    assert code(services.reset_password, user_id=a_user().pk, by=admin) == "not_found"
    ordinary = a_user(group)
    assert services.reset_password(user_id=ordinary.pk, by=admin)


def test_a_reset_gives_a_new_initial_password_and_ends_every_sign_in():
    group = a_group()
    user = a_user(group)
    before = user.get_session_auth_hash()
    password = services.reset_password(user_id=user.pk, by=a_super_admin(), reason="forgot it")
    user.refresh_from_db()
    assert user.check_password(password)
    assert user.must_change_password
    assert user.sign_in_epoch == 1
    assert user.get_session_auth_hash() != before
    entry = AuditEntry.objects.get(act="user.reset_password")
    assert (entry.reason, entry.before, entry.after) == ("forgot it", None, None)


def test_signing_out_everywhere_changes_what_browser_sessions_prove_without_a_new_password():
    user = a_user()
    before = user.get_session_auth_hash()
    services.sign_out_everywhere(user_id=user.pk, by=user)
    user.refresh_from_db()
    assert user.get_session_auth_hash() != before
    assert user.check_password("correct horse battery")
    assert code(services.sign_out_everywhere, user_id=a_user().pk, by=user) == "not_found"


def test_a_password_change_needs_the_present_one_and_a_strong_new_one():
    user = a_user(must_change_password=True)
    change = services.change_password
    assert list(refusal(change, by=user, current="wrong", new="a long enough secret").errors) == ["current"]
    for weak in ("short", "correct horse battery", "qwerty123456", "482915730264", "x" * 2000):
        assert list(refusal(change, by=user, current="correct horse battery", new=weak).errors) == ["new"]
    changed = change(by=user, current="correct horse battery", new="seven green umbrellas")
    assert not changed.must_change_password
    assert changed.initial_password_expires_at is None
    assert changed.sign_in_epoch == 1


def test_an_expired_initial_password_changes_nothing_any_more():
    user = a_user(must_change_password=True, initial_password_expires_at=LONG_AGO)
    assert is_expired(user)
    refused = code(services.change_password, by=user, current="correct horse battery", new="seven green umbrellas")
    assert refused == "forbidden"


def test_deactivation_ends_sign_ins_and_leaves_an_intent_that_reactivation_closes():
    group = a_group()
    admin, user = an_org_admin(group.organisation), a_user(group)
    services.deactivate_user(user_id=user.pk, by=admin, reason="left")
    user.refresh_from_db()
    assert (user.is_active, user.sign_in_epoch) == (False, 1)
    intent = DrainIntent.objects.get(kind="user", user=user)
    assert (intent.reason, intent.closed_at) == ("access_revoked", None)
    services.deactivate_user(user_id=user.pk, by=admin)
    assert DrainIntent.objects.count() == 1
    services.reactivate_user(user_id=user.pk, by=admin)
    intent.refresh_from_db()
    assert intent.closed_at is not None
    assert list(AuditEntry.objects.order_by("id").values_list("act", flat=True)) == [
        "user.deactivate",
        "user.reactivate",
    ]


def test_the_last_super_administrator_stays():
    first, second = a_super_admin(), a_super_admin()
    assert code(services.deactivate_user, user_id=first.pk, by=first) == "forbidden"
    services.deactivate_user(user_id=second.pk, by=first)
    assert code(services.deactivate_user, user_id=first.pk, by=None) == "conflict"
    assert code(services.set_super_admin, user_id=first.pk, value=False, by=None) == "conflict"


def test_an_act_of_somebody_deactivated_meanwhile_is_refused():
    group = a_group()
    admin, user = an_org_admin(group.organisation), a_user(group)
    User.objects.filter(pk=admin.pk).update(is_active=False)
    assert code(services.rename_user, user_id=user.pk, name="Other", by=admin) == "forbidden"


def test_an_intent_closes_only_on_a_pass_that_began_five_minutes_after_the_change():
    user = a_user()
    services.deactivate_user(user_id=user.pk, by=None)
    intent = DrainIntent.objects.get()
    settle = settings.GSHARE.intent_settle
    assert not services.close_drain(intent.pk, pass_began_at=intent.changed_at + settle - timedelta(seconds=1))
    assert services.close_drain(intent.pk, pass_began_at=intent.changed_at + settle)
    assert not services.close_drain(intent.pk, pass_began_at=intent.changed_at + settle)


def test_preferences_are_checked_against_what_exists():
    user = a_user()
    services.set_preferences(by=user, language="ko", time_zone="Asia/Seoul", theme="dark")
    user.refresh_from_db()
    assert (user.language, user.time_zone, user.theme) == ("ko", "Asia/Seoul", "dark")
    for wrong in ({"language": "xx"}, {"time_zone": "Mars/Base"}, {"theme": "pink"}):
        given = {"language": "ko", "time_zone": "", "theme": "dark"} | wrong
        assert list(refusal(services.set_preferences, by=user, **given).errors) == list(wrong)


def test_bootstrap_makes_the_first_administrator_and_the_global_policy_once():
    user, made = services.ensure_super_admin(email="Root@example.org", password="seven green umbrellas")
    assert made
    assert user.is_super_admin
    again, made = services.ensure_super_admin(email="root@example.org", password="eight green umbrellas")
    assert (again.pk, made) == (user.pk, False)
    assert User.objects.get().check_password("seven green umbrellas")
    assert services.ensure_global_policy()
    assert not services.ensure_global_policy()
    assert code(services.ensure_super_admin, email="weak@example.org", password="short") == "invalid"
    assert code(services.ensure_super_admin, email=a_user().email, password="seven green umbrellas") == "conflict"


def test_unknown_people_are_not_found():
    assert code(services.reset_password, user_id=uuid7(), by=a_super_admin()) == "not_found"
    assert clock.now() > LONG_AGO
