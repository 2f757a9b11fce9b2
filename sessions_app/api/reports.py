"""`/api/v1/reports/usage` and `/api/v1/sessions/{id}/summary`: what was used and what it came to."""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpResponseBase
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes, extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view, renderer_classes
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.documents import time
from accounts.api.requests import me
from billing.queries import ReportAsked, UsageRow, usage_total
from gshare_core.errors import invalid
from gshare_core.kit.lists import CSV_MAX, CsvRenderer, csv_response, wants_csv
from gshare_core.money import format_credits
from sessions_app import usage_reports
from sessions_app.api.sessions import visible

LONGEST = timedelta(days=400)
ROWS_MAX = 1_000
_HOUR_US = Decimal(3_600_000_000)
COLUMNS = ("key", "name", "amount", "running_seconds", "card_hours", "runs", "sessions", "not_billed")


class UsageQuery(serializers.Serializer[dict[str, Any]]):
    """What a report is asked."""

    by = serializers.ChoiceField(choices=usage_reports.BY)
    scope = serializers.CharField(required=False, default="", allow_blank=True)
    time_zone = serializers.CharField(required=False, default="")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` is a word of the language."""
        return super().get_fields() | {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """The stretch is one, and not longer than can be summed while somebody waits."""
        if not timedelta(0) < attrs["to"] - attrs["from"] <= LONGEST:
            raise serializers.ValidationError({"to": [_("Give a time after from, at most 400 days later.")]})
        if attrs["time_zone"] and attrs["time_zone"] not in available_timezones():
            raise serializers.ValidationError({"time_zone": [_("This is no time zone of the IANA database.")]})
        return attrs


class UsageLineAnswer(serializers.Serializer[dict[str, Any]]):
    """One line: `key` is an id, or a day."""

    key = serializers.CharField()
    name = serializers.CharField()
    amount = serializers.CharField()
    running_seconds = serializers.IntegerField()
    card_hours = serializers.CharField()
    runs = serializers.IntegerField()
    sessions = serializers.IntegerField()
    not_billed = serializers.CharField()


class UsageAnswer(serializers.Serializer[dict[str, Any]]):
    """A report; `total` is of all lines, also of those that were left off (`truncated`)."""

    by = serializers.ChoiceField(choices=usage_reports.BY)
    time_zone = serializers.CharField()
    rows = UsageLineAnswer(many=True)
    total = UsageLineAnswer()
    truncated = serializers.BooleanField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` is a word of the language."""
        return super().get_fields() | {"from": serializers.DateTimeField(), "to": serializers.DateTimeField()}


class RunSummaryAnswer(serializers.Serializer[dict[str, Any]]):
    run = serializers.IntegerField()
    opened_at = serializers.DateTimeField()
    closed_at = serializers.DateTimeField()
    node = serializers.CharField()
    cards = serializers.ListField(child=serializers.CharField())
    hourly_credits = serializers.CharField(allow_null=True)
    running_seconds = serializers.IntegerField()
    billed_from = serializers.DateTimeField(allow_null=True)
    billed_to = serializers.DateTimeField(allow_null=True)
    charged = serializers.CharField()
    not_billed = serializers.CharField()


class SummaryAnswer(serializers.Serializer[dict[str, Any]]):
    """What ended runs came to; `final` once the session has ended."""

    session = serializers.UUIDField()
    final = serializers.BooleanField()
    ended_at = serializers.DateTimeField(allow_null=True)
    running_seconds = serializers.IntegerField()
    charged = serializers.CharField()
    not_billed = serializers.CharField()
    runs = RunSummaryAnswer(many=True)


@extend_schema(
    operation_id="report_usage",
    parameters=[
        OpenApiParameter("by", str, required=True, enum=usage_reports.BY),
        OpenApiParameter("from", OpenApiTypes.DATETIME, required=True),
        OpenApiParameter("to", OpenApiTypes.DATETIME, required=True, description="Excluded; at most 400 days later."),
        OpenApiParameter("scope", str, description="group:<id>, organisation:<id> or all; one's own without it."),
        OpenApiParameter("time_zone", str, description="Whose days; one's own by default."),
    ],
    responses={(200, "application/json"): UsageAnswer, (200, "text/csv"): OpenApiTypes.STR},
)
@api_view(["GET"])
@renderer_classes([JSONRenderer, CsvRenderer])
def usage(request: Request) -> HttpResponseBase:
    """What was used and charged in [from, to), by session, user, group, organisation, offering or day."""
    query = UsageQuery(data=request.query_params)
    query.is_valid(raise_exception=True)
    wanted, user = query.validated_data, me(request)
    zone = wanted["time_zone"] or user.time_zone or settings.GSHARE.time_zone
    asked = ReportAsked(wanted["from"], wanted["to"], "user", user.pk, ZoneInfo(zone))
    rows = usage_reports.usage(wanted["by"], usage_reports.scoped(asked, user, wanted["scope"]))
    if wants_csv(request):
        if len(rows) > CSV_MAX:
            raise invalid("to", str(_("Too many lines for a file. Give a shorter time.")))
        lines = ([line[name] for name in COLUMNS] for line in map(_line, rows))
        return csv_response(f"usage-by-{wanted['by']}.csv", COLUMNS, lines)
    return Response(
        {
            "by": wanted["by"],
            "from": time(wanted["from"]),
            "to": time(wanted["to"]),
            "time_zone": zone,
            "rows": [_line(row) for row in rows[:ROWS_MAX]],
            "total": _line(usage_total(rows)),
            "truncated": len(rows) > ROWS_MAX,
        }
    )


@extend_schema(operation_id="read_session_summary", responses=SummaryAnswer)
@api_view(["GET"])
def summary(request: Request, session_id: UUID) -> Response:
    """What the session's ended runs came to, each and together; kept for good."""
    found = usage_reports.summary(visible(request, session_id))
    return Response(
        {
            "session": str(found.session.pk),
            "final": found.final,
            "ended_at": time(found.session.ended_at) if found.session.ended_at else None,
            "running_seconds": found.running_us // 1_000_000,
            "charged": format_credits(found.charged),
            "not_billed": format_credits(found.not_billed),
            "runs": [_run(one) for one in found.runs],
        }
    )


def _line(row: UsageRow) -> dict[str, Any]:
    hours = (row.card_us / _HOUR_US).quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return {
        "key": row.key,
        "name": row.name,
        "amount": format_credits(row.amount),
        "running_seconds": row.running_us // 1_000_000,
        "card_hours": str(hours),
        "runs": row.runs,
        "sessions": row.sessions,
        "not_billed": format_credits(row.not_billed),
    }


def _run(one: usage_reports.RunSummary) -> dict[str, Any]:
    run, bill = one.run, one.bill
    return {
        "run": run.number,
        "opened_at": time(run.opened_at),
        "closed_at": time(run.closed_at) if run.closed_at else None,
        "node": run.node,
        "cards": run.card_uuids,
        "hourly_credits": format_credits(bill.hourly) if bill else None,
        "running_seconds": one.running_us // 1_000_000,
        "billed_from": time(bill.billed_from) if bill and bill.billed_from else None,
        "billed_to": time(bill.billed_to) if bill and bill.billed_to else None,
        "charged": format_credits(bill.charged if bill else 0),
        "not_billed": format_credits(bill.not_billed if bill else 0),
    }
