"""What a person is told of a wait: place, why, what would free it, when and what that rests on; on every page alike."""

from __future__ import annotations

from datetime import timedelta
from inspect import getclosurevars
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from accounts.models import PolicyValue, User
from cluster import fleets
from cluster import services as metal
from cluster.models import Card, Earmark
from cluster.services import VolumeWish
from gshare_core.kit import clock
from sessions_app import estimates, lanes, queries, queue, recent_use
from sessions_app.models import QueueEntry, RecentUse, Session
from sessions_app.services import Asked, stop_session
from sessions_app.views import wait
from tests.apps.sessions.world import MountAsk, World, limit
from tests.builders import a_customer
from tests.web.sessions.conftest import browser

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def plenty(world: World) -> None:
    """Nobody is stopped by a limit unless a test says so."""
    PolicyValue.objects.filter(field__in=("max_sessions", "max_queued", "cards")).update(value=1_000)
    PolicyValue.objects.filter(field__in=("cpu_milli", "memory_mib", "vram_mib", "core_percent")).update(value=10**9)


def entries(client: Client) -> dict[str, dict[str, Any]]:
    """The queue page's entries by name."""
    return {entry["name"]: entry for entry in client.get("/queue/").context["entries"]}


def text(answer: Any) -> str:
    return str(answer.content.decode())


def close_cards(*, closed: bool = True) -> None:
    Card.objects.update(is_draining=closed)
    fleets.forget()


def end(world: World, session: Session) -> None:
    stop_session(Asked(session.pk, session.owner))
    world.gone(session)


# Why -----------------------------------------------------------------------------------------------------------------


def full(world: World) -> Session:
    world.run("exclusive")
    return world.create("exclusive", name="waits")


def behind(world: World) -> Session:
    world.run("exclusive")
    world.create("L")
    return world.create("L", name="waits")


def limited(world: World) -> Session:
    close_cards()
    waiting = world.create("exclusive", name="waits")
    limit("user", "cards", 0, target=world.alice.user)
    close_cards(closed=False)
    return waiting


def like_one_that_is_limited(world: World) -> Session:
    close_cards()
    world.create("L")
    waiting = world.create("L", name="waits")
    limit("user", "max_sessions", 0, target=world.alice.user)
    close_cards(closed=False)
    return waiting


def mounting_what_is_in_use(world: World) -> Session:
    close_cards()
    wish = VolumeWish(name="data", kind="data", access="rwo", size_gib=1, group_id=None, cluster_id=world.cluster.pk)
    volume = metal.create_volume(by=world.alice.user, wish=wish)
    mount = (MountAsk(volume.pk, "/data", "rw"),)
    waiting = world.create("L", name="waits", mounts=mount)
    close_cards(closed=False)
    world.create("cpu", mounts=mount)
    return waiting


def for_whom_room_is_made(world: World) -> Session:
    limit("global", "max_priority", 5)
    lower = world.run("exclusive", customer=a_customer(100), preemptible=True)
    world.pass_time(15 * MINUTE, lower)
    return world.create("exclusive", name="waits", priority=5)


WAITS = [full, behind, limited, like_one_that_is_limited, mounting_what_is_in_use, for_whom_room_is_made]


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("wait_of", WAITS)
def test_every_waiting_session_says_why_it_waits_and_what_would_free_it(
    world: World, alice: Client, wait_of: Any, language: str
) -> None:
    waiting = wait_of(world)
    world.time.advance(MINUTE)
    queue.drain()
    assert Session.objects.get(pk=waiting.pk).state == "queued"
    place = queries.places([waiting.pk])[waiting.pk]
    with translation.override(language):
        session = queries.rows().get(pk=waiting.pk)
        said = wait.wait_of(session, place, wait.surroundings({waiting.pk: place}), own={}, now=clock.now())
    assert said["title"]
    assert said["text"]
    assert said["basis"]
    if language == "ko":
        hangul = [any("가" <= letter <= "힣" for letter in str(said[name])) for name in ("title", "text", "basis")]
        assert hangul == [True, True, True], said
    else:
        frees = {
            full: "when a whole card comes back",
            behind: "1 request is before it",
            limited: "an administrator can raise it",
            like_one_that_is_limited: "an administrator can raise it",
            for_whom_room_is_made: "1 session of lower priority makes room for it",
            mounting_what_is_in_use: "when the session that uses the volume pauses or stops",
        }
        assert frees[wait_of] in said["text"]
    for path in ("/queue/", f"/sessions/{waiting.pk}/"):
        assert alice.get(path).status_code == 200


