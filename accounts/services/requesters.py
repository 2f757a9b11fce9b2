"""The requester, held still while something is done in his name."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts.models import Membership, User
from gshare_core.kit import locks


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
    users = locks.share_rows(locks.Rank.REQUESTER, User.objects.filter(pk=user_id))
    seats = Membership.objects.filter(user_id=user_id, group_id=group_id) if group_id else Membership.objects.none()
    held = locks.share_rows(locks.Rank.MEMBERSHIP, seats) if group_id else []
    return Requester(users[0] if users else None, held[0] if held else None)
