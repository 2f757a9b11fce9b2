"""What the administrators' pages say of the books, of the requests that wait, and of the nodes beside their cards."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext

from accounts.administrators import administrator_of
from accounts.models import Membership, User
from billing import services as billing
from billing import spending, trial
from billing.api.requests import inbox_of
from billing.models import SYSTEM_ID, Checkpoint
from cluster.models import Node
from gshare_core.kit import clock
from sessions_app.views import admin_shell
from tests.apps.sessions.world import World
from tests.builders import a_customer, a_group, a_user, cr
from tests.web.sessions.admin_world import Administered, administered
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db
OTHERS = ("org_admin", "group_admin")


@pytest.fixture
def us(world: World) -> Administered:
    return administered(world)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def a_check(**fields: Any) -> Checkpoint:
    """What a trial balance would have written."""
    last = Checkpoint.objects.order_by("-number").first()
    given = {"at": clock.now(), "is_full": False, "differences": 0, "issued": 0, "earned": 0, "transfers": 0, "read": 0}
    return Checkpoint.objects.create(number=last.number + 1 if last else 1, **(given | fields))


@pytest.mark.parametrize("path", ["/admin/", "/admin/credits/"])
def test_who_sees_the_systems_books_reads_when_they_last_agreed_and_nobody_else_does(
    us: Administered, path: str
) -> None:
    trial.check()
    assert "Books agree to the micro-credit, checked" in text(browser(us.root).get(path))
    for role in OTHERS:
        page = browser(us.administrators[role]).get(path)
        assert "Books" not in text(page)
        assert page.context["books"] is None


def test_books_that_differ_are_the_first_alarm_with_what_differs_and_since_when(us: Administered) -> None:
    trial.check()
    a_check(differences=2, found=[["balance of wallet", "0198-1", 1_500_000, 1_000_000]])
    page = browser(us.root).get("/admin/")
    first = page.context["alarms"][0]
    assert first["title"] == "The books do not agree: 2 differences"
    assert "balance of wallet 0198-1, stored 1.500000, computed 1.000000" in first["text"]
    assert "They last agreed" in first["text"]
    assert first["url"] == "/admin/credits/"
    assert first["title"] in text(browser(us.root).get("/admin/credits/"))
    for role in OTHERS:
        assert "books" not in text(browser(us.administrators[role]).get("/admin/"))
    trial.check()
    assert "books do not agree" not in text(browser(us.root).get("/admin/"))


def test_books_that_nobody_checked_lately_are_an_alarm_and_new_ones_are_none(us: Administered) -> None:
    def titles() -> list[str]:
        return [alarm["title"] for alarm in browser(us.root).get("/admin/").context["alarms"]]

    assert not any("books" in title for title in titles())
    assert "Books not checked yet" in text(browser(us.root).get("/admin/"))
    us.world.time.advance(timedelta(minutes=31))
    assert "The books were never checked" in titles()
    trial.check()
    us.world.time.advance(timedelta(minutes=29))
    assert not any("books" in title for title in titles())
    us.world.time.advance(timedelta(minutes=2))
    assert any(title.startswith("The books were not checked since") for title in titles())


def requests_shown(user: User) -> int:
    shell = browser(user).get("/admin/audit/").context["shell"]
    (entry,) = [row for section in shell["admin_navigation"] for row in section["entries"] if "/credits/" in row["url"]]
    assert entry["count"] == shell["counts"]["requests"]
    return int(entry["count"])


def test_the_navigation_counts_the_requests_that_one_may_decide_and_no_others(us: Administered) -> None:
    alice, group = us.world.alice, us.world.alice.group
    mine = billing.ensure_wallet("group", group.pk)
    above = billing.ensure_wallet("organisation", group.organisation_id)
    billing.ask_for_credits(wallet=alice.wallet, parent=mine, amount=cr(3), reason="a second run", by=alice.user)
    billing.ask_for_credits(
        wallet=us.stranger.wallet,
        parent=billing.ensure_wallet("group", us.stranger.group.pk),
        amount=cr(3),
        reason="elsewhere",
        by=us.stranger.user,
    )
    billing.ask_for_credits(wallet=mine, parent=above, amount=cr(9), reason="October", by=us.org_admin)
    shown = {role: requests_shown(user) for role, user in us.administrators.items()}
    assert shown == {"super_admin": 3, "org_admin": 1, "group_admin": 1}  # nobody decides his own
    assert shown == {role: inbox_of(user).count() for role, user in us.administrators.items()}


def test_who_administers_several_places_counts_those_of_all_and_a_decision_leaves_the_count(us: Administered) -> None:
    first, second = a_customer(5), a_customer(5)
    both = a_user(first.group, role="group_admin")

    Membership.objects.create(user=both, group=second.group, role="group_admin", created_at=clock.now())
    asked = [
        billing.ask_for_credits(
            wallet=who.wallet,
            parent=billing.ensure_wallet("group", who.group.pk),
            amount=cr(1),
            reason="more",
            by=who.user,
        )
        for who in (first, second)
    ]
    assert requests_shown(both) == 2
    billing.reject_request(request_id=asked[0].pk, reason="no", by=both)
    assert requests_shown(both) == 1


def test_the_money_of_the_frame_is_one_statement(us: Administered, rf: Any) -> None:
    billing.ensure_wallet("group", us.world.alice.group.pk)
    billing.ensure_wallet("organisation", us.world.alice.group.organisation_id)
    for user in us.administrators.values():
        request = rf.get("/admin/")
        request.user = user
        who = administrator_of(request)
        assert who is not None
        with CaptureQueriesContext(connection) as captured:
            admin_shell._money(who)
        assert len(captured) == 1


def test_before_the_first_use_of_a_wallet_the_requests_are_counted_all_the_same(us: Administered) -> None:
    group = a_group()
    who = administrator(a_user(group, role="group_admin"))
    assert spending.scope_frame(who.reach, who.user.pk, "group", group.pk) == (0, 0)
    assert (
        spending.scope_frame(who.reach, who.user.pk, None, None)[0]
        == spending.Account.objects.get(pk=SYSTEM_ID).available
    )


def administrator(user: User) -> Any:

    request = RequestFactory().get("/admin/")
    request.user = user
    return administrator_of(request)


@pytest.mark.parametrize("path", ["/admin/", "/admin/users/", "/admin/credits/", "/admin/audit/"])
def test_the_navigation_is_fetched_by_itself_from_every_page(us: Administered, path: str) -> None:
    part = browser(us.root).get(path, headers={"hx-request": "true", "hx-target": "admin-navigation"})
    assert text(part).strip().startswith('<div id="admin-navigation"')
    assert "<html" not in text(part)


def test_every_node_says_how_much_of_its_cpu_and_memory_is_taken(us: Administered) -> None:
    node = us.world.node
    Node.objects.filter(pk=node.pk).update(
        cpu_milli=64_000, used_cpu_milli=39_000, memory_mib=512 * 1024, used_memory_mib=245_760
    )
    for user in us.administrators.values():
        page = browser(user).get("/admin/")
        (host,) = [one["host"] for one in page.context["nodes"] if one["name"] == node.name]
        assert [(one["name"], one["percent"], one["text"]) for one in host] == [
            ("CPU", "61", "39 of 64 cores taken"),
            ("memory", "47", "240 GiB of 512 GiB taken"),
        ]
        assert "CPU 61 %" in text(page)


def test_an_alarm_leads_to_where_something_can_be_done_and_names_whom_a_node_waits_for(us: Administered) -> None:
    Node.objects.filter(pk=us.world.node.pk).update(is_cordoned=True)

    def drain(user: User) -> Any:
        alarms = browser(user).get("/admin/").context["alarms"]
        return next(alarm for alarm in alarms if alarm["title"] == f"{us.world.node.name} drains")

    own, theirs = us.world.alice.user.email.split("@")[0], us.neighbour.user.email.split("@")[0]
    stranger = us.stranger.user.email.split("@")[0]
    assert drain(us.root)["text"] == f"Waits for {own}, {theirs}, {stranger}."
    assert drain(us.org_admin)["text"] == f"Waits for {own}, {theirs}. 1 part is in use by others."
    assert drain(us.group_admin)["text"] == f"Waits for {own}. 2 parts are in use by others."
    chosen = browser(us.root).get(f"/admin/{drain(us.root)['url']}")
    assert "vit-ft" in text(chosen)
    words = {alarm["go"] for alarm in browser(us.root).get("/admin/").context["alarms"]}
    assert words == {"Open cluster", "Open budget", "Open card"}


def test_silent_clusters_are_counted_in_the_navigation_of_who_looks_after_them(us: Administered) -> None:
    assert "1 silent" in text(browser(us.root).get("/admin/users/"))
    for role in OTHERS:
        assert "1 silent" not in text(browser(us.administrators[role]).get("/admin/users/"))
