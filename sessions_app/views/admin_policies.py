"""Policies of a scope: what it sets, what is in force and who supplied it, what is used; and what other numbers would mean.

Guarantees: a scope outside of his does not exist; who does not stand one level above it reads and sets nothing; the what-if
changes nothing, and saving sends only the fields that the reader changed: what somebody else set since the page was read stays,
and where both changed the same field he is told before he overwrites it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from accounts import queries as accounts
from accounts import services
from accounts.administrators import Administrator, administrators_only
from accounts.api.documents import POLICIES
from accounts.domain.policies import COUNTED, FIELDS, FLAGS, GLOBAL, Kind, Scope, ScopeKind, Value, resolve
from accounts.scopes import SeenScope, general, name_of, policies_of, seen_scope
from gshare_core.errors import DomainError
from gshare_core.kit import clock
from gshare_core.kit.htmx import answer, go_to
from gshare_core.kit.lists import next_address, page_of
from sessions_app import counters, oversight
from sessions_app.views import limits

Numbers = dict[str, int | None]


@administrators_only
@require_http_methods(["GET", "POST"])
def policies(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """Without `scope` the list; with it the scope's numbers, and POST act=check or act=save."""
    text = request.GET.get("scope", "")
    if not text:
        return _list(request, administrator)
    try:
        seen = seen_scope(administrator, Scope.parse(text))
    except DomainError:
        seen = None
    if seen is None:
        raise Http404
    if request.method == "GET":
        return _page(request, seen, _Form(seen))
    form = _Form(seen, request.POST)
    if form.errors:
        return _page(request, seen, form)
    if request.POST.get("act") != "save":
        return _page(request, seen, form, what_if=_what_if(seen, form))
    try:
        services.set_policy(
            scope=seen.scope,
            per_user=form.changes[Kind.PER_USER],
            totals=form.changes[Kind.TOTAL],
            by=administrator.user,
        )
    except DomainError as refusal:
        form.refuse(refusal)
        return _page(request, seen, form)
    messages.success(request, _("The policy of %(name)s is set.") % {"name": seen.name})
    return go_to(request, _address(seen.scope))


def _address(scope: Scope) -> str:
    return f"{reverse('admin_policies')}?scope={scope}"


# The form -------------------------------------------------------------------------------------------------------------


class _Form:
    """The numbers that a scope sets, as they are and as they were sent; `changes` is what differs."""

    def __init__(self, seen: SeenScope, sent: Mapping[str, str] | None = None) -> None:
        self.values = accounts.values_of(seen.chain)
        self.own = {
            kind: {
                value.field: value.value for value in self.values if value.scope == seen.scope and value.kind is kind
            }
            for kind in Kind
        }
        self.errors: dict[str, list[str]] = {}
        self.problem = ""
        self.texts = {kind: {field: self._text(sent, kind, field) for field in _fields(seen, kind)} for kind in Kind}
        self.changes: dict[Kind, Numbers] = {kind: self._changed(kind) for kind in Kind}

    def written(self, kind: Kind, field: str) -> str:
        """What the scope sets now, as the page shows it."""
        now = self.own[kind].get(field)
        return "" if now is None else str(now)

    def _text(self, sent: Mapping[str, str] | None, kind: Kind, field: str) -> str:
        now, name = self.written(kind, field), f"{kind}-{field}"
        if sent is None:
            return now
        text = sent.get(name, now).strip()
        was = sent.get(f"was-{name}", now)
        if len({text, was, now}) == 3:
            self.errors[name] = [
                _("Somebody else has set this to %(value)s meanwhile. Look at it, then set it again.")
                % {"value": now or _("inherit")}
            ]
        return now if text == was else text

    def _changed(self, kind: Kind) -> Numbers:
        found: Numbers = {}
        for field, text in self.texts[kind].items():
            if text and not (text.isascii() and text.isdecimal() and len(text) < 17):
                self.errors[f"{kind}-{field}"] = [_("Give a whole number, or nothing to inherit.")]
                continue
            number = int(text) if text else None
            if number != self.own[kind].get(field):
                found[field] = number
        return found

    def refuse(self, refusal: DomainError) -> None:
        """What the service refused, at the fields it names in what was changed, and in words above the form."""
        self.problem = " ".join(filter(None, (str(refusal.detail), str(refusal.remedy or ""))))
        for field, texts in (refusal.errors or {}).items():
            for kind in Kind:
                if field in self.changes[kind]:
                    self.errors[f"{kind}-{field}"] = [str(text) for text in texts]


