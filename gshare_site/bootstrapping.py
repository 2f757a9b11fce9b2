"""What an installation needs before anybody can use it: keys, limits, the system's wallet, the first administrator.

Repeating it changes nothing: what is there stays as it is, passwords and numbers too.
"""

from dataclasses import dataclass

from django.conf import settings

from accounts.services import ensure_global_policy, ensure_super_admin
from cluster import keys
from gshare_core.kit import clock


@dataclass(frozen=True)
class Bootstrapped:
    """What was new."""

    administrator: bool
    policy: bool
    signing_key: bool


def bootstrap(*, email: str, password: str) -> Bootstrapped:
    """Make what is missing. Raises DomainError (`invalid`, `conflict`) for the administrator's address or password."""
    signing_key = keys.ensure(settings.GSHARE.keys_path, at=clock.now())
    policy = ensure_global_policy()
    _, administrator = ensure_super_admin(email=email, password=password)
    return Bootstrapped(administrator=administrator, policy=policy, signing_key=signing_key)
