"""Usage reports: each role its scope, the same total whatever it is grouped by, days of the reader, and the file beside it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.apps.sessions.world import World
from tests.web.sessions.admin_world import Administered, administered
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db
HERE = "/admin/reports/"


@pytest.fixture
def us(world: World) -> Administered:
    """An hour ran and was charged to Alice, her neighbour and a stranger."""
    us = administered(world)
    world.time.advance(timedelta(minutes=40))
    for session in (us.running, us.of_neighbour, us.of_stranger):
        browser(us.root).post(f"/admin/sessions/{session.pk}/stop/", {"reason": "enough"})
        world.gone(session)
    return us


def names(page: Any) -> set[str]:
    return {row["name"] for row in page.context["report"]["rows"]}


def test_each_role_is_offered_its_scopes_and_answered_no_others(us: Administered) -> None:
    group, stranger = us.world.alice.group, us.stranger
    own, whole = f"group:{group.pk}", f"organisation:{group.organisation_id}"
    assert {us.world.alice.user.email, stranger.user.email} <= names(browser(us.root).get(HERE))
    assert names(browser(us.org_admin).get(HERE)) == {us.world.alice.user.email, us.neighbour.user.email}
    assert names(browser(us.group_admin).get(HERE)) == {us.world.alice.user.email}
    for scope in ("all", whole, f"group:{stranger.group.pk}", f"group:{us.neighbour.group.pk}", "x"):
        refused = browser(us.group_admin).get(HERE, {"scope": scope})
        assert (refused.context["report"], list(refused.context["form"].errors)) == (None, ["scope"]), scope
    assert names(browser(us.org_admin).get(HERE, {"scope": own})) == {us.world.alice.user.email}
    assert browser(us.world.alice.user).get(HERE).status_code == 404


def test_however_it_is_grouped_the_total_is_the_same_and_the_file_has_the_same_lines(us: Administered) -> None:
    client, totals = browser(us.root), set()
    for by in ("user", "group", "organisation", "offering", "day"):
        report = client.get(HERE, {"by": by}).context["report"]
        assert sum(row["amount_micro"] for row in report["rows"]) == report["total"]["amount_micro"]
        totals.add(report["total"]["amount_micro"])
        file = client.get(report["csv_url"])
        assert file.headers["Content-Type"].startswith("text/csv")
        lines = b"".join(file.streaming_content) if file.streaming else file.content
        assert len(lines.decode().strip().splitlines()) == len(report["rows"]) + 1
    assert len(totals) == 1
    assert totals.pop() > 0


def test_days_are_bars_one_for_each_and_days_that_make_no_sense_are_named(us: Administered) -> None:
    client, today = browser(us.root), us.world.time.now().date()
    asked = {"by": "day", "first": str(today - timedelta(days=6)), "last": str(today)}
    report = client.get(HERE, asked).context["report"]
    assert len(report["bars"]) == 7
    assert [bool(bar.value) for bar in report["bars"]] == [False] * 6 + [True]
    before = client.get(HERE, asked | {"last": str(today - timedelta(days=1))})
    assert before.context["report"]["rows"] == []
    for change, field in (
        ({"last": "2020-01-01"}, "last"),
        ({"first": "2020-01-01"}, "last"),
        ({"first": "soon"}, "first"),
        ({"by": "colour"}, "by"),
    ):
        refused = client.get(HERE, asked | change)
        assert (refused.context["report"], list(refused.context["form"].errors)) == (None, [field]), change
