"""Which pauses end by themselves for who asked for it."""

from datetime import UTC, datetime, timedelta

import pytest

from sessions_app.domain.waking import wakes_at

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)
PAUSE = timedelta(minutes=10)


@pytest.mark.parametrize(
    "reason",
    [
        "credit_exhausted",
        "budget_exhausted",
        "cluster_stopped",
        "cluster_lost",
        "node_lost",
        "evicted",
        "drained",
        "preempted",
    ],
)
def test_what_nobody_wanted_ends_by_itself(reason):
    assert wakes_at(reason, at=NOW, woken_at=None, pause=PAUSE) == NOW


@pytest.mark.parametrize("reason", ["", "user", "admin", "idle", "max_runtime", "access_revoked", "disk_exceeded"])
def test_what_somebody_wanted_or_would_happen_again_stays(reason):
    assert wakes_at(reason, at=NOW, woken_at=None, pause=PAUSE) is None


def test_what_ends_again_and_again_does_not_spin():
    a_moment_ago = NOW - timedelta(minutes=1)
    assert wakes_at("evicted", at=NOW, woken_at=a_moment_ago, pause=PAUSE) == a_moment_ago + PAUSE
    assert wakes_at("evicted", at=NOW, woken_at=NOW - timedelta(hours=1), pause=PAUSE) == NOW
