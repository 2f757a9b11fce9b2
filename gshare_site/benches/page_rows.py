"""Rows for `bench pages`: an installation of a year's use, whose books, counters, line and metal agree.

Acts of `gshare_site.benches.act`. Guarantees: what is filled in is what the services would have written one by one, which
would take hours, and is checked by the same trial balance and recount.
"""

from __future__ import annotations

import json
from typing import Any

from accounts.models import Membership
from billing.models import Account, CreditRequest
from billing.trial import differences
from cluster.models import PoolGrant, Volume
from gshare_core.money import display_credits
from gshare_site.benches import page_journal, scratch
from gshare_site.benches.page_papers import write_papers
from gshare_site.benches.page_sessions import Made, make_sessions, make_volumes
from gshare_site.benches.page_town import (
    GROUP_ADMIN,
    ORG_ADMIN,
    SOMEBODY,
    STRANGER,
    SUPER_ADMIN,
    Metal,
    Town,
    make_metal,
    make_shelf,
    make_town,
)
from sessions_app import recounting

PERSONAS = {"user": SOMEBODY, "group_admin": GROUP_ADMIN, "org_admin": ORG_ADMIN, "super_admin": SUPER_ADMIN}


def fill(sizes: str) -> dict[str, Any]:
    """Everything; `sizes` is JSON (sessions, users, groups, cards, entries, audit). Answers what a client has to know."""
    asked = json.loads(sizes)
    town, shelf = make_town(asked["users"], asked["groups"]), make_shelf()
    metal = make_metal(asked["cards"], shelf, town)
    made = make_sessions(asked["sessions"], max(1, asked["entries"] // asked["sessions"]), town, shelf, metal)
    make_volumes(town, metal, made)
    write_papers(town)
    page_journal.write_journal(heavy=town.users[SOMEBODY].pk, analyse=scratch.analyse)
    page_journal.write_trail(asked["audit"], sessions=asked["sessions"])
    recounting.repair()
    scratch.analyse()
    return _known(town, metal, made)


def check() -> dict[str, Any]:
    """Whether books, counters and line agree."""
    found = [str(difference) for difference in (*differences(), *recounting.differences())]
    return {"differences": found[:20]}


def _known(town: Town, metal: Metal, made: list[Made]) -> dict[str, Any]:
    """What addresses name, and the truth that pages are compared with."""
    heavy, stranger, group = town.users[SOMEBODY], town.users[STRANGER], town.groups[0]
    theirs = [one.session for one in made if one.session.owner_id == heavy.pk]
    by_state = {session.state: session.pk for session in reversed(theirs)}
    wallet = Account.objects.get(user=heavy)
    node = next(iter(metal.nodes.values()))
    volume = Volume.objects.filter(owner=town.users[11]).get()
    things = {
        "running": by_state["running"],
        "queued": by_state["queued"],
        "paused": by_state["paused"],
        "ended": by_state["stopped"],
        "user": heavy.pk,
        "administrator": town.users[ORG_ADMIN].pk,
        "group": group.pk,
        "organisation": group.organisation_id,
        "seat": Membership.objects.get(user=heavy).pk,
        "policy": group.policy.pk,
        "notice": heavy.notifications.earliest("pk").pk,
        "wallet": wallet.pk,
        "group_wallet": town.wallets["group"][group.pk],
        "organisation_wallet": town.wallets["organisation"][group.organisation_id],
        "request": CreditRequest.objects.earliest("pk").pk,
        "budget": town.budgets[heavy.pk].pk,
        "group_budget": town.budgets[group.pk].pk,
        "organisation_budget": town.budgets[group.organisation_id].pk,
        "offering": next(iter(metal.cards)),
        "cluster": node.cluster_id,
        "node": node.pk,
        "card": metal.claims[0].card_id,
        "pool": node.pool_id,
        "pool_grant": PoolGrant.objects.earliest("pk").pk,
        "volume": Volume.objects.filter(owner=heavy).earliest("pk").pk,
        "share": volume.shares.get().pk,
    }
    return {
        "people": {persona: town.users[number].email for persona, number in PERSONAS.items()},
        "things": {name: str(key) for name, key in things.items()},
        "foreign": str(next(one.session.pk for one in made if one.session.owner_id == stranger.pk)),
        "truth": {
            "balance": wallet.balance,
            "balance_text": display_credits(wallet.balance or 0),
            "held": wallet.held,
            "entries": wallet.entries,
            "sessions": len(theirs),
            "waiting": sum(one.session.state == "queued" for one in made),
        },
    }