def _fields(seen: SeenScope, kind: Kind) -> tuple[str, ...]:
    if kind is Kind.PER_USER:
        return tuple(FIELDS)
    return tuple(COUNTED) if seen.has_totals else ()


# The page -------------------------------------------------------------------------------------------------------------


def _page(
    request: HttpRequest, seen: SeenScope, form: _Form, *, what_if: list[dict[str, Any]] | None = None
) -> HttpResponse:
    inherited = resolve(seen.chain[1:], form.values)
    used = counters.read((str(seen.scope),))
    context = {
        "scope": str(seen.scope),
        "name": seen.name,
        "over": seen.over,
        "may_set": seen.may_set,
        "has_totals": seen.has_totals,
        "rows": [_row(field, seen, form, inherited, used) for field in FIELDS],
        "problem": form.problem,
        "what_if": what_if,
        "changed": any(form.changes.values()),
        "here": _address(seen.scope),
    }
    status = 422 if form.errors or form.problem else 200
    return answer(request, "sessions_app/admin/policy.html", context, status=status)


def _row(
    field: str, seen: SeenScope, form: _Form, inherited: Mapping[str, Any], used: Mapping[tuple[str, str], int]
) -> dict[str, Any]:
    own = form.own[Kind.PER_USER].get(field)
    above = inherited[field]
    in_force = own if own is not None else above.value
    total = form.own[Kind.TOTAL].get(field)
    use = used.get((str(seen.scope), field))
    return {
        "field": field,
        "name": limits.name_of(field),
        "unit": FIELDS[field].unit.value if FIELDS[field].unit.value in ("MiB", "GiB", "%", "min") else "",
        "milli": FIELDS[field].unit.value == "milli",
        "flag": field in FLAGS,
        "reserved": FIELDS[field].reserved,
        "in_force": "" if in_force is None else limits.value_text(field, in_force),
        "source": seen.name if own is not None else _source(above.scope, seen),
        "per_user": form.texts[Kind.PER_USER].get(field, ""),
        "was_per_user": form.written(Kind.PER_USER, field),
        "inherits": "" if above.value is None else str(above.value),
        "per_user_errors": form.errors.get(f"{Kind.PER_USER}-{field}", []),
        "counted": field in COUNTED and seen.has_totals,
        "total": form.texts[Kind.TOTAL].get(field, ""),
        "was_total": form.written(Kind.TOTAL, field),
        "total_errors": form.errors.get(f"{Kind.TOTAL}-{field}", []),
        "used": use,
        "used_text": "" if use is None else limits.amount_text(field, use),
        "limit": total,
        "tone": "full" if use and total is not None and use >= total else "",
    }


def _source(scope: str | None, seen: SeenScope) -> str:
    kind = (scope or "").partition(":")[0]
    if kind == ScopeKind.ORGANISATION:
        return seen.over
    return general() if kind == ScopeKind.GLOBAL else ""


# What if --------------------------------------------------------------------------------------------------------------


