"""What a person does to a session: the verbs, opening an application, several at once. Thin: parse, one service, go back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from accounts import permissions
from cluster.queries import volumes_by_id
from gshare_core.errors import DomainError
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.idempotency import Reply
from gshare_core.money import display_credits
from sessions_app import access, queries, services
from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.services import Asked
from sessions_app.views import verdicts, words

if TYPE_CHECKING:
    from accounts.models import User

VERBS: dict[str, Callable[[Asked], Session | Reply]] = {
    "pause": services.pause_session,
    "resume": services.resume_session,
    "restart": services.restart_session,
    "stop": services.stop_session,
    "keep-alive": services.keep_alive,
    "stay-paused": services.stay_paused,
}
ASKED_FIRST = frozenset({"stop", "restart"})
BULK = frozenset({"pause", "stop"})
BULK_MAX = 100


@login_required
@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, session_id: UUID, verb: str) -> HttpResponse:
    """GET asks before stop and restart; POST does it and goes back to where it was asked."""
    user = signed_in(request)
    session = get_object_or_404(queries.visible_sessions(user), pk=session_id)
    if verb not in VERBS:
        return HttpResponseRedirect(reverse("session", args=[session.pk]))
    own = session.owner_id == user.pk
    if request.method == "GET":
        question = question_of(session, verb, reason=not own)
        back = [
            {"name": _("Sessions"), "url": reverse("session_list")},
            {"name": session.name, "url": reverse("session", args=[session.pk])},
        ]
        return answer(request, "layouts/ask.html", {"question": question, "back": back}, fragments=("dialog",))
    try:
        VERBS[verb](Asked(session.pk, user, reason=request.POST.get("reason", "").strip()))
    except DomainError as refusal:
        messages.error(request, verdicts.refusal(refusal, names_in(session)).text)
    return go_to(request, _back(request, session))


def question_of(session: Session, verb: str, *, reason: bool, page: str = "session") -> dict[str, Any]:
    """What is asked before an act: the thing named, the consequences, the buttons. `page`: whose console asks."""
    url = reverse(f"{page}_act", args=[session.pk, verb])
    alternative = None
    if verb == "stop" and "pause" in session.allowed and page == "session":
        alternative = {"url": reverse("session_act", args=[session.pk, "pause"]), "words": _("Pause")}
    waiting, paused = session.life is State.QUEUED, session.life is State.PAUSED
    return {
        "title": (_("Take %(name)s out of the line?") if waiting else str(words.QUESTIONS[verb]))
        % {"name": session.name},
        "effects": effects_of(session, verb),
        "note": _("To keep it for later, pause it. Pausing is free.") if alternative else "",
        "url": url,
        "submit": (_("Cancel %(name)s") if waiting else str(words.VERBS_OF[verb])) % {"name": session.name},
        "danger": verb == "stop",
        "cancel_url": reverse(page, args=[session.pk]),
        "cancel": _("Keep waiting") if waiting else _("Keep it") if paused else _("Keep running"),
        "reason": reason,
        "alternative": alternative,
        "fields": {},
    }


def effects_of(session: Session, verb: str) -> list[str]:
    """What an act does to money, card and files, in sentences."""
    cost = queries.details([session]).open_cost_of(session)
    effects = []
    if cost is not None:
        money = {"more": display_credits(cost.accrued), "back": display_credits(max(0, cost.held - cost.accrued))}
        if verb == "stop":
            effects.append(_("The run settles: %(more)s cr more, %(back)s cr of the hold come back") % money)
        else:
            effects.append(_("The run settles: %(more)s cr more; the hold stays for the next run") % money)
    if verb == "restart":
        effects.append(_("Every program in it ends; the card stays yours"))
    if session.life is State.PAUSED:
        effects.append(_("It cannot be resumed any more; its volumes are kept"))
    elif session.life is not State.QUEUED:
        kept = [mount["path"] for mount in session.mounts]
        if kept:
            effects.append(_("Anything outside %(paths)s is lost") % {"paths": ", ".join(kept)})
        else:
            effects.append(_("Everything written in it is lost: no volume is mounted"))
    return effects


@login_required
@require_POST
def open_app(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Into an application by a one-time link."""
    user = signed_in(request)
    session = get_object_or_404(queries.visible_sessions(user), pk=session_id)
    try:
        reason = request.POST.get("reason", "").strip() or None
        link = access.mint(session_id=session.pk, by=user, app=request.POST.get("app", "lab"), reason=reason)
    except DomainError as refusal:
        messages.error(request, verdicts.refusal(refusal, names_in(session)).text)
        return HttpResponseRedirect(reverse("session", args=[session.pk]))
    return HttpResponseRedirect(link.url)


@login_required
@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """Pause or stop the chosen ones of one's own sessions; says how many did not allow it."""
    user, verb = signed_in(request), request.POST.get("act", "")
    back = reverse("session_list")
    if verb not in BULK:
        return HttpResponseRedirect(back)
    chosen = queries.sessions_of(user).filter(pk__in=chosen_ids(request.POST.getlist("session")[:BULK_MAX]))
    done, refused = 0, 0
    for session in chosen.order_by("id"):
        try:
            VERBS[verb](Asked(session.pk, user))
            done += 1
        except DomainError:
            refused += 1
    if done:
        asked = ngettext("%(n)d session was asked to %(verb)s.", "%(n)d sessions were asked to %(verb)s.", done)
        messages.success(request, asked % {"n": done, "verb": str(words.VERBS[verb]).lower()})
    if refused:
        said = ngettext("%(n)d session did not allow it.", "%(n)d sessions did not allow it.", refused)
        messages.warning(request, said % {"n": refused})
    return go_to(request, back)


def signed_in(request: HttpRequest) -> User:
    """The person behind a request that has passed `login_required`."""
    person = permissions.person_of(request.user)
    assert person is not None
    return person


def names_in(session: Session) -> verdicts.Names:
    """What the session's parts are called, for a refusal that is about them."""
    known = volumes_by_id([UUID(mount["volume"]) for mount in session.mounts])
    return verdicts.Names(
        gpu=session.offering.name if session.offering else "",
        image=session.image.name,
        group=session.group.name,
        volumes={str(key): volume.name for key, volume in known.items()},
    )


def chosen_ids(texts: list[str]) -> list[UUID]:
    """The ids among these texts."""
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def _back(request: HttpRequest, session: Session) -> str:
    """The page that asked, if it is one of ours; else the session's."""
    came_from = request.headers.get("Referer", "")
    asked_here = reverse("session_act", args=[session.pk, "stop"]).rsplit("/stop", 1)[0]
    if asked_here in came_from or not url_has_allowed_host_and_scheme(came_from, {request.get_host()}):
        return reverse("session", args=[session.pk])
    return came_from
