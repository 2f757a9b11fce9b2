"""The console's pages with real rows: who gets them, their fragments, and acts that need no JavaScript."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from cluster import services as metal
from cluster.queries import visible_volumes
from cluster.services import VolumeWish
from sessions_app import reconciler
from sessions_app.models import Run, Session
from tests.apps.sessions.test_waking import exhausted
from tests.apps.sessions.world import NOON, World
from tests.builders import a_customer, a_user
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db

FRAGMENTS = {
    "/": ("money", "sessions", "free", "limits", "notices", "wallet-chip"),
    "/sessions/": ("session-list",),
    "/sessions/new/": ("new-session",),
    "/sessions/{session}/": ("session-head", "session-now", "session-use", "session-side", "timeline"),
    "/sessions/{session}/stop/": ("dialog",),
    "/queue/": ("queue-list",),
    "/volumes/": ("volume-list",),
    "/wallet/": ("wallet-now", "wallet-holds", "ledger"),
    "/wallet/request/": ("dialog",),
}


def form(world: World, tier: str = "M", **changes: str) -> dict[str, str]:
    """What the new-session form sends."""
    facts = {
        "name": "vit-ft",
        "group": str(world.alice.group.pk),
        "preset": str(world.presets[tier].pk),
        "offering": str(world.offering.pk),
        "image": str(world.image.pk),
        "idempotency_key": "one-form",
    }
    return facts | changes


def text(answer: Any) -> str:
    return str(answer.content.decode())


@pytest.mark.parametrize("path", FRAGMENTS)
def test_a_page_is_whole_for_its_owner_and_a_fragment_is_its_part_alone(world: World, alice: Client, path: str) -> None:
    address = path.format(session=world.run().pk)
    page = alice.get(address)
    assert page.status_code == 200
    assert "<!doctype html>" in text(page)
    for fragment in FRAGMENTS[path]:
        part = alice.get(address, headers={"hx-request": "true", "hx-target": fragment})
        assert part.status_code == 200
        assert "<html" not in text(part), fragment
        assert "HX-Target" in part.headers["Vary"]


def test_what_runs_waits_and_ended_is_where_one_looks_for_it(world: World, alice: Client) -> None:
    running, waiting = world.run(name="busy-one"), world.create("exclusive", name="patient-one")
    assert all(name in text(alice.get("/")) for name in ("busy-one", "patient-one"))
    assert "patient-one" in text(alice.get("/queue/"))
    assert "busy-one" in text(alice.get(f"/sessions/{running.pk}/"))
    alice.post(f"/sessions/{waiting.pk}/stop/")
    assert "patient-one" not in text(alice.get("/queue/"))
    assert "patient-one" in text(alice.get("/sessions/?tab=ended"))
    assert "patient-one" not in text(alice.get("/sessions/"))


def test_a_strangers_page_does_not_exist_and_his_acts_change_nothing(world: World) -> None:
    session = world.run(name="secret-name")
    for other in (a_customer(5).user, a_customer(5, group=world.alice.group).user):
        client = browser(other)
        for path in ("", "stop/", "restart/"):
            assert client.get(f"/sessions/{session.pk}/{path}").status_code == 404
        for path in ("pause/", "stop/", "open/"):
            assert client.post(f"/sessions/{session.pk}/{path}", {"reason": "mine"}).status_code == 404
        client.post("/sessions/bulk/", {"act": "stop", "session": str(session.pk)})
        for path in ("/", "/sessions/", "/queue/", "/wallet/", "/volumes/"):
            assert "secret-name" not in text(client.get(path))
    session.refresh_from_db()
    assert session.state == "running"


def test_pause_resume_and_stop_are_plain_forms(world: World, alice: Client) -> None:
    session = world.run()

    def act(verb: str) -> str:
        answer = alice.post(f"/sessions/{session.pk}/{verb}/")
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/sessions/{session.pk}/")
        return str(Session.objects.get(pk=session.pk).state)

    assert act("pause") == "pausing"
    world.gone(session)
    assert act("resume") == "starting"
    assert act("stop") == "stopping"


def test_stop_asks_first_and_names_what_it_costs(world: World, alice: Client) -> None:
    session = world.run(name="vit-ft")
    page = text(alice.get(f"/sessions/{session.pk}/stop/"))
    assert "vit-ft" in page
    assert "hold" in page
    assert Session.objects.get(pk=session.pk).state == "running"


def test_what_a_state_does_not_allow_is_said_on_the_page(world: World, alice: Client) -> None:
    session = world.run()
    answer = alice.post(f"/sessions/{session.pk}/resume/", follow=True)
    assert answer.status_code == 200
    assert list(answer.context["messages"])
    assert Session.objects.get(pk=session.pk).state == "running"


def test_several_are_stopped_at_once_and_only_ones_own(world: World, alice: Client) -> None:
    mine = [world.run("S") for _number in range(2)]
    other = a_customer(100, group=world.alice.group)
    theirs = world.create("S", customer=other)
    chosen = [str(session.pk) for session in (*mine, theirs)]
    answer = alice.post("/sessions/bulk/", {"act": "stop", "session": chosen})
    assert answer.status_code == 302
    states = dict(Session.objects.values_list("pk", "state"))
    assert {states[session.pk] for session in mine} == {"stopping"}
    assert states[theirs.pk] == "starting"


def test_a_new_session_leads_to_its_page(world: World, alice: Client) -> None:
    answer = alice.post("/sessions/new/", form(world))
    session = Session.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/sessions/{session.pk}/")
    assert (session.name, session.owner_id, session.state) == ("vit-ft", world.alice.user.pk, "starting")


def test_a_form_that_is_sent_twice_starts_one_session(world: World, alice: Client) -> None:
    first, again = (alice.post("/sessions/new/", form(world)) for _number in range(2))
    assert first.headers["Location"] == again.headers["Location"]
    assert Session.objects.count() == 1


def test_a_refused_form_keeps_its_values_and_names_the_gate(world: World) -> None:
    poor = a_customer(0, group=world.alice.group)
    answer = browser(poor.user).post("/sessions/new/", form(world, name="kept-name", preset=str(world.presets["L"].pk)))
    page = text(answer)
    assert answer.status_code == 422
    assert 'value="kept-name"' in page
    assert "gate 6" in page
    assert 'value="one-form"' in page
    assert not Session.objects.exists()


def test_while_too_many_start_at_the_same_time_the_form_stays_as_it_is_and_can_be_sent_again(
    world: World, alice: Client, crowded: Callable[[], AbstractContextManager[None]]
) -> None:
    with crowded():
        answer = alice.post("/sessions/new/", form(world, name="kept-name"))
        page = text(answer)
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) > 0
        assert "Not started yet" in page
        assert "Too many people" in page
        assert 'value="kept-name"' in page
        assert 'value="one-form"' in page
        assert not Session.objects.exists()
    assert alice.post("/sessions/new/", form(world, name="kept-name")).status_code == 302


def test_a_paused_session_says_when_it_resumes_by_itself_and_can_be_told_not_to(world: World, alice: Client) -> None:
    session = world.run(auto_resume=True)
    for _time in range(2):  # the second time soon after the first: it waits ten minutes between
        world.gone(session, "evicted")
        address, page = f"/sessions/{session.pk}/", text(alice.get(f"/sessions/{session.pk}/"))
        if _time == 0:
            assert "Resumes by itself in a moment" in page
            reconciler.reconcile()
            world.ready(Session.objects.get(pk=session.pk))
    assert "Resumes by itself at 12:10" in page
    assert "Resume it to go on" not in page
    answer = alice.post(f"{address}stay-paused/")
    assert (answer.status_code, answer.headers["Location"]) == (302, address)
    after = text(alice.get(address))
    assert "by itself at" not in after
    assert "Resume it to go on" in after
    assert "does not resume by itself" in after, "its timeline tells"


def test_who_is_out_of_credits_reads_what_his_session_waits_for(world: World, alice: Client) -> None:
    session = exhausted(world, auto_resume=True)
    world.time.advance(timedelta(minutes=1))
    reconciler.reconcile()
    page = text(alice.get(f"/sessions/{session.pk}/"))
    assert "Resumes by itself when there are credits again" in page
    assert "It is tried again at 13:03." in page
    assert "It needs 12.50 cr, 0.00 cr are available." in page
    alice.cookies["django_language"] = "ko"
    assert "12.50 cr이 필요하지만" in text(alice.get(f"/sessions/{session.pk}/"))
    told = alice.get(f"/api/v1/sessions/{session.pk}").json()
    assert (told["resume_at"], told["auto_resume"]) == (
        (NOON + timedelta(minutes=63)).isoformat().replace("+00:00", "Z"),
        True,
    )
    assert told["allowed"] == ["resume", "stop", "stay-paused"]


def test_a_form_that_is_not_complete_says_so_beside_the_field(world: World, alice: Client) -> None:
    answer = alice.post("/sessions/new/", form(world, name="Not a name!"))
    assert answer.status_code == 422
    assert 'aria-describedby="id_name_error"' in text(answer)
    assert escape("Not a name!") in text(answer)
    assert not Session.objects.exists()


@pytest.mark.parametrize(("tier", "words"), [("M", "Starts now"), ("exclusive", "Queues as")])
def test_the_page_tells_before_the_click_what_start_would_do(
    world: World, alice: Client, tier: str, words: str
) -> None:
    world.run("M")
    assert words in text(alice.get("/sessions/new/", form(world, tier)))
    assert Session.objects.count() == 1


def test_only_applications_that_the_run_reports_are_offered(world: World, alice: Client) -> None:
    session = world.run()
    Session.objects.get(pk=session.pk).image.__class__.objects.update(apps=["lab", "terminal", "code"])
    assert 'value="code"' in text(alice.get(f"/sessions/{session.pk}/"))
    Run.objects.filter(session=session).update(endpoints={"lab": "127.0.0.1:1", "terminal": "127.0.0.1:2"})
    page = text(alice.get(f"/sessions/{session.pk}/"))
    assert 'value="lab"' in page
    assert 'value="code"' not in page


def test_no_figures_are_promised_where_nothing_is_measured(world: World, alice: Client) -> None:
    assert 'id="session-use"' not in text(alice.get(f"/sessions/{world.run().pk}/"))


def test_opening_an_application_leads_to_a_one_time_link_on_the_sessions_own_host(world: World, alice: Client) -> None:
    session = world.run()
    answer = alice.post(f"/sessions/{session.pk}/open/", {"app": "lab"})
    assert answer.status_code == 302
    assert f"{session.pk}." in answer.headers["Location"]
    assert "/.gshare/enter?t=" in answer.headers["Location"]


def test_a_volume_is_made_grown_deleted_and_taken_back(world: World, alice: Client) -> None:
    made = alice.post(
        "/volumes/",
        {"name": "data", "kind": "data", "access": "rwo", "size_gib": "2", "cluster": str(world.cluster.pk)},
    )
    assert made.status_code == 302
    volume = _volume(world)
    assert alice.post(f"/volumes/{volume.pk}/resize/", {"size_gib": "1"}).status_code == 422
    assert alice.post(f"/volumes/{volume.pk}/resize/", {"size_gib": "3"}).status_code == 302
    assert _volume(world).size_gib == 3
    page = alice.post(f"/volumes/{volume.pk}/delete/", follow=True)
    assert f"/volumes/{volume.pk}/restore/" in text(page)
    assert _volume(world).deleted_at is not None
    alice.post(f"/volumes/{volume.pk}/restore/")
    assert _volume(world).deleted_at is None


def test_a_volume_that_is_refused_keeps_its_form(world: World, alice: Client) -> None:
    wish = VolumeWish(name="data", kind="data", access="rwo", size_gib=1, cluster_id=world.cluster.pk)
    metal.create_volume(by=world.alice.user, wish=wish)
    body = {"name": "data", "kind": "data", "access": "rwo", "size_gib": "7", "cluster": str(world.cluster.pk)}
    answer = alice.post("/volumes/", body)
    assert answer.status_code == 422
    assert 'value="7"' in text(answer)


def _volume(world: World) -> Any:
    return visible_volumes(world.alice.user).get()


def test_the_wallet_shows_holds_and_entries_and_its_file(world: World, alice: Client) -> None:
    world.run("L", name="vit-ft")
    page = alice.get("/wallet/")
    assert "vit-ft" in text(page)
    assert "12.50" in text(page)
    table = alice.get(page.context["csv_url"])
    assert (table.status_code, table.headers["Content-Type"].split(";")[0]) == (200, "text/csv")


@pytest.mark.parametrize("query", ["?cursor=nonsense", "?ordering=secret", "?tab=nonsense", "?q=x", "?month=9999-99"])
@pytest.mark.parametrize("path", ["/sessions/", "/wallet/"])
def test_an_address_that_nobody_made_is_answered_all_the_same(alice: Client, path: str, query: str) -> None:
    assert alice.get(path + query).status_code == 200


def test_an_administrator_says_why_he_stops_somebody_elses_session(world: World) -> None:
    session = world.run()
    boss = browser(a_user(world.alice.group, role="group_admin"))
    assert 'name="reason"' in text(boss.get(f"/sessions/{session.pk}/stop/"))
    boss.post(f"/sessions/{session.pk}/stop/")
    assert Session.objects.get(pk=session.pk).state == "running"
    boss.post(f"/sessions/{session.pk}/stop/", {"reason": "the node is needed"})
    assert Session.objects.get(pk=session.pk).state == "stopping"
