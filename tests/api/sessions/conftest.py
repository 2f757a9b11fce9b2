"""The sessions' world behind the REST interface."""

from tests.apps.sessions.conftest import crowded, world

__all__ = ["crowded", "world"]
