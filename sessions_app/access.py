"""The way into a running session: one-time links, the cookie they turn into, and the question every request is asked.

Guarantees: a link is redeemed once (the database decides, whichever process asks), within its minute, on its own host;
what is kept of it is a hash. The cookie is signed, names session, run, person and host, and is believed only while the
rows agree: a session that stopped, another run, a lost right or a sign-out everywhere end it. An administrator who opens
somebody's session gives a reason, leaves a trace, is announced to the owner, and is out again after ten minutes.
Refuses: links into a session that is not running, or into an app that its image does not have.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.db import connection
from django.utils.translation import gettext as _

from accounts import audit, notices, permissions
from accounts import queries as people
from accounts.domain.rights import RequesterFacts, Target
from accounts.services.common import in_language_of
from accounts.standings import standing_of as standing_of_person
from accounts.standings import target_of_group
from cluster import tokens
from gshare_core.contract import app_token
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock, locks
from sessions_app.domain.access import (
    ACCESS_COOKIE,
    ENTER_PATH,
    Asked,
    Grant,
    Standing,
    Why,
    app_of,
    objection,
    trespass,
)
from sessions_app.domain.lifecycle import State
from sessions_app.models import AccessTicket, Run, Session
from sessions_app.queries import visible_sessions

if TYPE_CHECKING:
    from accounts.models import User

COOKIE_SALT = "gshare.access.cookie"
TOKEN_BYTES = 32
COOKIES_TRIED = 3
COOKIE_LENGTH_MAX = 1024


@dataclass(frozen=True, slots=True)
class Link:
    """A one-time link, and until when it works."""

    url: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Entered:
    """What a redeemed link gives: the cookie to set, and where the app is."""

    set_cookie: str
    location: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request at a session's door. `why` is None for yes; only then are the other fields filled."""

    why: Why | None
    app: str | None = None
    authorization: str | None = None
    set_cookie: str | None = None
    endpoint: str | None = None

    @property
    def status(self) -> int:
        """200, 401 or 403."""
        return 200 if self.why is None else self.why.status


def session_host(session_id: UUID) -> str:
    """The session's host, with the port where the public address has one."""
    return f"{session_id}.{settings.GSHARE.sessions_netloc}"


def mint(*, session_id: UUID, by: User, app: str, reason: str | None = None) -> Link:
    """A one-time link into `app` of the session.

    Raises not_found (also for somebody else's session), forbidden, reason_required, invalid (no such app) and
    invalid_transition (not running).
    """
    with locks.ordered():
        session = visible_sessions(by).filter(pk=session_id).first()
        if session is None:
            raise not_found("session")
        _authorise(session, by, reason)
        if app not in session.image.apps:
            raise invalid("app", f"This session serves {', '.join(session.image.apps)}.")
        if session.life is not State.RUNNING:
            raise DomainError(
                "invalid_transition",
                f"A session that is {session.state} cannot be opened.",
                remedy="Wait until it runs, or resume it.",
                facts={"state": session.state, "allowed": session.allowed},
            )
        now = clock.now()
        token = f"{secrets.token_urlsafe(TOKEN_BYTES)}.{by.sign_in_epoch}"
        host = session_host(session.pk)
        expires_at = now + settings.GSHARE.access_link_ttl
        AccessTicket.objects.create(
            token_hash=_hash(token),
            session=session,
            run_number=session.run_number,
            user=by,
            app=app,
            host=host,
            expires_at=expires_at,
        )
        if by.pk != session.owner_id:
            _leave_trace(session, by, app, reason or "", now)
    return Link(f"{settings.GSHARE.session_origin(str(session.pk))}{ENTER_PATH}?t={token}", expires_at)


