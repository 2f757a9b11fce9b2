"""Which live topics feed what a page may follow, and whether this person may follow it.

What a page names is on the left, what services poke (`gshare_core.kit.live.poke`) on the right:

    session:<id>      session:<id>                                           who may see the session
    sessions, queue   <topic>:<user>, and for administrators
                      <topic>:organisation:<id> or <topic>:all               everybody, each his own
    wallet            wallet:<user>                                          everybody, his own
    notifications     notifications:<user>                                   everybody, his own
    fleet:<cluster>   fleet:<cluster>                                        administrators

`rights:<user>` is followed by every socket of that person and makes it ask again at once. Guarantees: the person's id comes
from the sign-in, never from the page; what does not exist and what may not be seen are refused with the same word.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user

from accounts import permissions
from accounts.domain.rights import Standing
from accounts.domain.roles import Role
from accounts.standings import standing_of
from sessions_app.queries import visible_sessions

if TYPE_CHECKING:
    from accounts.models import User

NOT_FOUND, INVALID = "not_found", "invalid"
LISTS = ("sessions", "queue")
OWN = ("wallet", "notifications")


@dataclass(frozen=True, slots=True)
class Person:
    """Who is at the page."""

    id: UUID
    user: User


@dataclass(frozen=True, slots=True)
class Followed:
    """The live topics that feed one of the page's, and the present version where there is one."""

    feeds: tuple[str, ...]
    version: int | None = None


def signed_in(session_key: str) -> Person | None:
    """The person of a console session, as Django would see him at the next request; None when nobody is signed in.

    Somebody who must change his password first follows nothing.
    """
    store = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(cast("object", SimpleNamespace(session=store)))  # type: ignore[arg-type]  # it reads the session only
    person = permissions.person_of(user)
    if person is None or person.must_change_password:
        return None
    return Person(person.pk, person)


def resolve(person: Person, topics: list[str]) -> dict[str, Followed | str]:
    """For each of the page's topics what feeds it, or why it is refused. Three queries, however many topics."""
    wanted = {topic: _identifier(topic) for topic in topics}
    sessions = [key for topic, key in wanted.items() if key is not None and topic.startswith("session:")]
    versions = (
        dict(visible_sessions(person.user).filter(pk__in=sessions).values_list("pk", "version")) if sessions else {}
    )
    standing = standing_of(person.id)
    return {topic: _answer(topic, key, versions, standing) for topic, key in wanted.items()}


def _answer(topic: str, key: UUID | None, versions: dict[UUID, int], standing: Standing) -> Followed | str:
    if topic in LISTS:
        return Followed((f"{topic}:{standing.user_id}", *_administered(topic, standing)))
    if topic in OWN:
        return Followed((f"{topic}:{standing.user_id}",))
    kind = topic.partition(":")[0]
    if key is None or kind not in ("session", "fleet"):
        return INVALID
    if kind == "session":
        return Followed((f"session:{key}",), versions[key]) if key in versions else NOT_FOUND
    return Followed((f"fleet:{key}",)) if standing.is_administrator else NOT_FOUND


def _administered(topic: str, standing: Standing) -> list[str]:
    """A group's administrator hears that something changed in his organisation, and re-fetches what he may see of it."""
    if standing.super_admin:
        return [f"{topic}:all"]
    places = {seat.organisation_id for seat in standing.seats if seat.role in (Role.GROUP_ADMIN, Role.ORG_ADMIN)}
    return [f"{topic}:organisation:{place}" for place in sorted(places)]


def _identifier(topic: str) -> UUID | None:
    """The canonical id that a topic names; None for every other spelling, so that a topic has one name."""
    text = topic.partition(":")[2]
    try:
        key = UUID(text)
    except ValueError:
        return None
    return key if str(key) == text else None
