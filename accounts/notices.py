"""Notices: what a person should know, kept until he has read it, and a poke to the pages that are open.

Guarantees: a notice commits with the act that it tells of; only its owner sees it or marks it read.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from accounts.models import Notification, User
from gshare_core.errors import not_found
from gshare_core.kit import clock, live


def topic(user_id: UUID) -> str:
    """The live topic of a person's notices."""
    return f"notifications:{user_id}"


def notify(*, user_id: UUID, kind: str, title: str, body: str, at: datetime, link: str | None = None) -> Notification:
    """Tell somebody something, in the open transaction."""
    notice = Notification.objects.create(
        user_id=user_id, kind=kind, title=title[:200], body=body, link=link or "", at=at
    )
    live.poke(topic(user_id))
    return notice


def notices_of(user: User) -> QuerySet[Notification]:
    """A person's notices, newest first."""
    return Notification.objects.filter(user=user).order_by("-at", "-pk")


def unread_count(user: User) -> int:
    """How many of them he has not read."""
    return Notification.objects.filter(user=user, read_at=None).count()


def mark_read(*, notice_id: UUID, by: User) -> Notification:
    """Mark one of one's own notices read; once is enough. Raises `not_found`."""
    notice = Notification.objects.filter(user=by, pk=notice_id).first()
    if notice is None:
        raise not_found("notification")
    if notice.read_at is None:
        notice.read_at = clock.now()
        Notification.objects.filter(pk=notice.pk, read_at=None).update(read_at=notice.read_at)
        live.poke(topic(by.pk))
    return notice


def mark_all_read(*, by: User) -> int:
    """Mark all of one's own notices read; answers how many were not."""
    changed = Notification.objects.filter(user=by, read_at=None).update(read_at=clock.now())
    if changed:
        live.poke(topic(by.pk))
    return changed
