"""Intents: what was taken away here is ended above, by a sweep that reads these rows.

Guarantees: per subject at most one intent is open; it closes only on a pass that began `GSHARE_INTENT_SETTLE` or more
after the change and found nothing, since a transaction that began before the change may still commit something to end.
Giving back what was taken away closes it too.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from accounts.models import DrainIntent
from gshare_core.kit import wake

REASON = "access_revoked"


def open_drain(
    kind: DrainIntent.Kind,
    *,
    at: datetime,
    user_id: UUID | None = None,
    group_id: UUID | None = None,
    organisation_id: UUID | None = None,
) -> None:
    """Ask the sweep above to end what this subject still has; the subject's lock is held."""
    subject = _open(kind, user_id, group_id, organisation_id)
    if not subject.update(changed_at=at):
        DrainIntent.objects.create(
            kind=kind,
            user_id=user_id,
            group_id=group_id,
            organisation_id=organisation_id,
            reason=REASON,
            changed_at=at,
        )
    wake.after_commit(wake.DRAIN_INTENTS)


def forget_drain(
    kind: DrainIntent.Kind,
    *,
    at: datetime,
    user_id: UUID | None = None,
    group_id: UUID | None = None,
    organisation_id: UUID | None = None,
) -> None:
    """The subject may have its things again: nothing more is ended."""
    _open(kind, user_id, group_id, organisation_id).update(closed_at=at)


def close_drain(intent_id: UUID, *, pass_began_at: datetime) -> bool:
    """Close an intent for which a pass found nothing; False while it is too young."""
    settled = pass_began_at - settings.GSHARE.intent_settle
    rows = DrainIntent.objects.filter(pk=intent_id, closed_at=None, changed_at__lte=settled)
    return rows.update(closed_at=pass_began_at) == 1


def _open(
    kind: DrainIntent.Kind, user_id: UUID | None, group_id: UUID | None, organisation_id: UUID | None
) -> QuerySet[DrainIntent]:
    subject: dict[str, UUID | None] = {"user": user_id, "group": group_id, "organisation": organisation_id}
    return DrainIntent.objects.filter(kind=kind, closed_at=None, **subject)
