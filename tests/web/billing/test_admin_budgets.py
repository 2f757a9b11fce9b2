"""The budgets page: how each stands and where it is heading; made, changed and closed one level above whose it is."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from accounts.models import AuditEntry
from billing.models import Budget
from tests.apps.sessions.world import World
from tests.builders import a_user, cr
from tests.web.sessions.admin_world import Administered, administered
from tests.web.sessions.conftest import browser, world

__all__ = ["world"]

pytestmark = pytest.mark.django_db
HERE, NEW = "/admin/budgets/", "/admin/budgets/new/"


@pytest.fixture
def us(world: World) -> Administered:
    return administered(world)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def sent(place: str = "person", **changes: str) -> dict[str, str]:
    given = {"place": place, "email": "", "limit": "1,000", "mode": "block", "time_zone": "Asia/Seoul"}
    return given | {"first_day": "", "last_day": ""} | changes


def test_the_list_says_what_is_spent_and_held_and_where_it_is_heading(us: Administered) -> None:
    us.world.time.advance(timedelta(minutes=30))
    page = browser(us.root).get(HERE)
    (row,) = page.context["rows"]
    held = Budget.objects.get().held
    assert held > 0
    assert (row["name"], row["limit_micro"], row["held_micro"]) == (
        us.world.alice.group.organisation.name,
        cr(75),
        held,
    )
    assert row["used_micro"] == row["spent_micro"] + held
    assert row["projected_micro"] > row["used_micro"]
    assert row["over"]
    assert browser(us.group_admin).get(HERE).context["rows"] == []
    assert browser(us.world.alice.user).get(HERE).status_code == 404


def test_the_alarm_of_a_budget_leads_to_it(us: Administered) -> None:
    client = browser(us.root)
    (alarm,) = [alarm for alarm in client.get("/admin/").context["alarms"] if alarm["icon"] == "budget"]
    assert alarm["url"] in text(client.get("/admin/"))
    assert [row["name"] for row in client.get(alarm["url"]).context["rows"]] == [us.world.alice.group.organisation.name]


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("super_admin", {"organisation", "group", "person"}),
        ("org_admin", {"group", "person"}),
        ("group_admin", {"person"}),
    ],
)
def test_each_role_makes_budgets_one_level_below_and_no_others(us: Administered, role: str, allowed: set[str]) -> None:
    group, client = us.world.alice.group, browser(us.administrators[role])
    member = a_user(group)
    bodies = {
        "organisation": sent(f"organisation:{group.organisation_id}"),
        "group": sent(f"group:{group.pk}"),
        "person": sent(email=member.email),
    }
    made = {kind for kind, body in bodies.items() if client.post(NEW, body).status_code == 302}
    assert made == allowed
    offered = {value.partition(":")[0] for value, _words in client.get(NEW).context["form"].fields["place"].choices}
    assert offered == allowed
    trail = AuditEntry.objects.filter(act="budget.create", actor_id=us.administrators[role].pk)
    assert trail.count() == len(allowed)
    assert not any(":" in label for label in trail.values_list("target_label", flat=True)), "names, no identifiers"


def test_a_new_budget_is_of_months_or_of_days_and_a_refusal_keeps_what_was_typed(us: Administered) -> None:
    client, place = browser(us.root), f"group:{us.world.alice.group.pk}"
    days = {"first_day": "2026-11-01", "last_day": "2026-12-15"}
    client.post(NEW, sent(place, **days))
    made = Budget.objects.get(group=us.world.alice.group)
    assert (made.limit, made.mode, made.time_zone) == (cr(1000), "block", "Asia/Seoul")
    assert (made.first_day, made.last_day) == (date(2026, 11, 1), date(2026, 12, 15))
    for change, field in (
        ({"last_day": ""}, "last_day"),
        ({"last_day": "2026-10-01"}, "last_day"),
        ({"time_zone": "Nowhere/At-all"}, "time_zone"),
        ({"limit": "much"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"place": "person", "email": "nobody@example.org"}, "email"),
        ({"place": "group:x"}, "place"),
    ):
        refused = client.post(NEW, sent(place) | days | change)
        assert (refused.status_code, list(refused.context["form"].errors)) == (422, [field]), change
        assert refused.context["form"]["first_day"].value() == "2026-11-01"
    assert Budget.objects.count() == 2


def test_limit_and_mode_change_and_a_closed_budget_is_gone_from_the_list(us: Administered) -> None:
    client, budget = browser(us.root), Budget.objects.get()
    here = f"{HERE}{budget.pk}/"
    assert client.get(here).context["form"]["limit"].value() == "75"
    client.post(here, {"limit": "90.5", "mode": "block"})
    budget.refresh_from_db()
    assert (budget.limit, budget.mode) == (cr("90.5"), "block")
    assert client.post(here, {"limit": "", "mode": "block"}).status_code == 422
    assert "counts, warns and blocks no more" in text(client.get(f"{here}close/"))
    client.post(f"{here}close/")
    assert not Budget.objects.get().is_active
    assert client.get(HERE).context["rows"] == []
    assert client.get(here).status_code == 404


def test_whoever_is_at_the_level_of_a_budget_reads_it_and_sets_nothing(us: Administered) -> None:
    client, budget = browser(us.org_admin), Budget.objects.get()
    here = f"{HERE}{budget.pk}/"
    assert client.get(here).context["form"] is None
    assert client.post(here, {"limit": "1", "mode": "warn"}).status_code == 422
    client.post(f"{here}close/")
    budget.refresh_from_db()
    assert (budget.limit, budget.is_active) == (cr(75), True)
    assert browser(us.group_admin).get(here).status_code == 404
