"""The world in which sessions are tested, on a clock that stands still until it is moved."""

from collections.abc import Iterator

import pytest

from gshare_core.kit import clock
from tests.apps.cluster.conftest import made_keys, signing_keys
from tests.apps.sessions.world import World, a_world, manual_clock


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """One card, alice with 1,000 credits."""
    time = manual_clock()
    with clock.using(time):
        yield a_world(time)


__all__ = ["made_keys", "signing_keys", "world"]
