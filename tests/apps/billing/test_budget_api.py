"""Budgets over HTTP: made, seen, changed, closed; where they are heading; who is told when they fill."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import Notification, User
from billing import budget_state
from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import Budget
from gshare_core.kit import clock
from tests.apps.billing.stage import books_agree, ended, running, t, tick
from tests.builders import Customer, a_customer, a_group, a_super_admin, a_user, an_org_admin, cr

pytestmark = pytest.mark.django_db

MONTHLY = {"limit": "100", "mode": "warn", "period": "month", "time_zone": "Asia/Seoul"}


def client_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def made(person: User, scope: str, **changes: Any) -> Any:
    body = {"scope": scope} | MONTHLY | changes
    return client_of(person).post("/api/v1/budgets", body, content_type="application/json")


def a_budget(alice: Customer, limit: str | int, mode: Any = "warn", kind: Any = "user") -> Budget:
    scope = billing.BudgetScope(kind, dict(alice.scopes.as_pairs())[kind])
    return billing.create_budget(scope=scope, limit=cr(limit), mode=mode, rule=Rule("UTC"), by=None)


def told(person: User) -> list[str]:
    rows = Notification.objects.filter(user=person, kind="budget_alert").order_by("at", "id")
    return list(rows.values_list("title", flat=True))


def test_a_budget_is_made_one_level_above_shown_and_changed_in_limit_and_mode_only() -> None:
    alice = a_customer(100)
    owner = an_org_admin(alice.group.organisation)
    answer = made(owner, f"group:{alice.group.pk}")
    assert answer.status_code == 201, answer.content
    shown = answer.json()
    assert (shown["limit"], shown["spent"], shown["held"], shown["remaining"]) == (
        "100.000000",
        "0.000000",
        "0.000000",
        "100.000000",
    )
    assert (shown["period"], shown["time_zone"], shown["alerts"]) == ("month", "Asia/Seoul", [])
    path, client = f"/api/v1/budgets/{shown['id']}", client_of(owner)
    changed = client.patch(path, {"limit": "20"}, content_type="application/json").json()
    assert (changed["limit"], changed["mode"]) == ("20.000000", "warn")
    changed = client.patch(path, {"mode": "block"}, content_type="application/json").json()
    assert (changed["limit"], changed["mode"]) == ("20.000000", "block")
    for fixed in ({"time_zone": "UTC"}, {"period": "month"}, {"scope": "x"}):
        refused = client.patch(path, fixed, content_type="application/json")
        assert (refused.status_code, list(refused.json()["errors"])) == (400, list(fixed))
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == 404
    assert client.get("/api/v1/budgets").json()["results"] == []


def test_fixed_dates_are_both_included_and_before_them_nothing_counts() -> None:
    alice, root = a_customer(100), a_super_admin()
    today = clock.now().date()
    dates = {"from": str(today + timedelta(days=30)), "to": str(today + timedelta(days=30))}
    answer = made(root, f"organisation:{alice.group.organisation_id}", period=dates)
    assert answer.status_code == 201, answer.content
    assert (answer.json()["period"], answer.json()["starts_at"]) == (dates, None)
    ahead = client_of(root).get(f"/api/v1/budgets/{answer.json()['id']}/forecast").json()
    assert (ahead["projected"], ahead["basis"]) == (None, None)
    now = made(
        root,
        f"organisation:{alice.group.organisation_id}",
        period={"from": str(today), "to": str(today)},
        time_zone="UTC",
    )
    shown = now.json()
    assert shown["starts_at"] <= clock.now().isoformat()
    assert shown["ends_at"].startswith(str(today + timedelta(days=1)))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"limit": 1.5}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"mode": "perhaps"}, "mode"),
        ({"period": "week"}, "period"),
        ({"period": {"from": "2026-02-30", "to": "2026-03-01"}}, "period"),
        ({"period": {"from": "2026-03-02", "to": "2026-03-01"}}, "period"),
        ({"period": {"from": "2026-03-02"}}, "period"),
        ({"time_zone": "Europe/Nowhere"}, "time_zone"),
        ({"scope": "global"}, "scope"),
        ({"scope": "group:7"}, "scope"),
    ],
)
def test_a_body_that_makes_no_sense_names_its_field(change: dict[str, Any], field: str) -> None:
    alice = a_customer(1)
    answer = made(a_super_admin(), **({"scope": f"user:{alice.user.pk}"} | change))
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_who_sees_and_who_sets_a_budget_follows_the_rights_matrix() -> None:
    alice = a_customer(1)
    chief, owner, root = a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation), a_super_admin()
    places = {
        f"user:{alice.user.pk}": ({chief, owner, root}, {alice.user, chief, owner, root}),
        f"group:{alice.group.pk}": ({owner, root}, {chief, owner, root}),
        f"organisation:{alice.group.organisation_id}": ({root}, {owner, root}),
    }
    stranger = an_org_admin(a_group().organisation)
    for scope, (setting, seeing) in places.items():
        shown = made(root, scope).json()
        for person in (alice.user, chief, owner, root, stranger):
            assert (made(person, scope).status_code == 201) == (person in setting), (scope, person)
            seen = client_of(person).get(f"/api/v1/budgets/{shown['id']}").status_code
            assert seen == (200 if person in seeing else 404), (scope, person)


def test_the_list_takes_the_same_number_of_statements_however_many_budgets(
    django_assert_max_num_queries: Any,
) -> None:
    alice, root = a_customer(1), a_super_admin()
    for _one in range(12):
        a_budget(alice, 10)
    client = client_of(root)
    with django_assert_max_num_queries(9):
        assert len(client.get(f"/api/v1/budgets?user={alice.user.pk}").json()["results"]) == 12


def test_the_forecast_carries_on_the_pace_of_what_ran_and_runs() -> None:
    alice = a_customer(1000)
    budget = a_budget(alice, 100)
    ended(running(alice), at=60)  # 12.5 credits on the second of March, nine to ten
    day = 24 * 60
    (state, ahead) = budget_state.forecast(budget, t(4 * day))
    assert ahead is not None
    assert (state.spent, ahead.accrued) == (cr("12.5"), 0)
    assert ahead.pace_per_day == cr("12.5") // 4
    left = 25 * day + 15 * 60  # minutes to the first of April
    assert ahead.projected == cr("12.5") + cr("12.5") * left // (4 * day)
    running(alice, at=4 * day)
    (_state, ahead) = budget_state.forecast(budget, t(4 * day + 12))
    assert ahead is not None
    assert ahead.accrued == cr("2.5")
    assert ahead.reaches_limit_at is not None


def test_a_person_is_told_once_at_each_threshold_of_his_budget_and_again_next_month() -> None:
    alice = a_customer(1000)
    a_budget(alice, 25)
    run = running(alice)
    for hour in range(1, 5):
        tick(hour * 60, run)
        tick(hour * 60, run)
    assert [title.partition(" of ")[0] for title in told(alice.user)] == [
        "You have spent 50 %",
        "You have spent 80 %",
        "You have spent 100 %",
    ]
    ended(run, at=300)
    april = 30 * 24 * 60
    again = running(alice, at=april)
    tick(april + 61, again)
    assert len(told(alice.user)) == 4
    assert books_agree()


def test_the_administrators_of_a_place_are_told_of_its_budget_each_in_his_language() -> None:
    alice = a_customer(1000)
    chief = a_user(alice.group, "group_admin", language="ko")
    owner = an_org_admin(alice.group.organisation)
    a_budget(alice, 25, "block", "group")
    a_budget(alice, 25, "warn", "organisation")
    tick(61, running(alice))
    assert len(told(chief)) == len(told(owner)) == 1
    assert not told(alice.user)
    assert "50" in told(chief)[0]
    assert told(chief)[0] != told(owner)[0].replace(alice.group.organisation.name, alice.group.name)
    body = Notification.objects.get(user=owner, kind="budget_alert").body
    assert body == "12.71 of 25.00 cr are spent."  # it only warns


def test_a_budget_of_dates_alerts_in_its_own_zone() -> None:
    alice = a_customer(1000)
    scope = billing.BudgetScope("user", alice.user.pk)
    rule = Rule("Asia/Seoul", date(2026, 3, 2), date(2026, 3, 2))  # to 15:00 UTC, six hours after T0
    billing.create_budget(scope=scope, limit=cr(75), mode="warn", rule=rule, by=None)
    run = running(alice)
    for hour in range(1, 9):
        tick(hour * 60, run)
    assert [title.partition(" of ")[0] for title in told(alice.user)] == [
        "You have spent 50 %",
        "You have spent 80 %",
        "You have spent 100 %",
    ]
    (state,) = budget_state.states([Budget.objects.get()], t(5 * 60))
    assert (state.spent, state.alerts) == (cr(75), (50, 80, 100))
