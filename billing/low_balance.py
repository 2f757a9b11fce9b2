"""Who is told that his credits run out soon, with the time that is left.

Guarantees: told once when what is free and held lasts for less than `GSHARE_LOW_BALANCE` at what runs, and again only after it
lasted longer, or nothing ran, in between; the notice commits with the tick that saw it.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection
from django.utils.translation import gettext as _

from accounts import notices
from accounts.services.common import in_language_of
from billing.models import Account, LowBalance
from gshare_core.kit.parameters import wide
from gshare_core.kit.rows import prepared
from gshare_core.money import display_credits

# For each wallet: what is left for its runs from `charged_until` on, what they cost an hour, and so until when it lasts.
# Only those that end soon. LATERAL, so that the open meters are found by their wallets whatever the planner knows of the tables.
_LASTS = """
    SELECT wallet.id, wallet.balance - wallet.held + runs.held, runs.hourly,
           ((wallet.balance - wallet.held + runs.held) * 3600 + runs.since) / runs.hourly
    FROM unnest(%(wallets)s::uuid[]) AS asked (id) JOIN billing_account wallet ON wallet.id = asked.id
    CROSS JOIN LATERAL (
        SELECT sum(meter.held) AS held, sum(price.hourly) AS hourly,
               sum(price.hourly * extract(epoch FROM meter.charged_until)) AS since
        FROM billing_meter meter
        CROSS JOIN LATERAL (SELECT meter.rate_micro_per_hour::numeric * meter.occupancy_numerator * meter.factor_milli
            / (meter.occupancy_denominator * 1000::numeric) AS hourly) price
        WHERE meter.wallet_id = asked.id AND meter.settled_at IS NULL AND meter.started_at IS NOT NULL
            AND meter.end_at IS NULL) runs
    WHERE ((wallet.balance - wallet.held + runs.held) * 3600 + runs.since) / runs.hourly < %(soon)s
"""
_FORGET_ALL_BUT = """
    DELETE FROM billing_lowbalance WHERE wallet_id = ANY(%(wallets)s::uuid[]) AND NOT wallet_id = ANY(%(low)s::uuid[])
"""
_FORGET = """
    DELETE FROM billing_lowbalance low WHERE NOT EXISTS (
        SELECT 1 FROM billing_meter WHERE wallet_id = low.wallet_id AND settled_at IS NULL AND started_at IS NOT NULL)
"""


def tell_of_low_wallets(wallet_ids: Collection[UUID], at: datetime) -> None:
    """Look at these (locked) wallets of running sessions; tell those whose credits end soon."""
    soon = int((at + settings.GSHARE.low_balance).timestamp())
    asked = {"wallets": list(wallet_ids), "soon": soon}
    with prepared() as cursor:
        cursor.execute(_LASTS, wide(asked))
        low = {
            key: (int(left), int(hourly), datetime.fromtimestamp(int(end), UTC))
            for key, left, hourly, end in cursor.fetchall()
        }
        cursor.execute(_FORGET_ALL_BUT, {"wallets": asked["wallets"], "low": list(low)})
    if not low:
        return
    told = set(LowBalance.objects.filter(wallet__in=list(low)).values_list("wallet_id", flat=True))
    for wallet in Account.objects.filter(pk__in=set(low) - told, user__is_active=True).select_related("user"):
        LowBalance.objects.create(wallet=wallet, at=at)
        _tell(wallet, *low[wallet.pk], at)


def forget_idle() -> None:
    """Who runs nothing any more is told anew the next time."""
    with connection.cursor() as cursor:
        cursor.execute(_FORGET)


def _tell(wallet: Account, left: int, hourly: int, ends_at: datetime, at: datetime) -> None:
    assert wallet.user is not None
    zone = ZoneInfo(wallet.user.time_zone or settings.GSHARE.time_zone)
    minutes = max(0, (ends_at - at) // timedelta(minutes=1))
    with in_language_of(wallet.user):
        words = {
            "time": f"{ends_at.astimezone(zone):%H:%M}",
            "minutes": minutes,
            "left": display_credits(max(0, left)),
            "hourly": display_credits(hourly),
        }
        notices.notify(
            user_id=wallet.user.pk,
            kind="low_balance",
            title=_("Your credits last until %(time)s, %(minutes)d minutes more") % words,
            body=_("%(left)s cr are left for what runs, at %(hourly)s cr an hour. Then it is paused; its files stay.")
            % words,
            at=at,
            link="/wallet/",
        )
