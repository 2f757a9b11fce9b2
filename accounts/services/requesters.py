"""The requester, held still while something is done in his name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from accounts.models import Membership, User
from gshare_core.kit import locks
from gshare_core.kit.rows import Each, Prepared, sample

_PEOPLE = Prepared(lambda users: User.objects.filter(pk__in=users).order_by("pk"), Each(sample(1)), tail="FOR SHARE")
_SEATS = Prepared(
    lambda users, groups: Membership.objects.filter(user_id__in=users, group_id__in=groups).order_by("pk"),
    Each(sample(1)),
    Each(sample(2)),
    tail="FOR SHARE",
)


@dataclass(frozen=True)
class Requester:
    """Rows as they are while the transaction lasts; None where there is none."""

    user: User | None
    membership: Membership | None


def lock_requester(user_id: UUID, group_id: UUID | None) -> Requester:
    """Hold a person and his seat in the group `FOR SHARE`; inside `locks.ordered()`, before any other lock.

    Removing the seat or deactivating the person waits for this transaction and then sees what it made; when either came
    first, this waits and finds the row gone or the person inactive. Judges nothing: that is gate 1's.
    """
    return lock_requesters([(user_id, group_id)])[user_id, group_id]


def lock_requesters(pairs: Collection[tuple[UUID, UUID | None]]) -> dict[tuple[UUID, UUID | None], Requester]:
    """The same for several (person, group), in two statements whatever their number."""
    users = {row.pk: row for row in locks.lock_found(locks.Rank.REQUESTER, _PEOPLE, [user for user, _group in pairs])}
    groups = [group for _user, group in pairs if group is not None]
    people = [user for user, group in pairs if group is not None]
    found = locks.lock_found(locks.Rank.MEMBERSHIP, _SEATS, people, groups) if groups else []
    seats = {(row.user_id, row.group_id): row for row in found}
    return {pair: Requester(users.get(pair[0]), seats.get(pair)) for pair in pairs}
