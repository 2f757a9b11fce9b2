"""The world in which sessions are tested, on a clock that stands still until it is moved."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta

import pytest

from gshare_core.kit import clock
from gshare_core.kit.bulkhead import Bulkhead
from gshare_core.kit.gathering import Gathering
from sessions_app import arrivals, services
from tests.apps.cluster.conftest import made_keys, signing_keys
from tests.apps.sessions.world import World, a_world, manual_clock


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """One card, alice with 1,000 credits."""
    time = manual_clock()
    with clock.using(time):
        yield a_world(time)


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """`with crowded():` the one place inside admission is taken, and nobody has much patience."""
    small = Bulkhead("admission", limit=1, patience=timedelta(milliseconds=20))
    monkeypatch.setattr(services, "ADMISSIONS", small)
    together = Gathering(arrivals.admit_together, bulkhead=small, most=4, beside=timedelta(milliseconds=5))
    monkeypatch.setattr(services, "TOGETHER", together)
    return small.entered


__all__ = ["crowded", "made_keys", "signing_keys", "world"]
