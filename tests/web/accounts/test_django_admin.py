"""Django's own admin: super administrators look, names change through the services, nothing is added or deleted."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.test import Client

from accounts import audit, services
from accounts.domain.policies import Scope, ScopeKind
from accounts.models import AuditEntry, DrainIntent, Group, Membership, User
from accounts.notices import notify
from tests.builders import LONG_AGO, a_group, a_super_admin, a_user, an_org_admin

pytestmark = pytest.mark.django_db
OWN = [model for model in apps.get_app_config("accounts").get_models() if model.__name__ != "PolicyValue"]


def as_(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def top() -> User:
    return a_super_admin()


@pytest.fixture
def rows():
    """At least one row of what people make."""
    group = a_group()
    user = a_user(group)
    services.set_policy(scope=Scope(ScopeKind.GROUP, group.pk), per_user={"cards": 1}, totals={}, by=None)
    notify(user_id=user.pk, kind="test", title="hello", body="", at=LONG_AGO)
    audit.seal_entries()
    services.deactivate_user(user_id=user.pk, by=None)
    return {"group": group, "user": user}


def test_every_model_of_this_room_is_registered_with_a_list():
    assert {model for model in OWN if not admin.site.is_registered(model)} == set()


@pytest.mark.parametrize("model", OWN, ids=lambda model: model.__name__)
def test_lists_searches_and_rows_can_be_looked_at_and_neither_added_nor_deleted(model, top, rows):
    client, name = as_(top), model._meta.model_name
    root = f"/django-admin/accounts/{name}/"
    assert client.get(root).status_code == 200
    assert client.get(root + "?q=ab").status_code == 200
    assert client.get(root + "add/").status_code == 403
    row = model.objects.first()
    if row is not None:
        page = client.get(f"{root}{row.pk}/change/")
        assert page.status_code == 200
        assert client.post(f"{root}{row.pk}/delete/").status_code == 403
        editable = set(page.context["adminform"].form.fields)
        assert editable == ({"name"} if name in ("organisation", "group", "user") else set())


def test_a_name_changes_through_the_service_and_leaves_a_trace(top, rows):
    path = f"/django-admin/accounts/group/{rows['group'].pk}/change/"
    assert as_(top).post(path, {"name": "Renamed", "is_active": ""}).status_code == 302
    group = Group.objects.get(pk=rows["group"].pk)
    assert (group.name, group.is_active) == ("Renamed", True)
    assert AuditEntry.objects.get(act="group.rename").actor_id == top.pk
    other = a_group(group.organisation, "taken")
    answer = as_(top).post(path, {"name": other.name}, follow=True)
    assert "taken" in answer.content.decode()
    assert Group.objects.get(pk=group.pk).name == "Renamed"


def test_actions_call_the_services(top, rows):
    member = a_user(rows["group"])
    seat = Membership.objects.get(user=member)
    client = as_(top)

    def act(model: str, action: str, *ids) -> str:
        body = {"action": action, "_selected_action": [str(pk) for pk in ids]}
        return client.post(f"/django-admin/accounts/{model}/", body, follow=True).content.decode()

    page = act("user", "reset", member.pk)
    member.refresh_from_db()
    assert member.must_change_password
    assert member.email in page
    act("user", "sign_out", member.pk)
    act("membership", "remove", seat.pk)
    assert not Membership.objects.filter(pk=seat.pk).exists()
    act("group", "switch_off", rows["group"].pk)
    assert set(DrainIntent.objects.values_list("kind", flat=True)) == {"user", "membership", "group"}
    refused = act("user", "switch_off", top.pk)
    assert "Your roles do not reach this." in refused
    top.refresh_from_db()
    assert top.is_active


def test_others_do_not_learn_that_it_is_there_and_strangers_sign_in_on_the_consoles_page():
    group = a_group()
    for user in (a_user(group), an_org_admin(group.organisation)):
        assert as_(user).get("/django-admin/").status_code == 404
        assert as_(user).get("/django-admin/accounts/user/").status_code == 404
    answer = Client().get("/django-admin/accounts/user/", follow=True)
    assert answer.redirect_chain[-1][0] == "/login/?next=/django-admin/accounts/user/"


def test_its_own_ways_in_and_to_a_password_lead_to_the_consoles(top):
    client = as_(top)
    assert client.post("/django-admin/password_change/")["Location"] == "/password/"
    assert client.post("/django-admin/logout/")["Location"] == "/login/"
    assert client.get("/django-admin/")["Location"].startswith("/django-admin/login/")
    assert client.get("/django-admin/login/?next=/django-admin/")["Location"] == "/login/?next=/django-admin/"
