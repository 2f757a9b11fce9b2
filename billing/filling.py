"""The ordinary meter of a tick, in one statement for all of a batch: its hold is filled up again and its charge is posted.

A meter is ordinary when less than half of its hold remains, its wallet and every blocking budget have enough for all that
the batch asks of them, and no boundary of a budget's period lies in what is charged. Since everybody is filled wholly then,
the order does not matter, and the rows come out exactly as `Books` would write them one by one.
Guarantees: the same whole micro-credits and microseconds as `billing.domain.metering` (a property test compares them), in
`numeric`; what is not ordinary is left alone and named in the answer. Budgets are the open books' to write.
Refuses: meters, budgets and wallets that are not locked.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """A locked running meter: as much of it as says which rows have to be locked for it."""

    run_id: UUID
    reference: UUID
    wallet_id: UUID
    scopes: Scopes
    counted_by: Sequence[UUID]
    charged_until: datetime


@dataclass(frozen=True, slots=True)
class Filled:
    """What the statement did, which runs it left alone, and whose wallets were short before and are not any more."""

    result: TickResult
    left: Sequence[UUID]
    relieved: Sequence[UUID]


# Stage by stage as in `domain.metering`; `%(at)s` is now. The price is numerator / denominator micro-credits a microsecond.
_FILL = f"""
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(runs)s::uuid[], %(ids)s::uuid[], %(edges)s::timestamptz[])
    WITH ORDINALITY AS given (run_id, id, edge, place)
), reading AS MATERIALIZED (  -- what is left of the hold if the run lives on, and until when it is known to have lived
    SELECT given.*, meter.reference, meter.label, meter.wallet_id, meter.user_id, meter.counted_by, meter.short,
        meter.held, meter.charged, meter.target, meter.closed_us, meter.started_at, meter.charged_until,
        price.numerator, price.denominator,
        greatest(least(%(at)s, coalesce(meter.proven_until, meter.started_at)), meter.charged_until) AS until,
        meter.held::numeric + meter.charged - div(price.numerator * (meter.closed_us
            + greatest(0, extract(epoch FROM %(at)s - meter.started_at) * 1000000)), price.denominator) AS remaining
    FROM given JOIN billing_meter meter ON meter.run_id = given.run_id
    CROSS JOIN LATERAL (SELECT
        meter.rate_micro_per_hour::numeric * meter.occupancy_numerator * meter.factor_milli AS numerator,
        meter.occupancy_denominator::numeric * {FULL_PRICE_MILLI * MICROSECONDS_PER_HOUR} AS denominator) price
), wanting AS MATERIALIZED (
    SELECT *, target - remaining AS lack, charged::numeric + held + target - remaining AS paid FROM reading
    WHERE 2 * remaining < target
), poor AS MATERIALIZED (  -- wallets that have not enough for all
    SELECT wallet_id FROM wanting JOIN billing_account wallet ON wallet.id = wallet_id
    GROUP BY wallet_id, wallet.balance, wallet.held HAVING sum(lack) > wallet.balance - wallet.held
), tight AS MATERIALIZED (  -- blocking budgets that leave not enough for all
    SELECT coalesce(array_agg(id), '{{}}') AS budgets FROM (
        SELECT room.id FROM wanting, unnest(counted_by) AS counting (id)
        JOIN unnest(%(budgets)s::uuid[], %(rooms)s::numeric[]) AS room (id, amount) USING (id)
        GROUP BY room.id, room.amount HAVING sum(lack) > room.amount) AS found
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
    (SELECT array_agg(run_id) FROM given WHERE run_id NOT IN (SELECT run_id FROM charge)),
    (SELECT array_agg(DISTINCT user_id) FROM charge WHERE short <> ''),
    (SELECT array_agg(budget ORDER BY budget) FROM counted),
    (SELECT array_agg(held ORDER BY budget) FROM counted),
    (SELECT array_agg(spent ORDER BY budget) FROM counted)
"""  # noqa: S608 -- no outside text


def fill(due: Sequence[Due], books: Books) -> Filled:
    """Fill and charge the ordinary ones of these meters, in their order within a wallet; the others are left to the caller."""
    edges: list[datetime | None] = []
    for meter in due:
        stretch = books.stretch(meter.scopes)
        begun = stretch.since is None or stretch.since <= meter.charged_until
        if not begun or meter.charged_until > books.at or set(meter.counted_by) != stretch.counting:
            return Filled(TickResult(), [one.run_id for one in due], ())  # it may take what the others count on
        edges.append(stretch.until)
    if not locks.holds(locks.Rank.WALLET, {meter.wallet_id for meter in due}):
        raise RuntimeError("meters are filled under the locks of their wallets")
    rooms = books.rooms()
    with prepared() as cursor:
        cursor.execute(
            _FILL,
            {
                "at": books.at,
                "runs": [meter.run_id for meter in due],
                "ids": [uuid7() for _one in due],
                "edges": edges,
                "budgets": list(rooms),
                "rooms": list(rooms.values()),
            },
        )
        (done, posted, charged), left, relieved, *counted = cursor.fetchone()
    for key, held, spent in zip(*(column or () for column in counted), strict=True):
        books.count(key, held=held, spent=spent)
    return Filled(TickResult(0, posted, done, 0, charged), left or (), relieved or ())
