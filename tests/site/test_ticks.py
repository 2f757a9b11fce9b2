"""One table of periodic work: every row can be called, and one worker at a time runs it."""

from datetime import timedelta

import pytest
from django.utils.module_loading import import_string

from accounts.leases import hold
from cluster import hints as cluster_hints
from gshare_site import ticks
from gshare_site.celery import app
from sessions_app import hints


def test_every_hint_that_is_sent_by_name_has_a_row() -> None:
    assert {hints.DRAIN, hints.RECONCILE, cluster_hints.DELIVER} <= {tick.name for tick in ticks.table()}


def test_every_row_names_something_that_can_be_called() -> None:
    assert all(callable(import_string(tick.call)) for tick in ticks.table())


def test_beat_sends_each_row_at_its_period_and_lets_it_expire_with_the_next() -> None:
    schedule = app.conf.beat_schedule
    assert set(schedule) == {tick.name for tick in ticks.table()}
    for tick in ticks.table():
        entry = schedule[tick.name]
        assert entry["task"] == tick.name
        assert tick.name in app.tasks, "hints are sent by the same name"
        assert entry["schedule"] == tick.period.total_seconds() == entry["options"]["expires"]


def _probe(function: str) -> ticks.Tick:
    return ticks.Tick("probe", f"{__name__}.{function}", timedelta(seconds=10))


calls: list[str] = []


def note() -> int:
    calls.append("ran")
    return 3


def fail() -> None:
    raise RuntimeError("a broken tick")


@pytest.mark.django_db(transaction=True)
def test_a_tick_runs_unless_another_worker_holds_it() -> None:
    probe = _probe("note")
    calls.clear()
    with hold("tick:probe", seconds=60) as turn:
        assert turn
        assert ticks.run(probe) is False
    assert calls == []
    assert ticks.run(probe) is True
    assert ticks.run(probe) is True
    assert calls == ["ran", "ran"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("tick", ticks.table(), ids=lambda tick: tick.name)
def test_every_tick_finds_nothing_to_do_in_an_empty_installation(tick: ticks.Tick) -> None:
    assert ticks.run(tick) is True


@pytest.mark.django_db(transaction=True)
def test_a_tick_that_fails_says_so_and_can_run_again_at_once() -> None:
    failed = ticks.TICK_RUNS.labels("probe", "failed")
    before = failed._value.get()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a broken tick"):
            ticks.run(_probe("fail"))
    assert failed._value.get() == before + 2
