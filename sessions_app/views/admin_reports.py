"""Usage reports of an administrator's scope: what was charged and ran, by user, group, organisation, offering or day.

Guarantees: a scope outside of his is not offered and not answered; whatever it is grouped by, the lines come to the same
total; the file holds the same lines. Days are the reader's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import require_GET

from accounts.administrators import Administrator, administrators_only
from accounts.scopes import groups_to_choose, organisations_to_choose
from billing.domain.budgets import midnight
from billing.queries import ReportAsked, UsageRow, usage_total
from gshare_core.kit import clock, wording
from gshare_core.kit.forms import offer
from gshare_core.kit.htmx import answer
from gshare_core.kit.pictures import Bar
from gshare_core.money import MICRO_PER_CREDIT, display_credits
from sessions_app import usage_reports
from sessions_app.usage_reports import By

ROWS = 200
LONGEST = timedelta(days=366)
_HOUR_US = Decimal(3_600_000_000)
BY = (
    ("user", gettext_lazy("User")),
    ("group", gettext_lazy("Group")),
    ("organisation", gettext_lazy("Organisation")),
    ("offering", gettext_lazy("Offering")),
    ("day", gettext_lazy("Day")),
)


class ReportForm(forms.Form):
    """What a report is about: how it is grouped, whose, and from which day to which, both included."""

    by = forms.ChoiceField(
        label=gettext_lazy("By"),
        choices=BY,
    )
    scope = forms.ChoiceField(label=gettext_lazy("Of"))
    first = forms.DateField(label=gettext_lazy("First day"), widget=forms.DateInput(attrs={"type": "date"}))
    last = forms.DateField(label=gettext_lazy("Last day"), widget=forms.DateInput(attrs={"type": "date"}))

    def __init__(self, *args: Any, scopes: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offer(self, "scope", scopes)

    def clean(self) -> dict[str, Any]:
        """The days are in order and not more than can be summed while somebody waits."""
        data: dict[str, Any] = super().clean() or {}
        if not self.errors and not timedelta(0) <= data["last"] - data["first"] < LONGEST:
            self.add_error("last", _("Give a day not before the first, at most a year later."))
        return data


@administrators_only
@require_GET
def reports(request: HttpRequest, administrator: Administrator) -> HttpResponse:
    """The form and the report it asks for; without anything asked this month by user."""
    scopes = _scopes(administrator)
    today = timezone.localtime(clock.now()).date()
    first = {"by": "user", "scope": scopes[0][0], "first": str(today.replace(day=1)), "last": str(today)}
    form = ReportForm({name: request.GET.get(name) or value for name, value in first.items()}, scopes=scopes)
    context: dict[str, Any] = {"form": form, "report": None}
    if form.is_valid():
        context["report"] = _report(administrator, **form.cleaned_data)
    return answer(request, "sessions_app/admin/reports.html", context, fragments=("report",))


def _scopes(administrator: Administrator) -> list[tuple[str, str]]:
    """What he may ask about, the widest first. Two statements."""
    return [
        *([("all", _("All organisations"))] if administrator.is_super else []),
        *organisations_to_choose(administrator, ended=True),
        *groups_to_choose(administrator, ended=True),
    ]


def _report(administrator: Administrator, *, by: By, scope: str, first: date, last: date) -> dict[str, Any]:
    zone = timezone.get_current_timezone()
    assert isinstance(zone, ZoneInfo)
    start, end = midnight(first, zone), midnight(last + timedelta(days=1), zone)
    asked = usage_reports.scoped(ReportAsked(start, end, "user", None, zone), administrator.user, scope)
    rows = usage_reports.usage(by, asked)
    wanted = {"by": by, "scope": scope, "from": start.isoformat(), "to": end.isoformat(), "time_zone": zone.key}
    return {
        "rows": [_row(row, by) for row in rows[:ROWS]],
        "column": dict(BY)[by],
        "most_micro": max((row.amount for row in rows), default=0),
        "total": _row(usage_total(rows), by),
        "bars": _bars(rows, first, last) if by == "day" else [],
        "last_day": wording.month_day(last),
        "count_text": ngettext("%(n)d line", "%(n)d lines", len(rows)) % {"n": len(rows)},
        "left_off": max(0, len(rows) - ROWS),
        "csv_url": f"/api/v1/reports/usage?{urlencode({**wanted, 'format': 'csv'})}",
    }


def _row(row: UsageRow, by: By) -> dict[str, Any]:
    name = wording.month_day(date.fromisoformat(row.key)) if by == "day" and row.key else row.name
    return {
        "name": name,
        "amount_micro": row.amount,
        "card_hours": str((row.card_us / _HOUR_US).quantize(Decimal("0.01"), ROUND_HALF_UP)),
        "running": wording.duration(row.running_us // 1_000_000),
        "sessions": row.sessions,
    }


def _bars(rows: Sequence[UsageRow], first: date, last: date) -> list[Bar]:
    """Every day of the stretch, those without use too."""
    amounts = {row.key: row.amount for row in rows}
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [
        Bar(
            wording.month_day(day),
            amounts.get(str(day), 0) / MICRO_PER_CREDIT,
            display_credits(amounts.get(str(day), 0)),
        )
        for day in days
    ]
