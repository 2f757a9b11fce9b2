"""What else people leave behind in the installation of `bench pages`: policies, grants, requests for credits, browsers, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from accounts.domain.policies import Kind
from accounts.models import Policy, PolicyValue, SignIn
from billing.models import CreditRequest, GrantRefill, MonthlyGrant
from gshare_site.benches.page_town import BIG_GROUP, MOST, ORG_ADMIN, SOMEBODY, Town, many
from sessions_app.models import Attempt, RecentUse

CREDITS = 1_000_000


def write_papers(town: Town) -> None:
    """All of it, in batches."""
    policies = [Policy(scope_kind="group", group=group, created_at=town.now) for group in town.groups]
    policies += [Policy(scope_kind="user", user=user, created_at=town.now) for user in town.users[:200]]
    many(policies)
    fields = ("max_sessions", "vram_mib", "cards")
    many(
        [
            PolicyValue(policy=policy, kind=Kind.PER_USER.value, field=name, value=MOST)
            for policy in policies
            for name in fields
        ]
    )
    of_group = town.wallets["group"]
    parents = {user.pk: of_group[town.group_of[user.pk].pk] for user in town.users}
    wallets = town.wallets["user"]
    year = town.now.year - 1
    grants = [
        MonthlyGrant(wallet_id=wallets[key], parent_id=parent, amount=100 * CREDITS, since=date(year, 1, 1))
        for key, parent in parents.items()
    ]
    many(grants)
    many(
        [
            GrantRefill(
                wallet_id=grant.wallet_id,
                parent_id=grant.parent_id,
                month=month,
                amount=grant.amount,
                moved=0,
                shortfall=0,
                at=town.now,
            )
            for grant in grants
            for month in _months(town.now.date())
        ]
    )
    asking = [user for user in town.users[:BIG_GROUP:3] if user is not town.users[ORG_ADMIN]]
    many(
        [
            CreditRequest(
                wallet_id=wallets[user.pk],
                parent_id=parents[user.pk],
                amount=50 * CREDITS,
                reason="for the paper",
                asked_by=user,
                asked_at=town.now,
            )
            for user in asking
        ]
    )
    organisation = town.wallets["organisation"]
    many(
        [
            CreditRequest(
                wallet_id=of_group[group.pk],
                parent_id=organisation[group.organisation_id],
                amount=500 * CREDITS,
                reason="for the course",
                asked_by=town.users[SOMEBODY],
                asked_at=town.now,
            )
            for group in town.groups[:200]
        ]
    )
    many(
        [
            SignIn(user=user, epoch=0, browser="Firefox", system="Linux", at=town.now - timedelta(days=n))
            for user in town.users
            for n in range(3)
        ]
    )
    many(
        [
            Attempt(
                user=user, at=town.now - timedelta(days=1), gate=4, code="limit_reached", detail="Too many sessions."
            )
            for user in town.users
        ]
    )
    many([RecentUse(scope=f"user:{user.pk}", hours=1.0, as_of=town.now) for user in town.users])
    many([RecentUse(scope=f"group:{group.pk}", hours=9.0, as_of=town.now) for group in town.groups])


def _months(today: date) -> Iterator[date]:
    """The first days of the last three months."""
    first = today.replace(day=1)
    for _number in range(3):
        yield first
        first = (first - timedelta(days=1)).replace(day=1)
