"""Many people from a table: a dry run that names each line's fault, then all of them or nobody.

Guarantees: the dry run changes nothing; the initial passwords are shown once, on the answer to the import, which no cache
keeps.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from accounts import services
from accounts.administrators import Administrator, administrators_only
from accounts.services.importing import COLUMNS, MOST, Judged, read_people
from accounts.views.account import role_words
from gshare_core.errors import DomainError
from gshare_core.kit import wording
from gshare_core.kit.forms import refusal_text
from gshare_core.kit.htmx import answer

FILE_MAX = 256 * 1024


@administrators_only
@require_http_methods(["GET", "POST"])
def import_people(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The form; POST act=check judges every line, act=import registers all of them."""
    if request.method == "GET":
        return _page(request, "")
    text = request.POST.get("table", "")
    try:
        text = _text(request)
        lines = read_people(text)
        if request.POST.get("act") == "import":
            return _done(request, services.import_people(lines, by=administrator.user))
    except DomainError as refusal:
        return _refused(request, refusal, administrator, text)
    judged = services.check_people(lines, by=administrator.user)
    return _page(request, text, judged=judged, status=422 if any(one.faults for one in judged) else 200)


def _text(request: HttpRequest) -> str:
    """The table: the file if one came, else what was typed. Raises `invalid`."""
    file = request.FILES.get("file")
    if file is None:
        return request.POST.get("table", "")
    if (file.size or 0) > FILE_MAX:
        raise DomainError("invalid", _("The file is too large."))
    try:
        return file.read().decode("utf-8")
    except UnicodeDecodeError:
        raise DomainError("invalid", _("The file is not text in UTF-8."), remedy=_("Save it as CSV, UTF-8.")) from None


def _refused(request: HttpRequest, refusal: DomainError, administrator: Administrator, text: str) -> HttpResponse:
    """What was typed or sent stays; where lines are at fault, each is named by judging them again."""
    named = [str(told) for name, texts in (refusal.errors or {}).items() if name == "table" for told in texts]
    judged: list[Judged] = []
    if any(name.startswith("line ") for name in refusal.errors or {}):
        judged = services.check_people(read_people(text), by=administrator.user)
    problem = named[0] if named else refusal_text(refusal)
    return _page(request, text, problem=problem, judged=judged, status=422)


def _page(
    request: HttpRequest, text: str, *, judged: list[Judged] | None = None, problem: str = "", status: int = 200
) -> HttpResponse:
    rows = [_row(one) for one in judged or []]
    faulty = sum(bool(row["faults"]) for row in rows)
    verdict = ""
    if rows and not faulty:
        verdict = ngettext("%(n)d person would be registered.", "%(n)d people would be registered.", len(rows)) % {
            "n": len(rows)
        }
    elif rows:
        verdict = ngettext(
            "%(n)d line is at fault. Nobody is registered until all can be.",
            "%(n)d lines are at fault. Nobody is registered until all can be.",
            faulty,
        ) % {"n": faulty}
    context = {
        "text": text,
        "problem": problem,
        "rows": rows,
        "good": bool(rows) and not faulty and not problem,
        "verdict": verdict,
        "columns": ", ".join(COLUMNS),
        "most": MOST,
    }
    return answer(request, "accounts/admin/import.html", context, status=status)


def _row(one: Judged) -> dict[str, Any]:
    return {
        "number": one.line.number,
        "email": one.line.email,
        "name": one.line.name,
        "group": one.group.name if one.group else one.line.group,
        "role": role_words(one.role),
        "faults": [fault.text for fault in one.faults],
    }


def _done(request: HttpRequest, made: list[services.Registered]) -> HttpResponse:
    context = {
        "people": [{"email": one.user.email, "name": one.user.name, "password": one.initial_password} for one in made],
        "title": ngettext("%(n)d person is registered", "%(n)d people are registered", len(made)) % {"n": len(made)},
        "until": wording.duration(settings.GSHARE.initial_password_ttl),
    }
    response = answer(request, "accounts/admin/imported.html", context)
    response.headers["Cache-Control"] = "no-store"
    return response
