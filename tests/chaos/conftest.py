"""One demo for all runs, with sessions in it that outlive every run: one that nothing may touch, three that rules end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.companions import Companions, limit
from tests.chaos.console import Console
from tests.chaos.examiner import Examiner
from tests.chaos.story import Cast
from tests.e2e.running import Demo, running_demo

# What a person waits for in hours happens here in seconds; everything else is the demo's own.
SOON = {
    "GSHARE_HOLD_WINDOW": "20s",
    "GSHARE_METER_PERIOD": "5s",
    "GSHARE_AUTO_RESUME_RETRY": "2s",
    "GSHARE_AUTO_RESUME_PAUSE": "2s",
}


@pytest.fixture(scope="session")
def demo() -> Iterator[Demo]:
    """The demo, with short holds."""
    with running_demo(**SOON) as running:
        yield running


@pytest.fixture(scope="session")
def examiner(demo: Demo) -> Iterator[Examiner]:
    """Looks at the demo's database."""
    with Examiner(demo) as looking:
        yield looking


@pytest.fixture(scope="session")
def image(examiner: Examiner) -> str:
    """An image with a terminal only: it starts at once."""
    return examiner.prepare()


@pytest.fixture(scope="session")
def cast(demo: Demo, image: str) -> Cast:
    """Alice, who works, with a volume that one session at a time may mount; grace, who waits in line behind her."""
    alice, grace = Console.sign_in(demo, "alice"), Console.sign_in(demo, "grace")
    return Cast(alice, grace, image, alice.volume("chaos"))


@pytest.fixture(scope="session")
def companions(demo: Demo, cast: Cast) -> Iterator[Companions]:
    """The sessions that go on over all runs."""
    admin, grace = Console.sign_in(demo, "admin"), cast.waiter
    limited, sleeper, hungry = (Console.sign_in(demo, who) for who in ("olga", "bob", "carol"))
    limit(admin, limited, max_runtime_min=1)
    limit(admin, sleeper, idle_timeout_min=1)
    running = Companions.start(admin, grace, limited, sleeper, hungry, image=cast.image)
    yield running
    running.end()
