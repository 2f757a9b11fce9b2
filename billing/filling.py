"""The ordinary meter of a tick, in one statement for all of a batch: its hold is filled up again and its charge is posted.

A meter is ordinary when less than half of its hold remains, its wallet and every blocking budget have enough for all that
the batch asks of them, and no boundary of a budget's period lies in what is charged. Since everybody is filled wholly then,
the order does not matter, and the rows come out exactly as `Books` would write them one by one.
Guarantees: the same whole micro-credits and microseconds as `billing.domain.metering` (a property test compares them), in
`numeric`; what is not ordinary is left alone and named in the answer. Budgets are the open books' to write.
Refuses: meters, budgets and wallets that are not locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from billing import ledger
from billing.books import Books
from billing.domain.facts import Scopes, TickResult
from billing.domain.metering import HORIZON
from billing.domain.pricing import FULL_PRICE_MILLI
from gshare_core.ids import uuid7
from gshare_core.kit import locks
from gshare_core.kit.rows import prepared
from gshare_core.quantities import MICROSECONDS_PER_HOUR, microseconds


class Due(NamedTuple):
    """Somebody's due meters of one wallet which the same budgets count: what has to be locked for them.

    They are charged up to `charged_until` at least, up to `latest` at most; `runs` are their ids, the oldest session first.
    """

    scopes: Scopes
    wallet_id: UUID
    counted_by: Sequence[UUID]
    charged_until: datetime
    latest: datetime
    runs: str


@dataclass(frozen=True, slots=True)
class Filled:
    """What the statement did, which due runs it left alone, and whose wallets were short before and are not any more."""

    result: TickResult
    left: Sequence[UUID]
    relieved: Sequence[UUID]


# Each meter by its key, whatever the planner thinks of the other columns; ids as text, since nobody here looks into them.
_DUE = """
    SELECT user_id, group_id, organisation_id, wallet_id, counted_by, min(charged_until), max(charged_until),
        string_agg(run_id::text, ',' ORDER BY reference, run_id)
    FROM unnest(%s::text::uuid[]) AS given (id)
    CROSS JOIN LATERAL (SELECT * FROM billing_meter WHERE run_id = given.id OFFSET 0) AS meter
    WHERE due_at <= %s
    GROUP BY user_id, group_id, organisation_id, wallet_id, counted_by ORDER BY wallet_id
