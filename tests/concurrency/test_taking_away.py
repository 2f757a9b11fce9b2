"""What is deleted while somebody begins to use it: one of the two comes too late and is told so; nothing is half done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from catalog import services as catalog
from catalog.models import Preset
from cluster import fleets
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from sessions_app.models import Session
from sessions_app.services import create_session
from tests.apps.sessions.world import World, a_world, manual_clock
from tests.concurrency.rivals import Held
from tests.recount import everything_agrees

pytestmark = pytest.mark.django_db(transaction=True)


def create(world: World, pause: Callable[[], None]) -> Any:
    """Create a session, stopping when everything is written and nothing committed."""
    stopped: list[str] = []

    def stop_once(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        result = execute(sql, *args)
        if "timelineentry" in sql and not stopped:
            stopped.append(sql)
            pause()
        return result

    with clock.using(world.time), connection.execute_wrapper(stop_once):
        try:
            return create_session(world.ask("S"), by=world.alice.user)
        except DomainError as refusal:
            return refusal.code


def test_a_size_that_is_deleted_under_a_create_is_not_found_and_nothing_is_left_of_it() -> None:
    fleets.forget()
    time = manual_clock()
    with clock.using(time):
        world = a_world(time)
        size = world.presets["S"].pk
        creating = Held(lambda pause: create(world, pause))
        catalog.set_offered(kind="preset", row_id=size, offered=False, by=None)
        catalog.delete_row(kind="preset", row_id=size, by=None)
        assert creating.release() == "not_found"
        assert not Preset.objects.filter(pk=size).exists()
        assert not Session.objects.exists()
        assert everything_agrees()
