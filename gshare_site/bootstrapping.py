"""What an installation needs before anybody can use it: keys, limits, the first administrator.

Repeating it changes nothing: what is there stays as it is, passwords and numbers too. The system's wallet comes with billing's
migrations, empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings

from accounts.services import ensure_global_policy, ensure_super_admin
from cluster import keys
from gshare_core.kit import clock

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True)
class Bootstrapped:
    """The first administrator, and what was new."""

    administrator: User
    administrator_is_new: bool
    policy_is_new: bool
    signing_key_is_new: bool


def bootstrap(*, email: str, password: str) -> Bootstrapped:
    """Make what is missing. Raises DomainError (`invalid`, `conflict`) for the administrator's address or password."""
    signing_key = keys.ensure(settings.GSHARE.keys_path, at=clock.now())
    policy = ensure_global_policy()
    administrator, new = ensure_super_admin(email=email, password=password)
    return Bootstrapped(administrator, administrator_is_new=new, policy_is_new=policy, signing_key_is_new=signing_key)