"""

# Stage by stage as in `domain.metering`; `%(at)s` is now. The price is numerator / denominator micro-credits a microsecond.
_FILL = f"""
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(runs)s::text::uuid[], %(ids)s::text::uuid[], %(edges)s::text::timestamptz[])
    WITH ORDINALITY AS given (run_id, id, edge, place)
), reading AS MATERIALIZED (  -- what is left of the hold if the run lives on, and until when it is known to have lived
    SELECT given.*, meter.reference, meter.label, meter.wallet_id, meter.user_id, meter.counted_by,
        meter.short, meter.held, meter.charged, meter.target, meter.closed_us, meter.started_at, meter.charged_until,
        price.numerator, price.denominator,
        greatest(least(%(at)s, coalesce(meter.proven_until, meter.started_at)), meter.charged_until) AS until,
        meter.held::numeric + meter.charged - div(price.numerator * (meter.closed_us
            + greatest(0, extract(epoch FROM %(at)s - meter.started_at) * 1000000)), price.denominator) AS remaining
    FROM given CROSS JOIN LATERAL (SELECT * FROM billing_meter WHERE run_id = given.run_id OFFSET 0) AS meter
    CROSS JOIN LATERAL (SELECT
        meter.rate_micro_per_hour::numeric * meter.occupancy_numerator * meter.factor_milli AS numerator,
        meter.occupancy_denominator::numeric * {FULL_PRICE_MILLI * MICROSECONDS_PER_HOUR} AS denominator) price
), wanting AS MATERIALIZED (
    SELECT *, target - remaining AS lack, charged::numeric + held + target - remaining AS paid FROM reading
    WHERE 2 * remaining < target
), poor AS MATERIALIZED (  -- wallets that have not enough for all
    SELECT wallet_id FROM wanting JOIN billing_account wallet ON wallet.id = wallet_id
    GROUP BY wallet_id, wallet.balance, wallet.held HAVING sum(lack) > wallet.balance - wallet.held
), asked AS MATERIALIZED (
    SELECT budget, sum(lack) AS amount FROM wanting, unnest(counted_by) AS counting (budget) GROUP BY budget
), tight AS MATERIALIZED (  -- blocking budgets that leave not enough for all
    SELECT coalesce(array_agg(budget), '{{}}') AS budgets
    FROM asked JOIN unnest(%(budgets)s::text::uuid[], %(rooms)s::numeric[]) AS room (id, amount) ON room.id = budget
    WHERE asked.amount > room.amount
), filled AS MATERIALIZED (  -- how far the full hold reaches (past now), and the first moment at which less than half remains
    SELECT *,
        started_at + least(greatest(0, div(paid * denominator, numerator) - closed_us), {microseconds(HORIZON)})::float8
            * interval '1 microsecond' AS reach,
        started_at + least(greatest(0, div((div(2 * paid - target, 2) + 1) * denominator + numerator - 1, numerator)
            - closed_us), {microseconds(HORIZON)})::float8 * interval '1 microsecond' AS low_from
    FROM wanting CROSS JOIN tight
    WHERE NOT counted_by && budgets AND wallet_id NOT IN (SELECT wallet_id FROM poor)
), charge AS MATERIALIZED (
    SELECT *, lack::bigint AS filling, CASE WHEN until > charged_until THEN div(numerator * (closed_us
        + greatest(0, extract(epoch FROM until - started_at) * 1000000)), denominator) - charged ELSE 0 END::bigint AS amount,
        {ledger.charge_key_sql("run_id", "charged_until")} AS key
    FROM filled
), {ledger.CHARGE}, posting AS (
    INSERT INTO billing_posting (transfer_id, meter_id, billed_from, billed_to)
    SELECT id, run_id, charged_until, until FROM charge WHERE amount <> 0
), meters AS (
    UPDATE billing_meter AS meter SET held = meter.held + filling - amount, charged = meter.charged + amount,
        charged_until = until, hold_ends_at = reach, due_at = least(low_from, edge), short = '', exhausted_at = NULL,
        warned_at = NULL
    FROM charge WHERE meter.run_id = charge.run_id
), counted AS MATERIALIZED (
    SELECT budget, sum(filling - amount)::bigint AS held, sum(amount)::bigint AS spent
    FROM charge, unnest(counted_by) AS counting (budget) GROUP BY budget
)
SELECT (SELECT array[count(*), count(*) FILTER (WHERE amount > 0), coalesce(sum(amount), 0)::bigint] FROM charge),
    (SELECT array_agg(run_id) FROM reading WHERE run_id NOT IN (SELECT run_id FROM charge)),
    (SELECT array_agg(DISTINCT user_id) FROM charge WHERE short <> ''),
    (SELECT array_agg(budget ORDER BY budget) FROM counted),
    (SELECT array_agg(held ORDER BY budget) FROM counted),
    (SELECT array_agg(spent ORDER BY budget) FROM counted)
"""  # noqa: S608 -- no outside text


def due_of(run_ids: Sequence[UUID], at: datetime) -> list[Due]:
    """Which of these locked meters of running sessions are due at `at`, put together, by wallet."""
    with prepared() as cursor:
        cursor.execute(_DUE, [_array(run_ids), at])
        return [Due(Scopes(*row[:3]), *row[3:]) for row in cursor.fetchall()]


def fill(due: Sequence[Due], books: Books) -> Filled:
    """Fill and charge the ordinary ones of these meters; the others are left to the caller."""
    if not locks.holds(locks.Rank.WALLET, {one.wallet_id for one in due}):
        raise RuntimeError("meters are filled under the locks of their wallets")
    runs = [one.runs.split(",") for one in due]
    if not all(_within_a_period(one, books) for one in due):  # these may take what the others count on
        return Filled(TickResult(), [UUID(run) for of_one in runs for run in of_one], ())
    edges = [str(books.stretch(one.scopes).until or "infinity") for one in due]
    rooms = books.rooms()
    with prepared() as cursor:
        cursor.execute(
            _FILL,
            {
                "at": books.at,
                "runs": _array(run for of_one in runs for run in of_one),
                "ids": _array(uuid7() for of_one in runs for _run in of_one),
                "edges": _array(edge for of_one, edge in zip(runs, edges, strict=True) for _run in of_one),
                "budgets": _array(rooms),
                "rooms": list(rooms.values()),
            },
        )
        (done, posted, charged), left, relieved, *counted = cursor.fetchone()
    for key, held, spent in zip(*(column or () for column in counted), strict=True):
        books.count(key, held=held, spent=spent)
    return Filled(TickResult(0, posted, done, 0, charged), left or (), relieved or ())


def _within_a_period(due: Due, books: Books) -> bool:
    """Whether the budgets that count the holds are those that count now, and no period of theirs began since the last charge."""
    stretch = books.stretch(due.scopes)
    begun = stretch.since is None or stretch.since <= due.charged_until
    return begun and due.latest <= books.at and set(due.counted_by) == stretch.counting


def _array(items: Iterable[object]) -> str:
    """Ids and times as PostgreSQL reads a whole array of them: many times faster than adapting one by one."""
    return "{" + ",".join(map(str, items)) + "}"