def redeem(token: str, host: str) -> Entered | Why:
    """Turn a one-time link into an access cookie. A second use, a late one and one on another host are LINK_USED.

    The ticket is spent by one conditional UPDATE: of any number of rivals, in any number of processes, one finds it.
    """
    now = clock.now()
    ticket = AccessTicket.objects.filter(token_hash=_hash(token), host=host)
    if not ticket.filter(redeemed_at=None, expires_at__gt=now).update(redeemed_at=now):
        return Why.LINK_USED
    spent = ticket.select_related("session").get()
    at = int(now.timestamp())
    longest = settings.GSHARE.access_cookie_max
    if spent.user_id != spent.session.owner_id:
        longest = min(longest, settings.GSHARE.admin_open_ttl)
    grant = Grant(
        session=spent.session_id,
        user=spent.user_id,
        run=spent.run_number,
        host=host,
        epoch=_epoch_of(token),
        issued=at,
        renewed=at,
        until=at + int(longest.total_seconds()),
    )
    why = objection(grant, standing_of(grant))
    return why or Entered(cookie_header(grant, at), f"/{spent.app}/")


#: Written out, because every request to a running session asks it: building it from models costs more than answering it.
_STANDING = f"""
    SELECT session.state, session.run_number, session.owner_id, session.group_id, run.endpoints, run.cluster_id
    FROM {Session._meta.db_table} session
    JOIN {Run._meta.db_table} run ON run.session_id = session.id AND run.number = session.run_number
    WHERE session.id = %s
"""  # noqa: S608 -- the names are the models' own


def standing_of(grant: Grant) -> Standing | None:
    """What the rows say now about the grant's session and person; None when there is no such session."""
    with connection.cursor() as cursor:
        cursor.execute(_STANDING, [grant.session])
        row = cursor.fetchone()
    if row is None:
        return None
    state, run, owner, group, endpoints, cluster = row
    facts = people.requester_facts(grant.user, group)
    if facts is None:
        return None
    return Standing(
        state=state,
        run=run,
        active=facts.active,
        epoch=facts.sign_in_epoch,
        entitled=_is_member(facts) if owner == grant.user else _may_still_open(grant.user, owner, group),
        endpoints=json.loads(endpoints or "{}"),
        app_token=app_token(tokens.cluster_key(cluster), grant.session, run) if cluster else "",
    )


def verify(asked: Asked, *, now: int) -> Answer:
    """The one question of the embedded proxy and of an ingress: may this request pass, and what does the app need?

    Reads the rows each time; `sessions_app.doorkeeper` asks with a two-second memory.
    """
    grant = grant_in(asked, now=now)
    if isinstance(grant, Why):
        return Answer(grant)
    return answer_with(asked, grant, standing_of(grant), now=now)


def grant_in(asked: Asked, *, now: int) -> Grant | Why:
    """The grant that a request carries, or why it does not get as far as the rows."""
    why = trespass(asked, f"{settings.GSHARE.public_scheme}://{asked.host}") or Why.NO_COOKIE
    if why is not Why.NO_COOKIE:
        return why
    for value in asked.cookies[:COOKIES_TRIED]:
        grant = read_cookie(value)
        if grant is None:
            continue
        if grant.host != asked.host or grant.host != session_host(grant.session):
            why = Why.WRONG_HOST
        elif grant.is_expired(now, _ttl()):
            why = Why.EXPIRED
        else:
            return grant
    return why


def answer_with(asked: Asked, grant: Grant, standing: Standing | None, *, now: int) -> Answer:
    """The answer, given what the rows say."""
    why = objection(grant, standing)
    if why is not None or standing is None:
        return Answer(why or Why.RIGHT_LOST)
    app = app_of(asked.path)
    if app is None:
        return Answer(Why.NO_SUCH_APP)
    due = grant.is_due(now, _ttl()) and not asked.websocket
    return Answer(
        None,
        app=app,
        authorization=credential(app, standing.app_token),
        set_cookie=cookie_header(grant.again(now), now) if due else None,
        endpoint=standing.endpoints.get(app),
    )


def credential(app: str, token: str) -> str | None:
    """The Authorization header that an app demands: Jupyter's token, ttyd's basic credential, none for code-server."""
    if app == "lab":
        return f"token {token}"
    if app == "terminal":
        return "Basic " + base64.b64encode(f"gshare:{token}".encode()).decode("ascii")
    return None


def cookie_header(grant: Grant, now: int) -> str:
    """The Set-Cookie that carries the grant."""
    lifetime = grant.lifetime(now, _ttl())
    return f"{ACCESS_COOKIE}={write_cookie(grant)}; Path=/; Max-Age={lifetime}; Secure; HttpOnly; SameSite=Lax"


