"""The sessions' world behind the console's pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.apps.sessions.conftest import crowded, world
from tests.apps.sessions.world import World

__all__ = ["crowded", "world"]


def browser(user: Any) -> Client:
    """Somebody's browser without JavaScript, signed in."""
    client = Client(headers={"origin": "http://localhost:8000"})
    client.force_login(user)
    return client


@pytest.fixture
def alice(world: World) -> Client:
    """Alice's browser."""
    return browser(world.alice.user)
