"""Signing keys for tests: made once a run, since making one costs a second, and copied for each test."""

import shutil
from datetime import UTC, datetime, timedelta

import pytest

from cluster import keys


@pytest.fixture(scope="session")
def made_keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "keys"
    keys.ensure(folder, at=datetime.now(UTC) - timedelta(hours=1))
    return folder


@pytest.fixture
def signing_keys(made_keys, tmp_path, gshare):
    """A folder with one signing key that the settings name."""
    folder = tmp_path / "keys"
    shutil.copytree(made_keys, folder)
    gshare(signing_key_dir=folder)
    return folder
