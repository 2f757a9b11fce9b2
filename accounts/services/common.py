"""What the services of this room share: the actor's right on held rows, texts, and telling people."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.domain.rights import Target
from accounts.models import NAME_LENGTH, Group, Organisation, User
from accounts.permissions import Act, may, visible_groups, visible_organisations, visible_users
from accounts.standings import People, locked
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import live


def held_people(
    by: User | None, *, relied: Iterable[UUID] = (), change: Iterable[UUID] = (), seats: Iterable[UUID] = ()
) -> People:
    """The actor and the people of an act, held still (`standings.locked`)."""
    return locked(share=[by.pk if by else None, *relied], change=change, seats=seats)


def authorise(people: People, by: User | None, act: Act, target: Target) -> None:
    """Raises `forbidden` unless the actor, as he is now, may do this. The system may everything."""
    if by is None:
        return
    standing = people.standings.get(by.pk)
    if standing is None:
        raise DomainError("forbidden", _("This account does not exist any more."))
    may(standing, act, target).require()


def person_seen_by(by: User | None, user_id: UUID) -> None:
    """Raises `not_found` when the actor cannot know of this person."""
    rows = User.objects.all() if by is None else visible_users(by)
    if not rows.filter(pk=user_id).exists():
        raise not_found("user")


def group_seen_by(by: User | None, group_id: UUID) -> Group:
    """The group with its organisation. Raises `not_found` when the actor cannot know of it."""
    rows = Group.objects.all() if by is None else visible_groups(by)
    group = rows.select_related("organisation").filter(pk=group_id).first()
    if group is None:
        raise not_found("group")
    return group


def organisation_seen_by(by: User | None, organisation_id: UUID) -> Organisation:
    """The organisation. Raises `not_found` when the actor cannot know of it."""
    rows = Organisation.objects.all() if by is None else visible_organisations(by)
    organisation = rows.filter(pk=organisation_id).first()
    if organisation is None:
        raise not_found("organisation")
    return organisation


def checked_name(text: str) -> str:
    """A name without space around it. Raises `invalid`."""
    name = " ".join(text.split())
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise invalid("name", _("Give a name of 1 to %(most)s characters.") % {"most": NAME_LENGTH})
    return name


def rights_changed(user_id: UUID) -> None:
    """Once committed: the person's open sockets ask again at once what they may still see."""
    live.poke(f"rights:{user_id}")


def in_language_of(user: User) -> AbstractContextManager[None]:
    """Texts made in this block are in the reader's language."""
    return translation.override(user.language or settings.LANGUAGE_CODE)


def expires(at: datetime) -> datetime:
    """Until when an initial password that is made at `at` works."""
    until: datetime = at + settings.GSHARE.initial_password_ttl
    return until
