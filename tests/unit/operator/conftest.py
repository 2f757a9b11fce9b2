"""Fixtures for the operator's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.operator.local import Cluster, StandIn, short_folder, stand_in


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short private folder; what runs in it ends with the test."""
    with short_folder() as path:
        yield path


@pytest.fixture
def cluster(folder: Path) -> Cluster:
    """A local cluster whose `lab` and `terminal` are the stand-in; there is no `code`."""
    app = StandIn(stand_in(folder))
    missing = StandIn(app.program, optional=True, why_missing="no code-server on this machine")
    return Cluster(folder, {"lab": app, "terminal": app, "code": missing})
