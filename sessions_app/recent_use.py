"""How much card time people and groups used lately: what puts heavy users behind others in line.

Guarantees: counts of a scope grow by the card hours that its runs worked since they were last taken in and halve with
every half-life; taking in twice, late or from two workers counts nothing twice, since one locked row says up to when
everything is taken in. Only scopes that used something are written. `rebuild` makes the counts from the runs of the last
half-lives alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q

from gshare_core.kit import clock
from gshare_core.kit.rows import Each, Prepared
from sessions_app.domain.queue import Fairness, decayed, penalty, use_between
from sessions_app.models import RecentUse, Run

TAKEN = "taken"
"""The row that says up to when use is taken in; no scope is called so."""
_BEFORE_ALL = datetime(2000, 1, 1, tzinfo=UTC)
# Uses older than so many half-lives count less than a 250th, and are left out.
_HALF_LIVES = 8


def penalty_of(user_id: UUID, group_id: UUID, *, at: datetime) -> timedelta:
    """How much later somebody stands in line for what he and his group used. One statement."""
    pair = (user_id, group_id)
    return penalties([pair], at=at)[pair]


def hours_of(scope: str, *, at: datetime) -> float:
    """The card hours of a scope as they count at a moment; 0 for one that used nothing."""
    row = RecentUse.objects.filter(pk=scope).first()
    return _hours(row, at, settings.GSHARE.use_half_life) if row is not None else 0.0


def refresh() -> int:
    """Take in what was used since the last time and move those in line accordingly; answers how many moved. A tick."""
    with transaction.atomic():
        RecentUse.objects.bulk_create([RecentUse(scope=TAKEN, as_of=_BEFORE_ALL)], ignore_conflicts=True)
        mark = RecentUse.objects.select_for_update(no_key=True).get(pk=TAKEN)
        at = clock.now()
        _take_in(max(mark.as_of, at - _HALF_LIVES * settings.GSHARE.use_half_life), at)
        mark.as_of = at
        mark.save(update_fields=["as_of"])
    return _move(at)


def rebuild() -> int:
    """Make every count anew from the runs; answers how many scopes have one."""
    with transaction.atomic():
        list(RecentUse.objects.order_by("scope").select_for_update())
        RecentUse.objects.all().delete()
    refresh()
    return RecentUse.objects.exclude(pk=TAKEN).count()


def _take_in(since: datetime, at: datetime) -> None:
    """Add what was used in (since, at] to the scopes that used something; the others decay by being looked at."""
    used, half_life = _used(since, at), settings.GSHARE.use_half_life
    RecentUse.objects.bulk_create(
        [RecentUse(scope=scope, as_of=at) for scope in sorted(used)], batch_size=1000, ignore_conflicts=True
    )
    rows = list(RecentUse.objects.filter(pk__in=used).order_by("scope").select_for_update(no_key=True))
    for row in rows:
        row.hours = _hours(row, at, half_life) + used[row.scope]
        row.as_of = at
    RecentUse.objects.bulk_update(rows, ["hours", "as_of"], batch_size=1000)


def _hours(row: RecentUse, at: datetime, half_life: timedelta) -> float:
    """A scope's card hours as they count now."""
    return decayed(row.hours, max(at - row.as_of, timedelta(0)), half_life)


def _used(start: datetime, at: datetime) -> dict[str, float]:
    """Card hours by scope that runs worked in (start, at], as they count at `at`."""
    half_life = settings.GSHARE.use_half_life
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


_OF_SCOPES = Prepared(lambda scopes: RecentUse.objects.filter(pk__in=scopes), Each("a scope"))


def penalties(pairs: Iterable[tuple[UUID, UUID]], *, at: datetime) -> dict[tuple[UUID, UUID], timedelta]:
    """The penalty of each (user, group). One statement."""
    fairness, known = _fairness(), list(pairs)
    scopes = {scope for user, group in known for scope in (f"user:{user}", f"group:{group}")}
    rows = _OF_SCOPES(list(scopes))
    hours = {row.scope: _hours(row, at, fairness.half_life) for row in rows}
    return {
        (user, group): penalty(hours.get(f"user:{user}", 0.0), hours.get(f"group:{group}", 0.0), fairness)
        for user, group in known
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
