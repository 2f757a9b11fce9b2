"""The administrator console with real rows: each role sees its own scope and nothing else; acts leave reasons and traces."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client

from accounts.models import AuditEntry
from cluster.models import Card, Claim, Cluster, ModeChange
from sessions_app.models import Run, RunActivity, Session
from tests.apps.sessions.world import World, fresh
from tests.web.sessions.admin_world import Administered, administered
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db

ROLES = ("super_admin", "org_admin", "group_admin")
FRAGMENTS = {
    "/admin/": ("overview-now", "fleet", "overview-lists"),
    "/admin/sessions/": ("session-list",),
    "/admin/sessions/{running}/": ("session-head", "session-now", "session-side", "timeline"),
    "/admin/sessions/{running}/stop/": ("dialog",),
    "/admin/sessions/{running}/open/": ("dialog",),
    "/admin/sessions/{waiting}/priority/": ("dialog",),
    "/admin/sessions/bulk/?act=stop&session={running}": ("dialog",),
    "/admin/queue/": ("queue-list",),
}
# Which of the sessions each role sees by name: alice's own group's, its neighbour's, a stranger's.
SEES = {
    "super_admin": {"vit-ft", "asr-large", "fold-9", "llm-eval"},
    "org_admin": {"vit-ft", "asr-large", "llm-eval"},
    "group_admin": {"vit-ft", "llm-eval"},
}


@pytest.fixture
def us(world: World) -> Administered:
    return administered(world)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def filled(path: str, us: Administered) -> str:
    return path.format(running=us.running.pk, waiting=us.waiting.pk)


@pytest.mark.parametrize("path", FRAGMENTS)
def test_a_page_is_whole_for_every_administrator_and_a_fragment_is_its_part_alone(us: Administered, path: str) -> None:
    for role in ROLES:
        client = browser(us.administrators[role])
        page = client.get(filled(path, us))
        assert page.status_code == 200
        assert "<!doctype html>" in text(page)
        for fragment in FRAGMENTS[path]:
            part = client.get(filled(path, us), headers={"hx-request": "true", "hx-target": fragment})
            assert part.status_code == 200
            assert "<html" not in text(part), fragment


@pytest.mark.parametrize("path", FRAGMENTS)
def test_who_administers_nothing_finds_no_such_page(us: Administered, path: str) -> None:
    assert browser(us.world.alice.user).get(filled(path, us)).status_code == 404
    assert Client().get(filled(path, us)).status_code == 302


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", ["/admin/?view=table", "/admin/sessions/", "/admin/queue/"])
def test_each_role_reads_the_names_of_its_own_scope_and_no_other(us: Administered, role: str, path: str) -> None:
    page = text(browser(us.administrators[role]).get(path))
    named = {name for name in SEES["super_admin"] if name in page}
    expected = SEES[role] & ({"llm-eval"} if "queue" in path else {"vit-ft", "asr-large", "fold-9", "llm-eval"})
    assert named == expected


@pytest.mark.parametrize("role", ROLES)
def test_the_fleet_shows_others_as_in_use_without_their_names(us: Administered, role: str) -> None:
    page = text(browser(us.administrators[role]).get("/admin/"))
    owners = {"alice": us.world.alice.user, "neighbour": us.neighbour.user, "stranger": us.stranger.user}
    seen = {name for name, user in owners.items() if f">{user.email.partition('@')[0]}</b>" in page}
    assert (
        seen
        == {
            "super_admin": {"alice", "neighbour", "stranger"},
            "org_admin": {"alice", "neighbour"},
            "group_admin": {"alice"},
        }[role]
    )
    assert ("in use by others" in page) == (role != "super_admin")


def test_a_chosen_card_says_who_and_why_and_leads_there(us: Administered) -> None:
    client = browser(us.group_admin)
    page = client.get("/admin/")
    card = next(
        card for node in page.context["nodes"] for card in node["cards"] if any(row["url"] for row in card["rows"])
    )
    opened = text(client.get("/admin/" + card["url"].partition("#")[0]))
    assert f"/admin/sessions/{us.running.pk}/" in opened
    assert us.world.alice.user.email in opened
    assert "2 parts are in use by others." in opened


def test_a_chosen_card_says_that_its_node_changes_its_mode(us: Administered) -> None:
    client = browser(us.root)
    (card, *_more) = client.get("/admin/").context["nodes"][0]["cards"]
    at = us.world.time.now()
    node = Card.objects.get(pk=card["id"]).node
    ModeChange.objects.create(node=node, target="mig", asked_at=at, stepped_at=at)
    opened = text(client.get("/admin/" + card["url"].partition("#")[0]))
    assert "New mode of its node&#x27;s cards: MIG (draining)." in opened


def test_the_overview_tells_silent_clusters_and_nodes_that_drain(us: Administered) -> None:
    page = text(browser(us.root).get("/admin/"))
    assert "Cluster annex is silent since" in page
    assert "gpu-02 drains" in page
    assert "has used 91 % of its budget" in page


def test_the_memory_that_was_measured_lately_is_drawn_in_the_parts_of_the_scope(us: Administered) -> None:
    now = us.world.time.now()
    mine, theirs = (Run.objects.get(session=one) for one in (us.running, us.of_stranger))
    for run in (mine, theirs):
        RunActivity.objects.create(
            run=run, sampled_at=now, memory={"gpu": {"vram_mib": 5_000.5}, "gpu_at": now.isoformat()}
        )

    def used() -> dict[str, Fraction | None]:
        context = browser(us.group_admin).get("/admin/").context
        assert (("used", "memory in use") in context["keys"]) == any(
            part.used for node in context["nodes"] for card in node["cards"] for part in card["picture"].parts
        )
        cards = [card["picture"] for node in context["nodes"] for card in node["cards"]]
        return {part.kind: part.used for card in cards for part in card.parts}

    found = used()
    assert found["session"] is not None
    assert found["session"] == Fraction("5000.5") / Claim.objects.get(run_id=mine.pk).vram_mib
    assert found["other"] is None, "what others use is theirs to know"
    RunActivity.objects.update(sampled_at=now - timedelta(minutes=3))
    assert used()["session"] is None


def test_a_silent_cluster_is_told_with_the_sessions_of_the_scope_that_it_lost_and_no_others(us: Administered) -> None:
    here = us.world.cluster
    annex = Cluster.objects.get(name="annex")
    Cluster.objects.filter(pk=here.pk).update(state=Cluster.State.LOST, last_beat_at=us.world.time.now())
    Session.objects.filter(pk__in=(us.running.pk, us.of_neighbour.pk, us.of_stranger.pk)).update(state="lost")
    Run.objects.filter(session=us.of_stranger).update(cluster=annex)
    told = {
        role: {row["title"].split(" ")[1]: row["text"] for row in browser(who).get("/admin/").context["alarms"][:2]}
        for role, who in us.administrators.items()
    }
    assert told["super_admin"][here.name].startswith("2 sessions lost.")
    assert told["super_admin"]["annex"].startswith("1 session lost.")
    assert told["org_admin"][here.name].startswith("2 sessions lost.")
    assert told["group_admin"][here.name].startswith("1 session lost.")
    assert {told[role]["annex"] for role in ("org_admin", "group_admin")} == {"Nothing new lands there."}


def test_how_many_sessions_a_sweep_would_end_is_told_to_who_administers_all_of_them(us: Administered) -> None:
    Cluster.objects.filter(pk=us.world.cluster.pk).update(sweep_held_at=us.world.time.now(), sweep_ends=37)
    told = text(browser(us.root).get("/admin/"))
    assert "It would end 37 sessions." in told
    assert f"/admin/clusters/{us.world.cluster.pk}/" in told
    for role in ("org_admin", "group_admin"):
        page = text(browser(us.administrators[role]).get("/admin/"))
        assert "refuses to act" in page
        assert "37" not in page.partition("refuses to act")[2][:400]
        assert "A super administrator must confirm what it would end." in page


def test_a_foreign_session_has_no_page_and_no_act_for_other_administrators(us: Administered) -> None:
    for role in ("org_admin", "group_admin"):
        client = browser(us.administrators[role])
        assert client.get(f"/admin/sessions/{us.of_stranger.pk}/").status_code == 404
        assert client.post(f"/admin/sessions/{us.of_stranger.pk}/stop/", {"reason": "no"}).status_code == 404
        client.post("/admin/sessions/bulk/", {"act": "stop", "session": str(us.of_stranger.pk), "reason": "no"})
    assert fresh(us.of_stranger).state == "running"


def test_an_act_needs_a_reason_keeps_it_and_leaves_a_trace(us: Administered) -> None:
    client, address = browser(us.group_admin), f"/admin/sessions/{us.running.pk}/pause/"
    refused = client.post(address, {"reason": " "})
    assert refused.status_code == 422
    assert "Say why; the owner reads it." in text(refused)
    assert fresh(us.running).state == "running"
    assert (
        client.post(address, {"reason": "the node is needed"}).headers["Location"]
        == f"/admin/sessions/{us.running.pk}/"
    )
    assert fresh(us.running).state == "pausing"
    entry = AuditEntry.objects.get(act="session.pause")
    assert (entry.actor_label, entry.reason, entry.target_id) == (
        us.group_admin.email,
        "the node is needed",
        str(us.running.pk),
    )


def test_several_are_stopped_with_one_reason_and_a_trace_of_each(us: Administered) -> None:
    client, chosen = browser(us.org_admin), [str(us.running.pk), str(us.of_neighbour.pk)]
    asked = text(client.get("/admin/sessions/bulk/", {"act": "stop", "session": chosen}))
    assert "vit-ft" in asked
    assert "asr-large" in asked
    assert client.post("/admin/sessions/bulk/", {"act": "stop", "session": chosen}).status_code == 422
    done = client.post(
        "/admin/sessions/bulk/", {"act": "stop", "session": chosen, "reason": "maintenance"}, follow=True
    )
    assert "2 sessions were asked to stop." in text(done)
    assert [fresh(us.running).state, fresh(us.of_neighbour).state] == ["stopping", "stopping"]
    assert AuditEntry.objects.filter(act="session.stop", reason="maintenance").count() == 2


def test_opening_somebodys_session_asks_why_tells_the_owner_and_is_audited(us: Administered) -> None:
    client, address = browser(us.group_admin), f"/admin/sessions/{us.running.pk}/open/"
    assert us.world.alice.user.email in text(client.get(address))
    assert client.post(address, {"app": "lab"}).status_code == 422
    opened = client.post(address, {"app": "lab", "reason": "she asked for help"})
    assert f"{us.running.pk}." in opened.headers["Location"]
    assert AuditEntry.objects.filter(act="session.open", reason="she asked for help").count() == 1


def test_priority_is_set_with_a_reason_and_bound_by_the_owners_policy(us: Administered) -> None:
    address = f"/admin/sessions/{us.waiting.pk}/priority/"
    above = browser(us.group_admin).post(address, {"priority": "5", "reason": "a deadline"}, follow=True)
    assert "at most priority 0" in text(above)
    assert fresh(us.waiting).priority == 0
    browser(us.root).post(address, {"priority": "5", "reason": "a deadline"})
    assert fresh(us.waiting).priority == 5
    assert "5" in text(browser(us.root).get("/admin/queue/"))


def test_search_filters_and_order_narrow_the_list_and_a_stale_address_leads_back(us: Administered) -> None:
    client = browser(us.root)
    owner = us.stranger.user.email
    found = client.get("/admin/sessions/", {"q": owner}).context["rows"]
    assert [row["name"] for row in found] == ["fold-9"]
    waiting = client.get("/admin/sessions/", {"state": "queued"}).context["rows"]
    assert [row["name"] for row in waiting] == ["llm-eval"]
    by_name = client.get("/admin/sessions/", {"ordering": "name"}).context["rows"]
    assert [row["name"] for row in by_name] == ["asr-large", "fold-9", "llm-eval", "vit-ft"]
    assert client.get("/admin/sessions/", {"cursor": "garbage"}).status_code == 302


@pytest.mark.parametrize(
    ("role", "scope"),
    [("super_admin", "All organisations"), ("org_admin", "{organisation}"), ("group_admin", "{group}")],
)
def test_the_frame_names_the_scope_counts_it_and_leads_to_the_other_console(
    us: Administered, role: str, scope: str
) -> None:
    page = browser(us.administrators[role]).get("/admin/queue/")
    group = us.world.alice.group
    shell = page.context["shell"]
    assert shell["scope_name"] == scope.format(organisation=group.organisation.name, group=group.name)
    assert shell["counts"]["queue"] == 1
    assert 'href="/"' in text(page)
    assert 'href="/admin/"' in text(browser(us.administrators[role]).get("/"))