def write_cookie(grant: Grant) -> str:
    """The grant as a signed value (HMAC under SECRET_KEY)."""
    fields = [
        grant.session.hex,
        grant.user.hex,
        grant.run,
        grant.host,
        grant.epoch,
        grant.issued,
        grant.renewed,
        grant.until,
    ]
    payload = base64.urlsafe_b64encode(json.dumps(fields, separators=(",", ":")).encode()).decode().rstrip("=")
    return _signer().sign(payload)


def read_cookie(value: str) -> Grant | None:
    """The grant of a value that we signed; None for every other."""
    return _read_cookie(value) if len(value) <= COOKIE_LENGTH_MAX else None


@lru_cache(maxsize=8192)
def _read_cookie(value: str) -> Grant | None:
    """Remembered, because a browser shows the same cookie at each of its requests; whether it still holds is asked anew."""
    try:
        payload = _signer().unsign(value)
    except signing.BadSignature:
        return None
    fields = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    session, user, run, host, epoch, issued, renewed, until = fields
    return Grant(UUID(hex=session), UUID(hex=user), run, host, epoch, issued, renewed, until)


def may_open(session: Session, by: User) -> bool:
    """Whether he could open it with a reason, whatever its state: for pages, which ask before they offer it."""
    try:
        _entitle(session, by)
    except DomainError:
        return False
    return True


def _authorise(session: Session, by: User, reason: str | None) -> None:
    """Who is entitled to it; who does not own it, with a reason."""
    _entitle(session, by)
    if by.pk != session.owner_id and not (reason or "").strip():
        raise DomainError(
            "reason_required",
            "This is somebody else's session: say why.",
            errors={"reason": ["Say why; the owner reads it."]},
            remedy="Send a reason.",
        )


def _entitle(session: Session, by: User) -> None:
    """Its owner, as long as he is a member; others only from above, where that is switched on."""
    facts = people.requester_facts(by.pk, session.group_id)
    if by.pk == session.owner_id:
        if facts is None or not _is_member(facts):
            raise DomainError("forbidden", "You are no member of this session's group any more.")
        return
    if not settings.GSHARE.admin_open_enabled:
        raise DomainError("forbidden", "Opening other people's sessions is switched off here.")
    permissions.may(by, permissions.Act.OPEN_SESSION, _target(session.owner_id, session.group_id)).require()


def _leave_trace(session: Session, by: User, app: str, reason: str, now: datetime) -> None:
    """Who opened it and why, in the audit trail and before the owner's eyes, in the transaction that makes the link."""
    audit.record(
        by=by,
        act="session.open",
        target_kind="session",
        target_id=session.pk,
        target_label=session.name,
        organisation_id=session.organisation_id,
        group_id=session.group_id,
        before={},
        after={"app": app, "run": session.run_number},
        reason=reason,
        at=now,
    )
    with in_language_of(session.owner):
        title = _("%(who)s opened your session %(name)s") % {"who": by.email, "name": session.name}
    notices.notify(
        user_id=session.owner_id,
        kind="session_opened",
        title=title,
        body=reason,
        at=now,
        link=f"/sessions/{session.pk}/",
    )


def _is_member(facts: RequesterFacts) -> bool:
    return facts.active and facts.group_active and facts.role in ("member", "group_admin")


def _may_still_open(user_id: UUID, owner_id: UUID, group_id: UUID) -> bool:
    """Whether an administrator's right to somebody's session is still there."""
    return (
        settings.GSHARE.admin_open_enabled
        and permissions.may(
            standing_of_person(user_id), permissions.Act.OPEN_SESSION, _target(owner_id, group_id)
        ).allowed
    )


def _target(owner_id: UUID, group_id: UUID) -> Target:
    return target_of_group(group_id, person_id=owner_id)


def _signer() -> signing.Signer:
    return signing.Signer(salt=COOKIE_SALT)


def _ttl() -> int:
    return int(settings.GSHARE.access_cookie_ttl.total_seconds())


def _epoch_of(token: str) -> int:
    """The sign-in that a link was made in. The hash covers it, so nobody makes an old link young."""
    return int(token.rpartition(".")[2])


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
