"""The session's page when nobody uses it: countdown with its evidence, keep alive, what keeps it awake, why it was paused."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from gshare_core.contract import AppUse, GpuSource, GpuUse
from gshare_core.kit import locks
from sessions_app import idleness
from sessions_app.domain.lifecycle import Event
from sessions_app.held import lock_session
from sessions_app.models import Session
from sessions_app.timeline import Cause
from sessions_app.transition import transition
from tests.apps.sessions.test_idleness import busy_lab, rest
from tests.apps.sessions.world import NOON, World, limit

pytestmark = pytest.mark.django_db

MINUTE = timedelta(minutes=1)


def page_of(client: Client, session: Session) -> str:
    answer = client.get(f"/sessions/{session.pk}/")
    assert answer.status_code == 200
    return " ".join(str(answer.content.decode()).split())


def test_who_is_idle_sees_since_when_until_when_and_why(world: World, alice: Client) -> None:
    session = world.run()
    kernel = GpuUse(source=GpuSource.HAMI, healthy=True, present=True, last_kernel_at=NOON + 5 * MINUTE)
    apps = (AppUse(app="lab", last_activity_at=NOON + 10 * MINUTE), AppUse(app="terminal"))
    rest(world, 40 * MINUTE, session, gpu=kernel, apps=apps)
    page = page_of(alice, session)
    assert "Idle since 12:10" in page
    assert 'to the pause at <strong class="ink">13:10</strong>' in page
    for words in (
        "Last GPU kernel",
        "12:05",
        "35 min ago",
        "CPU, mean",
        "quiet below 5 % of 4 cores",
        "last activity 30 min ago",
    ):
        assert words in page, words
    assert "Keep alive until 14:40" in page
    assert "idle, pauses in" in str(alice.get("/").content.decode())


def test_keep_alive_is_a_button_that_works_without_javascript(world: World, alice: Client) -> None:
    session = world.run()
    rest(world, 40 * MINUTE, session)
    alice.post(f"/sessions/{session.pk}/keep-alive/")
    idleness.judge()
    page = page_of(alice, session)
    assert "Kept alive until 14:40." in page
    assert 'to the pause at <strong class="ink">14:40</strong>' in page


def test_where_no_keep_alive_is_allowed_there_is_no_button(world: World, alice: Client) -> None:
    session = world.run()
    limit("global", "keep_alive_max_min", 0)
    rest(world, 40 * MINUTE, session)
    page = page_of(alice, session)
    assert "Idle since" in page
    assert "Keep alive" not in page


def test_who_works_sees_what_keeps_the_session_awake(world: World, alice: Client) -> None:
    session = world.run()
    rest(world, 10 * MINUTE, session, apps=busy_lab)
    page = page_of(alice, session)
    assert "In use" in page
    assert "It is paused after 1 h without use." in page
    assert "a cell runs" in page
    assert "Idle since" not in page


def test_a_session_that_has_just_started_says_so_and_not_that_its_use_is_unknown(world: World, alice: Client) -> None:
    session = world.run()
    for age in (timedelta(0), timedelta(seconds=59)):
        world.time.advance(NOON + age - world.time.now())
        idleness.judge()
        page = page_of(alice, session)
        assert "Just started" in page
        assert "It is paused after 1 h without use." in page
        assert "unknown" not in page
        assert "nothing was heard" not in page
    world.time.advance(timedelta(seconds=1))
    idleness.judge()
    assert "Whether it is idle is unknown" in page_of(alice, session)


def test_a_session_that_was_silent_has_not_just_started(world: World, alice: Client) -> None:
    session = world.run()
    world.time.advance(10 * MINUTE)
    with locks.ordered():
        held = lock_session(session.pk)
        assert held is not None
        transition(held, Cause(Event.SILENT, reason="cluster_lost"), at=world.time.now())
    session.refresh_from_db()
    assert world.report(session, "running", ready_at=NOON)
    idleness.judge()
    session.refresh_from_db()
    assert (session.state, session.state_since) == ("running", world.time.now())
    assert "Whether it is idle is unknown" in page_of(alice, session)


def test_what_cannot_be_known_is_said(world: World, alice: Client) -> None:
    session = world.run()
    rest(world, 10 * MINUTE, session, gpu=GpuUse(source=GpuSource.HAMI, healthy=False))
    page = page_of(alice, session)
    assert "Whether it is idle is unknown" in page
    assert "the monitor of its node does not answer" in page


def test_who_was_paused_for_idling_sees_the_evidence_and_the_way_on(world: World, alice: Client) -> None:
    session = world.run()
    rest(world, 65 * MINUTE, session)
    world.gone(session)
    page = page_of(alice, session)
    assert "Was idle" in page
    assert "unused for 1 h" in page
    assert 'GPU</span> <span class="num">never used' in page
    assert "Resume" in page


def test_the_end_of_the_longest_run_is_shown_when_it_is_near(world: World, alice: Client) -> None:
    session = world.run()
    limit("user", "max_runtime_min", 120, target=world.alice.user)
    rest(world, 100 * MINUTE, session, each=10 * MINUTE, apps=busy_lab)
    assert "Pauses at" not in page_of(alice, session)
    assert "2 h, until 14:00" in page_of(alice, session)
    rest(world, 10 * MINUTE, session, apps=busy_lab)
    assert "Pauses at 14:00: its longest run of 2 h is reached" in page_of(alice, session)