def _what_if(seen: SeenScope, form: _Form) -> list[dict[str, Any]]:
    """Each change against the present use: who or what would stand above it. At most two statements."""
    after = resolve(seen.chain, _with_changes(seen, form))
    before = resolve(seen.chain, form.values)
    bounds = {
        field: value
        for field in form.changes[Kind.PER_USER]
        if field in counters.FIELDS and (value := after[field].value) is not None
    }
    own_use = counters.read((str(seen.scope),))
    people = {} if seen.scope.kind is ScopeKind.USER else oversight.people_above(_place(seen.scope), bounds)
    told = [
        {
            "name": limits.name_of(field),
            "kind": _("each person"),
            "before": _said(field, before[field].value),
            "after": _said(field, after[field].value),
            "effect": _effect_on_people(seen, field, after[field].value, people, own_use),
        }
        for field in form.changes[Kind.PER_USER]
    ]
    for field, number in form.changes[Kind.TOTAL].items():
        use = own_use.get((str(seen.scope), field), 0)
        told.append(
            {
                "name": limits.name_of(field),
                "kind": _("all together"),
                "before": _said(field, form.own[Kind.TOTAL].get(field)),
                "after": _said(field, number),
                "effect": _against(field, use, number),
            }
        )
    return told


def _with_changes(seen: SeenScope, form: _Form) -> list[Value]:
    changed = form.changes[Kind.PER_USER]
    kept = [
        value
        for value in form.values
        if not (value.scope == seen.scope and value.kind is Kind.PER_USER and value.field in changed)
    ]
    new = [Value(seen.scope, Kind.PER_USER, field, number) for field, number in changed.items() if number is not None]
    return [*kept, *new]


def _place(scope: Scope) -> str:
    return "" if scope == GLOBAL else str(scope)


def _said(field: str, value: int | None) -> str:
    return _("no limit") if value is None else limits.value_text(field, value)


def _effect_on_people(
    seen: SeenScope,
    field: str,
    value: int | None,
    people: Mapping[str, tuple[int, int]],
    own_use: Mapping[tuple[str, str], int],
) -> str:
    if field not in counters.FIELDS:
        return _("For what is asked for from now on")
    if seen.scope.kind is ScopeKind.USER:
        return _against(field, own_use.get((str(seen.scope), field), 0), value)
    above, most = people.get(field, (0, 0))
    if value is None or not above:
        used = {"most": limits.amount_text(field, most)}
        return _("Nobody is above it; the most that one uses is %(most)s") % used if most else _("Nobody uses any now")
    return ngettext(
        "%(n)d person uses more now: what runs goes on, nothing more starts until it is less",
        "%(n)d people use more now: what runs goes on, nothing more starts until it is less",
        above,
    ) % {"n": above}


def _against(field: str, use: int, value: int | None) -> str:
    facts = {"use": limits.amount_text(field, use)}
    if value is not None and use > value:
        return _("%(use)s are used now: what runs goes on, nothing more starts until it is less") % facts
    return _("%(use)s are used now") % facts


# The list -------------------------------------------------------------------------------------------------------------


def _list(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    try:
        page = page_of(policies_of(administrator), POLICIES, request)
    except DomainError:
        return HttpResponseRedirect(reverse("admin_policies"))
    rows = []
    for policy in page.rows:
        name, over = name_of(policy)
        rows.append(
            {
                "name": name,
                "over": over,
                "kind": _kind(policy.scope_kind),
                "fields": policy.fields,
                "url": f"?scope={policy}",
            }
        )
    context = {
        "now": clock.now(),
        "rows": rows,
        "kinds": [
            (kind, words, request.GET.get("kind", "") == kind) for kind, words in (("", _("Every level")), *_kinds())
        ],
        "narrowed": bool(request.GET.get("kind")),
        "count_text": ngettext("%(n)d policy", "%(n)d policies", page.count) % {"n": page.count},
        "first": reverse("admin_policies") if request.GET.get("cursor") else "",
        "next": next_address(request, page) if page.next_cursor else "",
    }
    return answer(request, "sessions_app/admin/policies.html", context, fragments=("policies",))


def _kinds() -> tuple[tuple[str, str], ...]:
    return (
        ("global", _("General")),
        ("organisation", _("Organisation")),
        ("group", _("Group")),
        ("user", _("Person")),
    )


def _kind(kind: str) -> str:
    return dict(_kinds())[kind]
