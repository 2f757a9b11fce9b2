"""What the session's host says itself: redirects, and a page in place of an app that cannot be had.

Guarantees: the pages stand alone (no script, nothing from another host, not even the console's), say what happened and lead
back to the console; a program gets a short text instead. None of them is cached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext_lazy as _
from django.utils.translation.trans_real import parse_accept_lang_header

from gshare_site.embedded.headers import Header
from gshare_site.embedded.upstream import Send
from sessions_app.asking import only
from sessions_app.domain.access import OWN_PREFIX, Asked, Why

STYLE_PATH = OWN_PREFIX + "page.css"
RETRY_SECONDS = 5
POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

#: What the page says: title, explanation, whether it tries again by itself.
WORDS: dict[str, tuple[Any, Any, bool]] = {
    "app_away": (
        _("The application does not answer yet"),
        _("It is starting or busy. This page tries again by itself."),
        True,
    ),
    "unavailable": (
        _("GShare cannot check your access right now"),
        _("Your session goes on. This page tries again by itself."),
        True,
    ),
    "no_such_app": (_("There is nothing at this address"), _("Open an application from the session's page."), False),
    "link_used": (
        _("This link does not work any more"),
        _("A link opens a session once, and within a minute. Open the session again from its page."),
        False,
    ),
    "not_running": (
        _("This session is not running"),
        _("It may be starting, paused or stopped. Its page says which, and what to do."),
        False,
    ),
    "right_lost": (_("You may not open this session"), _("Your right to it has ended, or was never there."), False),
    "foreign": (
        _("Another site asked for this"),
        _("A request that another page makes is refused. Open the session from its page."),
        False,
    ),
}
_WORDS_OF = {
    Why.NO_SUCH_APP: "no_such_app",
    Why.LINK_USED: "link_used",
    Why.RIGHT_LOST: "right_lost",
    Why.FOREIGN_ORIGIN: "foreign",
    Why.CROSS_SITE: "foreign",
    Why.UNAVAILABLE: "unavailable",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers to one request."""

    scope: dict[str, Any]
    send: Send
    console: str
    session: UUID

    @property
    def session_page(self) -> str:
        """The session's page at the console."""
        return f"{self.console}/sessions/{self.session}/"

    async def refused(self, why: Why, asked: Asked) -> None:
        """401 leads a person to the session's page at the console; everything else is said."""
        if why.status == HTTPStatus.UNAUTHORIZED and _is_for_a_person(self.scope) and asked.method == "GET":
            await self.redirect(self.session_page)
            return
        status = HTTPStatus.NOT_FOUND if why is Why.NO_SUCH_APP else HTTPStatus(why.status)
        await self.notice(status, _WORDS_OF.get(why, "not_running"))

    async def notice(self, status: HTTPStatus, what: str) -> None:
        """The page (or, for a program, the line) that explains."""
        if not _is_for_a_person(self.scope):
            await self.text(status, f"{what}\n")
            return
        title, explanation, again = WORDS[what]
        language = _language(self.scope)
        with translation.override(language):
            page = render_to_string(
                "door/notice.html",
                {
                    "title": title,
                    "explanation": explanation,
                    "again": RETRY_SECONDS if again else None,
                    "session_page": self.session_page,
                    "style": STYLE_PATH,
                    "language": language,
                },
            )
        extra = [(b"content-security-policy", POLICY.encode("ascii"))]
        if again:
            extra.append((b"retry-after", str(RETRY_SECONDS).encode("ascii")))
        await self._answer(status, page.encode(), b"text/html; charset=utf-8", extra)

    async def text(self, status: HTTPStatus, text: str, extra: Sequence[Header] = ()) -> None:
        """A short plain answer."""
        await self._answer(status, text.encode(), b"text/plain; charset=utf-8", extra)

    async def style(self) -> None:
        """The pages' style sheet."""
        await self._answer(HTTPStatus.OK, _style(), b"text/css; charset=utf-8", ())

    async def redirect(self, location: str, *, set_cookie: str | None = None) -> None:
        """303, so that the next request is a GET whatever this one was."""
        extra = [(b"location", location.encode("ascii"))]
        if set_cookie is not None:
            extra.append((b"set-cookie", set_cookie.encode("ascii")))
        await self._answer(HTTPStatus.SEE_OTHER, b"", b"text/plain; charset=utf-8", extra)

    async def _answer(self, status: HTTPStatus, body: bytes, kind: bytes, extra: Sequence[Header]) -> None:
        headers = [
            (b"content-type", kind),
            (b"content-length", str(len(body)).encode("ascii")),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-resource-policy", b"same-origin"),
            *extra,
        ]
        await self.send({"type": "http.response.start", "status": int(status), "headers": headers})
        sent = b"" if self.scope["method"] == "HEAD" else body
        await self.send({"type": "http.response.body", "body": sent})


def _is_for_a_person(scope: dict[str, Any]) -> bool:
    """Whether a browser's tab will show the answer."""
    mode = only(scope["headers"], b"sec-fetch-mode")
    if mode is not None:
        return mode == "navigate"
    return "text/html" in (only(scope["headers"], b"accept") or "")


def _language(scope: dict[str, Any]) -> str:
    for code, _quality in parse_accept_lang_header(only(scope["headers"], b"accept-language") or ""):
        try:
            return translation.get_supported_language_variant(code)
        except LookupError:
            continue
    return "en"


@cache
def _style() -> bytes:
    return (Path(__file__).parent / "page.css").read_bytes()
