"""Who a sign-in belongs to: Django's backend, its every-request read by a statement that PostgreSQL has planned already."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.backends import ModelBackend

from accounts.models import User
from gshare_core.kit.rows import Prepared, sample

_PERSON = Prepared(lambda key: User.objects.filter(pk=key), sample(1))


class AccountBackend(ModelBackend):
    """E-mail address and password; nobody who is deactivated."""

    def get_user(self, user_id: Any) -> User | None:
        """The person of a sign-in, if he may still use it."""
        user = _PERSON.first(user_id if isinstance(user_id, UUID) else UUID(str(user_id)))
        return user if user is not None and self.user_can_authenticate(user) else None