def test_who_stands_behind_one_that_a_limit_keeps_is_told_of_the_limit_until_it_is_lifted(world: World) -> None:
    waiting = like_one_that_is_limited(world)
    queue.drain()
    assert queries.places([waiting.pk])[waiting.pk].reason == "quota_exceeded"
    close_cards()
    limit("user", "max_sessions", 10, target=world.alice.user)
    queue.drain()
    assert not queries.places([waiting.pk])[waiting.pk].is_passed_over


def test_a_limit_of_whole_cards_is_drawn_with_what_is_used_of_it(world: World, alice: Client) -> None:
    world.run("exclusive")
    world.create("exclusive", name="waits")
    limit("user", "cards", 1, target=world.alice.user)
    queue.drain()
    passed = [entry for entry in entries(alice).values() if entry["picture"] and entry["picture"]["kind"] == "cards"]
    assert [len(entry["picture"]["cards"]) for entry in passed] == [1]
    assert "limit 1, set for you" in passed[0]["picture"]["text"]
    assert "1 of 1 in use" in passed[0]["title"]


# Pictures ------------------------------------------------------------------------------------------------------------


def test_the_kept_card_shows_who_makes_way_until_when_and_what_is_held(world: World, alice: Client) -> None:
    limit("global", "max_runtime_min", 60)
    bob = a_customer(100)
    holder = world.run("XL", customer=bob, name="secret-name")
    world.create("exclusive", name="waits")
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    mark = Earmark.objects.get()
    picture = entries(alice)["waits"]["picture"]
    assert picture["kind"] == "card"
    assert (picture["node"], picture["index"]) == ("gpu-01", 0)
    assert mark.ready_at is not None
    labels = [part.label for part in picture["card"].parts]
    assert labels[0].startswith("until ")
    assert labels[1] == "held"
    assert (picture["bracket"]["x"], picture["bracket"]["width"]) == ("0%", "100%")
    assert picture["right"].startswith("free by ")
    page = text(alice.get("/queue/"))
    assert "secret-name" not in page
    assert 'class="bracket"' in page


def test_without_a_longest_run_the_kept_card_promises_no_time(world: World, alice: Client) -> None:
    holder = world.run("XL")
    world.create("exclusive", name="waits")
    world.pass_time(11 * MINUTE, holder)
    queue.drain()
    picture = entries(alice)["waits"]["picture"]
    assert not any("until" in part.label for part in picture["card"].parts)
    assert picture["right"] == "nothing says when it is free"


def test_the_line_is_drawn_by_what_is_asked_for_and_names_only_ones_own(world: World, alice: Client) -> None:
    world.run("exclusive")
    bob = a_customer(100)
    world.create("exclusive", customer=bob, name="secret-name")
    world.time.advance(MINUTE)
    world.create("exclusive", name="waits")
    picture = entries(alice)["waits"]["picture"]
    assert [(part.label, part.size) for part in picture["card"].parts] == [("1st", "1 card"), ("2nd", "waits")]
    assert "secret-name" not in text(alice.get("/queue/"))


# When ----------------------------------------------------------------------------------------------------------------


def test_an_estimate_says_what_it_rests_on_wherever_the_wait_is_shown(world: World, alice: Client) -> None:
    limit("global", "max_runtime_min", 60)
    world.run("exclusive")
    waiting = world.create("exclusive", name="waits")
    assert "nothing says when others end" in text(alice.get("/queue/"))
    estimates.refresh()
    at = QueueEntry.objects.get(session=waiting).estimate_at
    for path in ("/queue/", f"/sessions/{waiting.pk}/"):
        page = text(alice.get(path))
        assert "from longest runs that must end" in page
        assert at is not None
        assert at.isoformat()[:16] in page
    row = next(row for row in alice.get("/").context["sessions"] if row["name"] == "waits")
    assert row["next"]["lead"] == "1st"
    assert row["next"]["text"].startswith("about ")


def test_who_is_passed_over_is_promised_no_time(world: World, alice: Client) -> None:
    waiting = limited(world)
    QueueEntry.objects.filter(session=waiting).update(estimate_at=world.time.now() + MINUTE, basis="max_runtime")
    queue.drain()
    assert entries(alice)["waits"]["at"] is None


# Lines ---------------------------------------------------------------------------------------------------------------


