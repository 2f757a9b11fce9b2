"""The requester, held still while something is done in his name."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts.models import Membership, User
from gshare_core.kit import locks
from gshare_core.kit.rows import Prepared, sample

_PERSON = Prepared(lambda user: User.objects.filter(pk=user), sample(1), tail="FOR SHARE")
_SEAT = Prepared(
    lambda user, group: Membership.objects.filter(user_id=user, group_id=group).order_by("pk"),
    sample(1),
    sample(2),
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
    users = locks.lock_found(locks.Rank.REQUESTER, _PERSON, user_id)
    held = locks.lock_found(locks.Rank.MEMBERSHIP, _SEAT, user_id, group_id) if group_id else []
    return Requester(users[0] if users else None, held[0] if held else None)
