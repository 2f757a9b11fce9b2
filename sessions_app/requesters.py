"""Who asks: the requester as a member of a group, with the scopes that count and pay for him.

Guarantees: `who` is one statement; the rows that admission locks are there after `prepare`, in a transaction of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import transaction

from accounts import queries as accounts
from billing import services as billing
from sessions_app import counters
from sessions_app.domain.facts import (
    Requester,
)

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class Who:
    """The requester with his scopes."""

    user: User
    requester: Requester | None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The counters' scopes; empty for somebody who is no member."""
        if self.requester is None:
            return ()
        return counters.scopes_of(
            user=self.user.pk, group=self.requester.group, organisation=self.requester.organisation
        )

    @property
    def money_scopes(self) -> billing.Scopes | None:
        """Billing's scopes."""
        if self.requester is None:
            return None
        return billing.Scopes(
            user_id=self.user.pk, group_id=self.requester.group, organisation_id=self.requester.organisation
        )


def who(user: User, group: UUID) -> Who:
    """The requester as a member of the group, unlocked."""
    return who_of([(user, group)])[user.pk, group]


def who_of(asked: Collection[tuple[User, UUID]]) -> dict[tuple[UUID, UUID], Who]:
    """The same for several, by person and group. One statement."""
    known = accounts.requesters_facts([(user.pk, group) for user, group in asked]) if asked else {}
    return {(user.pk, group): Who(user, _requester(known.get((user.pk, group)))) for user, group in asked}


def _requester(facts: accounts.RequesterFacts | None) -> Requester | None:
    if facts is None:
        return None
    return Requester(
        user=facts.user_id,
        active=facts.active,
        group=facts.group_id,
        group_name=facts.group_name,
        organisation=facts.organisation_id,
        group_active=facts.group_active,
        role=facts.role,
    )


_PREPARED_MAX = 100_000
_prepared: dict[tuple[UUID, UUID], UUID] = {}  # person and group → their organisation


def prepare(person: Who) -> None:
    """Make the rows that admission locks but that may not be there yet, in a transaction of their own.

    They stay for ever, so this process asks for them once.
    """
    asks = person.requester
    if asks is None or person.money_scopes is None or _prepared.get((asks.user, asks.group)) == asks.organisation:
        return
    counters.prepare(person.scopes)
    billing.prepare(person.money_scopes)
    if transaction.get_connection().in_atomic_block:
        return  # they may be rolled back yet
    if len(_prepared) >= _PREPARED_MAX:
        forget()
    _prepared[asks.user, asks.group] = asks.organisation


def prepare_all(asked: Collection[tuple[User, UUID]]) -> None:
    """The same for several (person, group); asks nothing where all are prepared."""
    for person in who_of([(user, group) for user, group in asked if (user.pk, group) not in _prepared]).values():
        prepare(person)


def forget() -> None:
    """Ask for everybody's rows again: the database was replaced under this process."""
    _prepared.clear()
