"""One session of a scope: what its owner sees of it, whose it is, and an administrator's acts, each with a reason."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from accounts.administrators import Administrator, administrators_only
from gshare_core.errors import DomainError
from gshare_core.kit import clock, wording
from gshare_core.kit.htmx import answer, asked_fragment, go_to
from sessions_app import access, oversight, services
from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.services import Asked
from sessions_app.views import acts, session_page, verdicts, words

VERBS = ("pause", "resume", "restart", "stop", "open", "priority")
PRIORITY_MOST = 100
SHARED = tuple(name for name in session_page.FRAGMENTS if name != "session-head")
OWNERS_ONLY = frozenset({"keep-alive", "stay-paused"})


@administrators_only
@require_GET
def session(request: HttpRequest, administrator: Administrator, session_id: UUID) -> HttpResponse:
    """The page, or the part of it that asks; the parts below the head are the user console's own."""
    found = _found(administrator, session_id)
    context = session_page.facts(request, found, clock.now())
    context["session"] |= {
        "allowed": [verb for verb in found.allowed if verb not in OWNERS_ONLY],
        "owner": found.owner.email,
        "group": found.group.name,
        "organisation": found.organisation.name,
        "waits": found.life is State.QUEUED,
        "priority": found.priority,
    }
    context["may_open"] = "access" in found.allowed and access.may_open(found, administrator.user)
    shared = asked_fragment(request, SHARED) is not None
    template = "sessions_app/session.html" if shared else "sessions_app/admin/session.html"
    return answer(request, template, context, fragments=session_page.FRAGMENTS)


@administrators_only
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, administrator: Administrator, session_id: UUID, verb: str) -> HttpResponse:
    """GET asks, with the consequences and for a reason; POST does it and goes back to the session."""
    found = _found(administrator, session_id)
    page = reverse("admin_session", args=[found.pk])
    if verb not in VERBS:
        return HttpResponseRedirect(page)
    if request.method == "GET":
        return _ask(request, found, verb)
    asked = Asked(found.pk, administrator.user, reason=request.POST.get("reason", "").strip())
    try:
        if verb == "open":
            link = access.mint(
                session_id=found.pk, by=asked.by, app=request.POST.get("app", "lab"), reason=asked.reason or None
            )
            return go_to(request, link.url)
        if verb == "priority":
            services.set_priority(asked, _priority(request.POST.get("priority", "")))
        else:
            acts.VERBS[verb](asked)
    except DomainError as refusal:
        if refusal.code == "reason_required":
            return _ask(request, found, verb, missing=_("Say why; the owner reads it."))
        messages.error(request, verdicts.refusal(refusal, acts.names_in(found)).text)
    return go_to(request, page)


def _found(administrator: Administrator, session_id: UUID) -> Session:
    return get_object_or_404(oversight.sessions_of(administrator.reach), pk=session_id)


def _priority(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value <= PRIORITY_MOST:
        raise DomainError("invalid", _("Give a priority from 0 to %(most)d.") % {"most": PRIORITY_MOST})
    return value


def _ask(request: HttpRequest, found: Session, verb: str, *, missing: str = "") -> HttpResponse:
    page = reverse("admin_session", args=[found.pk])
    question = _QUESTIONS.get(verb, _verb)(found, verb) | {"cancel_url": page, "reason_error": missing}
    context = {
        "question": question,
        "layout": "layouts/admin.html",
        "back": [{"name": _("Sessions"), "url": reverse("admin_sessions")}, {"name": found.name, "url": page}],
    }
    status = 422 if missing else 200
    return answer(request, "layouts/ask.html", context, fragments=("dialog",), status=status)


def _verb(found: Session, verb: str) -> dict[str, Any]:
    return acts.question_of(found, verb, reason=True, page="admin_session") | {"cancel": _("Leave it")}


def _open(found: Session, _verb: str) -> dict[str, Any]:
    apps = words.apps_of(found.image.apps)
    return _plain(found, "open") | {
        "title": _("Open %(name)s?") % {"name": found.name},
        "effects": [
            _("%(owner)s is told at once, with your reason") % {"owner": found.owner.email},
            _("The trail keeps who opened it, when and why"),
            _("You are out again after %(time)s") % {"time": wording.duration(settings.GSHARE.admin_open_ttl)},
        ],
        "choice": {"name": "app", "label": _("Application"), "choices": [(app["name"], app["word"]) for app in apps]},
        "submit": _("Open %(name)s") % {"name": found.name},
    }


def _priority_of(found: Session, _verb: str) -> dict[str, Any]:
    return _plain(found, "priority") | {
        "title": _("Priority of %(name)s") % {"name": found.name},
        "effects": [
            _("Higher comes first in its line, for this wait"),
            _("At most what its owner's policy allows; a super administrator may give more"),
        ],
        "number": {
            "name": "priority",
            "label": _("Priority"),
            "least": 0,
            "most": PRIORITY_MOST,
            "value": found.priority,
        },
        "submit": _("Set the priority"),
    }


def _plain(found: Session, verb: str) -> dict[str, Any]:
    return {
        "note": "",
        "url": reverse("admin_session_act", args=[found.pk, verb]),
        "danger": False,
        "cancel": _("Leave it"),
        "reason": True,
        "alternative": None,
        "fields": {},
    }


_QUESTIONS = {"open": _open, "priority": _priority_of}
