"""CPU from the metrics API: rates that become counters, and what is not said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cluster.operator.reading.usage import Rate, advanced, is_fresh, read_rate

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def metrics(*usages: Any, at: str = "2026-11-30T12:00:00Z") -> dict[str, Any]:
    containers = [{"name": f"c{index}", "usage": usage} for index, usage in enumerate(usages)]
    return {"metadata": {"name": "s-1-1"}, "timestamp": at, "window": "15.2s", "containers": containers}


def rate(seconds: float, usec_per_second: int = 250_000) -> Rate:
    return Rate(NOON + timedelta(seconds=seconds), usec_per_second, None)


def test_what_metrics_server_says_is_read_in_its_units() -> None:
    found = read_rate(metrics({"cpu": "1234567890n", "memory": "2048Ki"}, {"cpu": "250m", "memory": "1Mi"}))
    assert found == Rate(NOON, 1_484_567, 3 * 2**20)
    assert read_rate(metrics({"cpu": "0", "memory": "0"})) == Rate(NOON, 0, 0), "zero that is said is zero"


@pytest.mark.parametrize(
    "said",
    [
        {},
        metrics(),
        metrics({}),
        metrics({"memory": "1Mi"}),
        metrics({"cpu": "1m"}, {}),
        metrics({"cpu": "-1m"}),
        metrics({"cpu": "many"}),
        metrics({"cpu": "1m"}, at="yesterday"),
        {"timestamp": "2026-11-30T12:00:00Z", "containers": "none"},
    ],
)
def test_what_is_not_said_is_unknown_and_never_zero(said: dict[str, Any]) -> None:
    assert read_rate(said) is None


def test_memory_that_is_not_said_costs_itself_only() -> None:
    assert read_rate(metrics({"cpu": "1"}, {"cpu": "1", "memory": "1Ki"})) == Rate(NOON, 2_000_000, None)


def test_a_rate_held_since_the_one_before() -> None:
    counter = advanced(advanced(None, rate(0)), rate(30))
    assert (counter.usec, counter.at) == (7_500_000, NOON + timedelta(seconds=30))
    assert advanced(counter, rate(30)) is counter, "the same metrics again are no use"
    assert advanced(counter, rate(10)) is counter, "nor are older ones"


def test_where_nobody_measured_for_long_another_counter_begins() -> None:
    first = advanced(advanced(None, rate(0)), rate(60))
    later = advanced(first, rate(60 + 181))
    assert (later.usec, later.epoch > first.epoch) == (0, True)
    assert advanced(first, rate(120)).epoch == first.epoch


def test_metrics_that_stopped_say_nothing_about_now() -> None:
    counter = advanced(None, rate(0))
    assert is_fresh(counter, NOON + timedelta(minutes=2))
    assert not is_fresh(counter, NOON + timedelta(minutes=2, seconds=1))
