"""Several changes of one person at once: all of them or none."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from accounts.models import User
from accounts.services.common import held_people, person_seen_by
from accounts.services.people import (
    change_email,
    deactivate_user,
    move_home,
    other_super_admins,
    reactivate_user,
    rename_user,
    set_super_admin,
)
from gshare_core.kit.locks import ordered


@dataclass(frozen=True, slots=True)
class UserChanges:
    """What changes; None stays as it is."""

    email: str | None = None
    name: str | None = None
    organisation_id: UUID | None = None
    super_admin: bool | None = None
    is_active: bool | None = None
    reason: str = ""


def change_user(*, user_id: UUID, changes: UserChanges, by: User | None) -> None:
    """Make the changes, each with its own right and audit entry. Raises what they raise.

    Everybody whom any of them holds is held first, since locks are taken in one order.
    """
    person_seen_by(by, user_id)
    with ordered():
        held_people(by, change=[user_id, *other_super_admins(user_id)])
        if changes.super_admin is not None:
            set_super_admin(user_id=user_id, value=changes.super_admin, by=by)
        if changes.is_active is True:
            reactivate_user(user_id=user_id, by=by)
        if changes.email is not None:
            change_email(user_id=user_id, email=changes.email, by=by)
        if changes.name is not None:
            rename_user(user_id=user_id, name=changes.name, by=by)
        if changes.organisation_id is not None:
            move_home(user_id=user_id, organisation_id=changes.organisation_id, by=by)
        if changes.is_active is False:
            deactivate_user(user_id=user_id, by=by, reason=changes.reason)