def test_a_line_tells_who_waits_now_how_long_it_took_lately_and_the_course_of_the_day(
    world: World, alice: Client
) -> None:
    holder = world.run("exclusive")
    second = world.create("exclusive")
    world.pass_time(timedelta(hours=2), holder)
    end(world, holder)
    queue.drain()
    world.ready(Session.objects.get(pk=second.pk))
    world.create("exclusive", name="waits")
    world.pass_time(20 * MINUTE, Session.objects.get(pk=second.pk))
    (row,) = alice.get("/queue/").context["lanes"]
    assert (row["waiting"], row["first_wait"], row["longest_wait"]) == (1, "20 min", "2 h")
    assert row["median_wait"] == "1 h"  # one started at once, one after two hours
    waiting = [waited for _at, waited in lanes.curves(world.time.now())[world.offering.pk]]
    assert len(waiting) == 49
    assert (waiting[0], max(waiting), waiting[-1]) == (0, 1, 1)
    assert sum(waiting) == pytest.approx(5, abs=1)  # two hours, and the last twenty minutes


def test_the_page_says_what_recent_use_costs_in_line(world: World, alice: Client) -> None:
    assert "Your use" not in alice.get("/queue/").context["lanes_note"]
    RecentUse.objects.create(scope=f"user:{world.alice.user.pk}", hours=6, as_of=world.time.now())
    assert recent_use.penalty_of(world.alice.user.pk, world.alice.group.pk, at=world.time.now()) == 6 * MINUTE
    assert "moves you back 6 min" in alice.get("/queue/").context["lanes_note"]


# Live ----------------------------------------------------------------------------------------------------------------


def test_a_new_estimate_or_place_is_told_to_its_owner_and_nothing_else_is(
    world: World, django_capture_on_commit_callbacks: Any
) -> None:
    limit("global", "max_runtime_min", 60)
    holder = world.run("exclusive")
    bob = a_customer(100)
    first = world.create("exclusive")
    world.time.advance(MINUTE)
    world.create("exclusive", customer=bob)

    def told() -> set[str]:
        with django_capture_on_commit_callbacks() as callbacks:
            estimates.refresh()
        return {getclosurevars(callback).nonlocals["topic"] for callback in callbacks}

    mine, his = f"queue:{world.alice.user.pk}", f"queue:{bob.user.pk}"
    assert {mine, his} <= told()
    assert told() == set()
    stop_session(Asked(first.pk, world.alice.user))
    assert his in told()
    end(world, holder)
    assert mine not in told()


def test_what_is_announced_names_places_and_changes_with_them_only(world: World, alice: Client) -> None:
    world.run("exclusive")
    first = world.create("exclusive", name="one")
    world.time.advance(MINUTE)
    world.create("exclusive", name="two")
    said = alice.get("/queue/").context["said"]
    assert said == "one 1st; two 2nd"
    world.time.advance(MINUTE)
    assert alice.get("/queue/").context["said"] == said
    stop_session(Asked(first.pk, world.alice.user))
    assert alice.get("/queue/").context["said"] == "two 1st"


def test_a_stranger_sees_no_place_of_anybody(world: World) -> None:
    waiting = full(world)
    stranger = browser(a_customer(5).user)
    assert entries(stranger) == {}
    assert stranger.get(f"/sessions/{waiting.pk}/").status_code == 404


# Preemption ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", ("waits for preempted sessions to end", "made room for a higher priority", "makes room for it")),
        ("ko", ("선점된 세션이 끝나기를 기다", "우선순위가 더 높은 세션에 양보", "1개가 자리를 양보합니다")),
    ],
)
def test_preemption_is_shown_to_who_waits_for_it_and_to_who_made_room(
    world: World, alice: Client, language: str, said: tuple[str, str, str]
) -> None:
    waits_for, made_room, row = said
    waiting = for_whom_room_is_made(world)
    victim = Session.objects.exclude(pk=waiting.pk).get()
    queue.drain()
    estimates.refresh()
    User.objects.update(language=language)
    alice.cookies["django_language"] = language
    page = text(alice.get(f"/sessions/{waiting.pk}/"))
    assert waits_for.casefold() in page.casefold()
    assert row in page, "on the timeline"
    assert Earmark.objects.get().session_id == waiting.pk
    assert entries(alice)["waits"]["picture"]["kind"] == "card"
    bob = browser(victim.owner)
    bob.cookies["django_language"] = language
    assert made_room in text(bob.get(f"/sessions/{victim.pk}/")).casefold()
    world.gone(victim)
    assert made_room in text(bob.get(f"/sessions/{victim.pk}/")).casefold()
