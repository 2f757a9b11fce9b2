"""How long lanes are, while many join, leave, move, give up half way, and the tally is summed up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
from django.db import transaction
from django.utils import timezone

from sessions_app import line, queries
from sessions_app.models import LaneTally, QueueEntry, Session
from tests.apps.sessions.world import a_world, manual_clock
from tests.concurrency.rivals import together

pytestmark = pytest.mark.django_db(transaction=True)

LANES = ("one", "two", "three")


class _GaveUpError(Exception):
    """Rolls a transaction back."""


def _entries(sessions: list[Session], lane: str) -> list[QueueEntry]:
    now = timezone.now()
    return [QueueEntry(session=session, lane=lane, enqueued_at=now, order_at=now) for session in sessions]


def _busy(sessions: list[Session], seed: int) -> Callable[[], None]:
    """Somebody whose sessions join, leave and move between lanes, several at a time, every fourth time in vain."""
    rng = random.Random(seed)

    def act() -> None:
        for _turn in range(40):
            some = rng.sample(sessions, 3)
            with suppress(_GaveUpError), transaction.atomic():
                QueueEntry.objects.filter(session__in=some).delete()
                if rng.random() < 0.7:
                    QueueEntry.objects.bulk_create(_entries(some, rng.choice(LANES)))
                QueueEntry.objects.filter(session__in=rng.sample(sessions, 2)).update(lane=rng.choice(LANES))
                if rng.random() < 0.25:
                    raise _GaveUpError

    return act


def _summing_up() -> None:
    for _turn in range(60):
        line.sum_up()


def test_many_at_once_are_counted_exactly_and_what_is_rolled_back_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "_TALLIES", 2)
    world = a_world(manual_clock())
    seen = world.create("S")
    columns = {f.attname: getattr(seen, f.attname) for f in Session._meta.concrete_fields if f.attname != "id"}
    sessions = [Session(**columns | {"name": f"waits-{number}"}) for number in range(40)]
    Session.objects.bulk_create(sessions)

    answers = together(*(_busy(sessions[n * 10 : n * 10 + 10], n) for n in range(4)), _summing_up, _summing_up)

    assert answers == [None] * 6
    counted = Counter(QueueEntry.objects.values_list("lane", flat=True))
    tallies = Counter[str]()
    for lane, change in LaneTally.objects.values_list("lane", "change"):
        tallies[lane] += change
    assert +tallies == counted
    assert sum(counted.values()) > 0
    for lane in counted:
        ids = list(
            QueueEntry.objects.filter(lane=lane)
            .order_by("-priority", "order_at", "session_id")
            .values_list("pk", flat=True)
        )
        few = {key: place.position for key, place in queries.places(ids[-5:]).items()}
        assert few == {key: ids.index(key) + 1 for key in ids[-5:]}
    line.sum_up()
    assert LaneTally.objects.count() <= len(LANES) * 2


def test_two_who_put_a_tally_right_at_once_do_it_once() -> None:
    LaneTally.objects.create(lane="one", change=3)
    assert together(*[line.tally_anew] * 4) == [None] * 4
    assert sum(LaneTally.objects.filter(lane="one").values_list("change", flat=True)) == 0


def test_who_waits_in_a_lane_whose_tally_was_lost_is_still_shown() -> None:
    session = a_world(manual_clock()).create("S")
    QueueEntry.objects.bulk_create(_entries([session], "one"))
    LaneTally.objects.all().delete()
    assert session.pk in queries.places([session.pk])
