"""Who may be asked to make room for whom."""

from datetime import UTC, datetime, timedelta

import pytest

from sessions_app.domain.preemption import Rules, Runner, may_be_asked

NOW = datetime(2026, 10, 14, 12, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
RULES = Rules(min_runtime=10 * MINUTE, again_after=60 * MINUTE)
WILLING = {"preemptible": True, "priority": 2, "ran": 30 * MINUTE}


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"preemptible": False}, False),
        ({"priority": 4}, True),
        ({"priority": 5}, False),
        ({"priority": 6}, False),
        ({"ran": None}, False),
        ({"ran": 10 * MINUTE}, True),
        ({"ran": 10 * MINUTE - SECOND}, False),
        ({"ran": -SECOND}, False),
        ({"asked_at": NOW - 60 * MINUTE}, True),
        ({"asked_at": NOW - 60 * MINUTE + SECOND}, False),
    ],
    ids=str,
)
def test_only_a_lower_preemptible_session_that_has_run_and_was_left_alone_may_be_asked(changes, may):
    assert may_be_asked(Runner(**(WILLING | changes)), priority=5, rules=RULES, now=NOW) is may
