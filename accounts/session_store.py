"""Console sign-ins in the database, as Django keeps them, read by a statement that PostgreSQL has planned already.

Guarantees: Django's own behaviour; reading one, which every request does, costs a third (`bench admission`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from django.contrib.sessions.backends.db import SessionStore as DatabaseStore
from django.contrib.sessions.models import Session
from django.utils import timezone

from gshare_core.kit.rows import Prepared

_LIVE = Prepared(
    lambda key, now: Session.objects.filter(session_key=key, expire_date__gt=now),
    "sample",
    datetime(1970, 1, 1, tzinfo=UTC),
)


class SessionStore(DatabaseStore):
    """See the module."""

    def _get_session_from_db(self) -> Session | None:
        found = _LIVE.first(self.session_key, timezone.now()) if self.session_key else None
        if found is None:
            self._session_key: str | None = None
        return found
