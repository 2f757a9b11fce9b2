"""What a session's applications wrote last, asked of its cluster every few seconds while the page is open."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from gshare_core.kit import clock
from gshare_core.kit.htmx import answer
from sessions_app import queries
from sessions_app.domain.lifecycle import TERMINAL, State
from sessions_app.logs import LINES, Said, look
from sessions_app.views.acts import signed_in

_WORDS = {
    Said.QUIET: (_("Nothing written yet"), _("Its applications run and have written nothing.")),
    Said.NOT_YET: (_("No logs yet"), _("They begin when its applications start.")),
    Said.GONE: (
        _("These logs are gone"),
        _("Logs are kept by the cluster and end with the run. Why it ended stands on its page."),
    ),
    Said.UNAVAILABLE: (
        _("The cluster does not answer"),
        _("Its logs cannot be read now. They come back here by themselves; the session is not touched by it."),
    ),
    Said.REFUSED: (
        _("The cluster does not show its logs"),
        _("GShare may not read logs there. Tell an administrator of the site."),
    ),
}


@login_required
@require_GET
def session_logs(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """The page, or its lines."""
    found = get_object_or_404(queries.visible_sessions(signed_in(request)), pk=session_id)
    seen = look(found)
    title, text = _WORDS.get(seen.said, ("", ""))
    context = {
        "now": clock.now(),
        "session": {"id": found.pk, "name": found.name, "state": found.state},
        "run": seen.run,
        "lines": seen.lines,
        "lines_max": LINES,
        "title": title,
        "text": text,
        "is_failure": seen.said in {Said.UNAVAILABLE, Said.REFUSED},
        # What is over is read once.
        "is_live": found.life not in {*TERMINAL, State.PAUSED},
    }
    return answer(request, "sessions_app/session_logs.html", context, fragments=("log",))
