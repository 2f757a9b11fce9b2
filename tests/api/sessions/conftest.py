"""The sessions' world behind the REST interface."""

from tests.apps.sessions.conftest import world

__all__ = ["world"]
