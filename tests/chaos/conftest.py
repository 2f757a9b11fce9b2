"""One demo for all runs, with a session in it that nothing may touch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.console import Console
from tests.chaos.examiner import prepare
from tests.chaos.processes import belongings
from tests.chaos.story import Bystander
from tests.e2e.conftest import Demo, demo

__all__ = ["demo"]


@pytest.fixture(scope="session")
def image(demo: Demo) -> str:
    """An image with a terminal only: it starts at once."""
    return prepare(demo)


@pytest.fixture(scope="session")
def bystander(demo: Demo, image: str) -> Iterator[Bystander]:
    """A running session of somebody else: it must still be the same processes after every run."""
    grace = Console.sign_in(demo, "grace")
    session_id = grace.create("bystander", "M", image, key="bystander")
    grace.reaches(session_id, "running", within=120)
    yield Bystander(grace, session_id, belongings(session_id))
    grace.ask("stop", session_id)
    grace.reaches(session_id, "stopped", within=120)
