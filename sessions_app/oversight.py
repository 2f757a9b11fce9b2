"""Nouns for administrators: the sessions of a scope, what they do in numbers, and who waits. Reads only.

Guarantees: everything is of the reach that was given and of nothing else; each answer is one statement whatever the size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    F,
    Max,
    Min,
    OuterRef,
    Q,
    Subquery,
    Value,
    When,
    Window,
)
from django.db.models.functions import JSONObject

from accounts.permissions import Reach
from sessions_app import queries
from sessions_app.domain.lifecycle import State
from sessions_app.models import QueueEntry, Run, RunActivity, Session, SessionQuerySet, Usage

MOST_WAITING = 500


def sessions_of(reach: Reach) -> SessionQuerySet:
    """The sessions of the places somebody administers, with what a row shows of them."""
    return queries.rows().filter(queries.within(reach))


def live_states(reach: Reach) -> dict[str, int]:
    """How many live sessions there are in each state. One statement."""
    live = Session.objects.filter(queries.within(reach)).live().order_by()
    return dict(live.values_list("state").annotate(n=Count("id")))


def lost_by_cluster(reach: Reach) -> dict[UUID, int]:
    """How many sessions of the reach each cluster has lost. One statement; clusters without any are left out."""
    lost = Run.objects.filter(queries.within(reach, "session__"), closed_at=None, session__state=State.LOST)
    return dict(lost.filter(cluster__isnull=False).order_by().values_list("cluster").annotate(n=Count("id")))


def in_reach(reach: Reach, session_ids: Collection[UUID]) -> set[UUID]:
    """Which of these sessions are of the reach. One statement."""
    rows = Session.objects.filter(queries.within(reach), pk__in=list(session_ids))
    return set(rows.order_by().values_list("pk", flat=True))


@dataclass(frozen=True, slots=True)
class OnCards:
    """Sessions that hold parts of cards, and the GPU memory in MiB that their open runs were measured to use, by run."""

    sessions: Mapping[UUID, Session]
    measured_mib: Mapping[UUID, Fraction]


def on_cards(reach: Reach, session_ids: Collection[UUID], *, since: datetime) -> OnCards:
    """Of the sessions that hold parts of cards those of the reach; what was measured since then. One statement."""
    activity = RunActivity.objects.filter(run__session=OuterRef("pk"), run__closed_at=None, sampled_at__gte=since)
    seen = JSONObject(run="run_id", vram=F("memory__gpu__vram_mib"), at=F("memory__gpu_at"))
    rows = sessions_of(reach).filter(pk__in=list(session_ids)).annotate(seen=Subquery(activity.values(json=seen)[:1]))
    sessions: dict[UUID, Session] = {}
    measured: dict[UUID, Fraction] = {}
    for session in rows:
        sessions[session.pk] = session
        found: dict[str, Any] = session.seen or {}
        vram, at = found.get("vram"), found.get("at")
        if vram is not None and at is not None and datetime.fromisoformat(at) >= since:
            measured[UUID(found["run"])] = Fraction(vram).limit_denominator(1_000_000)
    return OnCards(sessions, measured)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waits, and since when the longest does; `count` of all, `rows` of the first."""

    rows: tuple[QueueEntry, ...]
    count: int
    first_since: datetime | None


def waiting(reach: Reach, limit: int = MOST_WAITING, *, longest_first: bool = False) -> Waiting:
    """The waiting sessions of the reach: lane by lane, each in its own order, or who waits longest first. One statement."""
    order = ("enqueued_at", "session_id") if longest_first else ("lane", "-priority", "order_at", "session_id")
    entries = (
        QueueEntry.objects.filter(queries.within(reach, "session__"))
        .select_related(*(f"session__{name}" for name in queries.SHOWN))
        .annotate(in_all=Window(Count("session_id")), since=Window(Min("enqueued_at")))
        .order_by(*order)
    )
    rows = tuple(entries[:limit])
    return Waiting(rows, rows[0].in_all if rows else 0, rows[0].since if rows else None)


def people_above(place: str, bounds: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """How many people use more than these numbers in a place (`group:<id>`; empty: all their use), and the most one uses.

    By field; fields that nobody uses are left out. One statement, over the counters: for a what-if, not for a live page.
    """
    if not bounds:
        return {}
    rows = Usage.objects.filter(scope__startswith="user:", field__in=list(bounds), used__gt=0)
    rows = rows.filter(scope__endswith=f"@{place}") if place else rows.exclude(scope__contains="@")
    cases = (When(field=field, then=Value(bound)) for field, bound in bounds.items())
    over = Case(*cases, output_field=BigIntegerField())
    found = rows.order_by().values("field").annotate(most=Max("used"), above=Count("id", filter=Q(used__gt=over)))
    return {row["field"]: (row["above"], row["most"]) for row in found}
