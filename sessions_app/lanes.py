"""How the lines go, by offering: who waits now, how long sessions waited lately, how many waited in the course of a day.

Guarantees: read from runs (admitted at, placed at), so it is there without anything that would have to be kept up; two
statements over an index of the last days, whatever the number of lines. Only sums: nothing says who waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

LATELY = timedelta(days=7)
DAY = timedelta(hours=24)
STEP = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Line:
    """An offering's line. `longest` and `median` are of the last 7 days; None where nobody was placed."""

    waiting: int = 0
    first_since: datetime | None = None
    last_estimate_at: datetime | None = None
    unknown: bool = False
    median: timedelta | None = None
    longest: timedelta | None = None


_LINES = """
    WITH now_waiting AS (
        SELECT s.offering_id, count(*) AS waiting, min(q.enqueued_at) AS since, max(q.estimate_at) AS estimate,
               bool_or(q.estimate_at IS NULL) AS unknown
        FROM sessions_app_queueentry q JOIN sessions_app_session s ON s.id = q.session_id
        GROUP BY s.offering_id
    ), waited AS (
        SELECT s.offering_id,
               percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM r.placed_at - r.opened_at)) AS median,
               max(extract(epoch FROM r.placed_at - r.opened_at)) AS longest
        FROM sessions_app_run r JOIN sessions_app_session s ON s.id = r.session_id
        WHERE r.opened_at > %s AND r.placed_at IS NOT NULL AND s.offering_id IS NOT NULL
        GROUP BY s.offering_id
    )
    SELECT offering_id, coalesce(waiting, 0), since, estimate, coalesce(unknown, false), median, longest
    FROM now_waiting FULL JOIN waited USING (offering_id)
"""


def lines(at: datetime) -> dict[UUID, Line]:
    """By offering; those where nobody waits or was placed lately are left out. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(_LINES, [at - LATELY])
        return {
            row[0]: Line(row[1], row[2], row[3], row[4], _span(row[5]), _span(row[6]))
            for row in cursor.fetchall()
            if row[0] is not None
        }


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=int(seconds))


# Who came into a line and who left it, by step; whoever waited already when the day began came in its first moment.
_STEPS = """
    WITH waits AS (
        SELECT s.offering_id, greatest(r.opened_at, %(start)s) AS came,
               coalesce(r.placed_at, r.closed_at) AS went
        FROM sessions_app_run r JOIN sessions_app_session s ON s.id = r.session_id
        WHERE r.opened_at > %(oldest)s AND r.opened_at <= %(at)s AND s.offering_id IS NOT NULL
          AND coalesce(r.placed_at, r.closed_at, 'infinity') > greatest(r.opened_at, %(start)s)
    )
    SELECT offering_id, ceil(extract(epoch FROM moment - %(start)s) / %(step)s)::int, sum(change)
    FROM (
        SELECT offering_id, came AS moment, 1 AS change FROM waits
        UNION ALL
        SELECT offering_id, went, -1 FROM waits WHERE went <= %(at)s
    ) moves
    GROUP BY 1, 2
"""


def curves(at: datetime) -> Mapping[UUID, list[tuple[datetime, int]]]:
    """By offering: how many waited at each half hour of the last 24. Waits that began a week ago are left out. One statement."""
    start, steps = at - DAY, DAY // STEP
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"at": at, "start": start, "oldest": at - LATELY, "step": STEP.total_seconds()}
        cursor.execute(_STEPS, values)
        moves: dict[UUID, dict[int, int]] = {}
        for offering, step, change in cursor.fetchall():
            moves.setdefault(offering, {})[step] = int(change)
    found: dict[UUID, list[tuple[datetime, int]]] = {}
    for offering, changes in moves.items():
        waiting, points = 0, []
        for step in range(steps + 1):
            waiting += changes.get(step, 0)
            points.append((start + step * STEP, waiting))
        found[offering] = points
    return found
