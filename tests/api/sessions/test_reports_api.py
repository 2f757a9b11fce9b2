"""Usage reports and summaries over HTTP."""

from __future__ import annotations

import csv
import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from billing.models import Meter, Transfer
from gshare_core.money import format_credits
from sessions_app.models import Session
from sessions_app.services import Asked, pause_session, resume_session, stop_session
from tests.apps.billing.stage import books_agree
from tests.apps.sessions.world import World
from tests.builders import a_group, a_super_admin, a_user, an_org_admin

pytestmark = pytest.mark.django_db


def client_of(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def asked(person: User, by: str, **changes: Any) -> Any:
    query = {"by": by, "from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"} | changes
    return client_of(person).get("/api/v1/reports/usage", query, headers=changes.pop("headers", {}))


@pytest.fixture
def twice(world: World) -> Session:
    """A session of alice that ran, was paused, ran again and was stopped; and one on a CPU."""
    session = world.run("L")
    world.pass_time(timedelta(minutes=30), session)
    pause_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    resume_session(Asked(session.pk, world.alice.user))
    session.refresh_from_db()
    world.ready(session)
    world.pass_time(timedelta(minutes=6), session)
    stop_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    session.refresh_from_db()
    return session


def charges(session: Session) -> int:
    return sum(Transfer.objects.filter(kind="charge", reference=session.pk).values_list("amount", flat=True))


def test_every_grouping_of_ones_own_use_comes_to_what_was_charged(world: World, twice: Session) -> None:
    expected = {
        "session": twice.name,
        "user": world.alice.user.email,
        "group": world.alice.group.name,
        "organisation": world.alice.group.organisation.name,
        "offering": world.offering.name,
    }
    for by in (*expected, "day"):
        answer = asked(world.alice.user, by)
        assert answer.status_code == 200, answer.content
        (row,) = answer.json()["rows"]
        assert row["amount"] == answer.json()["total"]["amount"] == format_credits(charges(twice)), by
        assert (row["runs"], row["sessions"]) == (2, 1), by
        assert row["name"] == expected.get(by, row["key"])
    assert charges(twice) > 0


def test_a_place_is_reported_to_its_administrators_only(world: World, twice: Session) -> None:
    alice = world.alice
    chief, owner, root = a_user(alice.group, "group_admin"), an_org_admin(alice.group.organisation), a_super_admin()
    sees = {
        f"group:{alice.group.pk}": {chief, owner, root},
        f"organisation:{alice.group.organisation_id}": {owner, root},
        "all": {root},
    }
    stranger = an_org_admin(a_group().organisation)
    for scope, allowed in sees.items():
        for person in (alice.user, chief, owner, root, stranger):
            answer = asked(person, "user", scope=scope)
            assert answer.status_code == (200 if person in allowed else 404), (scope, person)
            if person in allowed:
                assert [row["key"] for row in answer.json()["rows"]] == [str(alice.user.pk)]
    assert asked(root, "user", scope="group:7").status_code == 404
    assert asked(chief, "user").json()["rows"] == []  # his own


def test_the_file_has_the_same_lines_and_runs_no_formula(world: World, twice: Session) -> None:
    Session.objects.filter(pk=twice.pk).update(name="=1+1")
    Meter.objects.update(label="=1+1")
    answer = client_of(world.alice.user).get(
        "/api/v1/reports/usage",
        {"by": "session", "from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"},
        headers={"accept": "text/csv"},
    )
    assert answer["Content-Type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.content.decode()))
    assert (row["name"], row["amount"]) == ("'=1+1", format_credits(charges(twice)))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"by": "colour"}, "by"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-01-01T00:00:00Z"}, "to"),
        ({"to": "2028-01-01T00:00:00Z"}, "to"),
        ({"time_zone": "Mars/Olympus"}, "time_zone"),
    ],
)
def test_a_question_that_makes_no_sense_names_its_field(world: World, change: dict[str, Any], field: str) -> None:
    query = {"by": "day"} | change
    answer = asked(world.alice.user, **query)
    assert (answer.status_code, list(answer.json()["errors"])) == (400, [field])


def test_a_summary_says_what_each_run_came_to_and_all_together_for_good(world: World, twice: Session) -> None:
    path = f"/api/v1/sessions/{twice.pk}/summary"
    found = client_of(world.alice.user).get(path).json()
    assert (found["final"], [run["run"] for run in found["runs"]]) == (True, [1, 2])
    assert found["charged"] == format_credits(charges(twice)) == format_credits(twice.charged)
    assert found["running_seconds"] == sum(run["running_seconds"] for run in found["runs"]) == twice.running_us // 10**6
    assert [run["running_seconds"] for run in found["runs"]] == [30 * 60, 6 * 60]
    assert all(run["billed_from"] < run["billed_to"] <= run["closed_at"] for run in found["runs"])
    assert client_of(a_user(world.alice.group)).get(path).status_code == 404


def test_a_charge_is_followed_from_the_wallet_to_its_run_to_the_timeline(world: World, twice: Session) -> None:
    client = client_of(world.alice.user)
    entries = client.get(f"/api/v1/wallets/{world.alice.wallet}/entries?kind=charge").json()["results"]
    assert {entry["reference"] for entry in entries} == {str(twice.pk)}
    timeline = client.get(f"/api/v1/sessions/{twice.pk}/timeline").json()
    summary = client.get(f"/api/v1/sessions/{twice.pk}/summary").json()
    for run in summary["runs"]:
        of_run = [entry for entry in entries if entry["run"] == run["run"]]
        paid = sum(int(entry["amount"].replace(".", "")) for entry in of_run)
        told = sum(int(row["charged"].replace(".", "")) for row in timeline if row["run"] == run["run"])
        assert paid == told == int(run["charged"].replace(".", ""))
        assert min(entry["billed_from"] for entry in of_run) == run["billed_from"]
        assert max(entry["billed_to"] for entry in of_run) == run["billed_to"]
    assert books_agree()


def test_a_session_without_a_card_has_a_summary_and_no_line_in_a_report(world: World) -> None:
    session = world.run("cpu")
    world.pass_time(timedelta(minutes=10), session)
    stop_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    found = client_of(world.alice.user).get(f"/api/v1/sessions/{session.pk}/summary").json()
    (run,) = found["runs"]
    assert (run["charged"], run["hourly_credits"], run["running_seconds"]) == ("0.000000", None, 600)
    assert asked(world.alice.user, "session").json()["rows"] == []
