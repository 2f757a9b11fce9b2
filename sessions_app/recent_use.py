"""How much card time people and groups used lately: what puts heavy users behind others in line.

Guarantees: counts of a scope grow by the card hours that its runs worked since they were last taken in and halve with
every half-life; taking in twice, late or from two workers counts nothing twice, since the rows are locked and say as of
when they are. `rebuild` makes them from the runs of the last half-lives alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q

from gshare_core.kit import clock
from sessions_app.domain.queue import Fairness, decayed, penalty, use_between
from sessions_app.models import RecentUse, Run

# Uses older than so many half-lives count less than a 250th, and are left out.
_HALF_LIVES = 8


def penalty_of(user_id: UUID, group_id: UUID, *, at: datetime) -> timedelta:
    """How much later somebody stands in line for what he and his group used. One statement."""
    rows = RecentUse.objects.filter(pk__in=(f"user:{user_id}", f"group:{group_id}"))
    fairness = _fairness()
    hours = {row.scope: decayed(row.hours, max(at - row.as_of, timedelta(0)), fairness.half_life) for row in rows}
    return penalty(hours.get(f"user:{user_id}", 0.0), hours.get(f"group:{group_id}", 0.0), fairness)


def refresh() -> int:
    """Take in what was used since the last time and move those in line accordingly; answers how many moved. A tick."""
    with transaction.atomic():
        known = {row.scope: row for row in RecentUse.objects.order_by("scope").select_for_update(no_key=True)}
        at = clock.now()
        since = min((row.as_of for row in known.values()), default=None)
        _write(known, _used(since, at), at)
    return _move(at)


def rebuild() -> int:
    """Make every count anew from the runs; answers how many scopes have one."""
    with transaction.atomic():
        list(RecentUse.objects.order_by("scope").select_for_update())
        at = clock.now()
        RecentUse.objects.all().delete()
        _write({}, _used(None, at), at)
    _move(at)
    return RecentUse.objects.count()


def _used(since: datetime | None, at: datetime) -> dict[str, float]:
    """Card hours by scope that runs worked in (since, at], as they count at `at`."""
    half_life = settings.GSHARE.use_half_life
    start = since or at - _HALF_LIVES * half_life
    runs = Run.objects.filter(Q(closed_at=None) | Q(closed_at__gt=start), ready_at__lt=at, session__cards__gte=1)
    columns = ("ready_at", "end_asked_at", "closed_at", "last_alive_at")
    share = (F("session__occupancy_numerator"), F("session__occupancy_denominator"))
    found: dict[str, float] = defaultdict(float)
    for owner, group, ready, asked, closed, alive, numerator, denominator in runs.values_list(
        "session__owner_id", "session__group_id", *columns, *share
    ).iterator(chunk_size=2000):
        end = min(moment for moment in (at, asked, closed and (alive or closed)) if moment is not None)
        hours = use_between(max(ready, start), end, at, half_life) * numerator / denominator
        if hours > 0:
            found[f"user:{owner}"] += hours
            found[f"group:{group}"] += hours
    return found


def _write(known: dict[str, RecentUse], used: dict[str, float], at: datetime) -> None:
    half_life = settings.GSHARE.use_half_life
    for row in known.values():
        row.hours = decayed(row.hours, max(at - row.as_of, timedelta(0)), half_life) + used.get(row.scope, 0.0)
        row.as_of = at
    RecentUse.objects.bulk_update(known.values(), ["hours", "as_of"], batch_size=1000)
    new = [RecentUse(scope=scope, hours=hours, as_of=at) for scope, hours in used.items() if scope not in known]
    RecentUse.objects.bulk_create(new, batch_size=1000, ignore_conflicts=True)


_MOVE = """
    UPDATE sessions_app_queueentry q SET order_at = q.enqueued_at + p.late
    FROM (
        SELECT e.session_id, late.late
        FROM sessions_app_queueentry e
        JOIN sessions_app_session s ON s.id = e.session_id
        JOIN unnest(%s::uuid[], %s::uuid[], %s::interval[]) AS late (owner_id, group_id, late)
          ON late.owner_id = s.owner_id AND late.group_id = s.group_id
        WHERE e.order_at <> e.enqueued_at + late.late
        ORDER BY e.session_id
        FOR NO KEY UPDATE OF e
    ) p
    WHERE q.session_id = p.session_id
"""


def _move(at: datetime) -> int:
    """Put those in line where their use puts them now; whoever has a new place is moved, the others are left alone."""
    pairs = _waiting_pairs()
    late = penalties(pairs, at=at)
    owners, groups = [owner for owner, _ in pairs], [group for _, group in pairs]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_MOVE, [owners, groups, [late[pair] for pair in pairs]])
        return cursor.rowcount


def penalties(pairs: Iterable[tuple[UUID, UUID]], *, at: datetime) -> dict[tuple[UUID, UUID], timedelta]:
    """The penalty of each (user, group). One statement."""
    fairness = _fairness()
    hours = {
        row.scope: decayed(row.hours, max(at - row.as_of, timedelta(0)), fairness.half_life)
        for row in RecentUse.objects.all()
    }
    return {
        (user, group): penalty(hours.get(f"user:{user}", 0.0), hours.get(f"group:{group}", 0.0), fairness)
        for user, group in pairs
    }


def _waiting_pairs() -> list[tuple[UUID, UUID]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT s.owner_id, s.group_id FROM sessions_app_queueentry q"
            " JOIN sessions_app_session s ON s.id = q.session_id"
        )
        return [(owner, group) for owner, group in cursor.fetchall()]


def _fairness() -> Fairness:
    conf = settings.GSHARE
    return Fairness(conf.use_half_life, conf.use_penalty_own, conf.use_penalty_group, conf.use_penalty_max)
