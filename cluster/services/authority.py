"""Who may act on the metal: the actor is held still, then the matrix is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accounts.domain.rights import EVERYTHING, Standing, Target
from accounts.permissions import Act, may
from accounts.standings import locked

if TYPE_CHECKING:
    from accounts.models import User


def authorise(by: User | None, act: Act, target: Target = EVERYTHING) -> Standing | None:
    """Lock the actor and his memberships `FOR SHARE` and require the right; None is the system, which may everything.

    The first lock of a service. Raises DomainError `forbidden`.
    """
    if by is None:
        return None
    standing = held_standing(by)
    may(standing, act, target).require()
    return standing


def held_standing(by: User) -> Standing:
    """The actor's standing, which nobody can change until the transaction ends."""
    return locked(share=[by.pk]).standings.get(by.pk) or Standing(by.pk, active=False)
