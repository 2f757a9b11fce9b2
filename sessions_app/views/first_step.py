"""The first step for somebody who has no session yet."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _

from gshare_core.kit import wording
from gshare_core.money import display_credits
from sessions_app.overview import Offer


def first_step(offers: Iterable[Offer]) -> str:
    """What the cheapest session with a GPU costs."""
    priced = [(tier.hourly, offer.row.name, tier) for offer in offers for tier in offer.tiers if tier.hourly]
    if not priced:
        return _("Choose a size without a GPU, or ask an administrator for an offering.")
    hourly, name, tier = min(priced, key=lambda entry: entry[0])
    return _("Choose a size and a GPU. %(share)s of a %(gpu)s costs %(amount)s cr an hour.") % {
        "share": wording.fraction(tier.shape.occupancy),
        "gpu": name,
        "amount": display_credits(hourly),
    }
