"""`/api/v1/audit` and `/notifications`; both also as CSV."""

from __future__ import annotations

import json
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase, QueryDict
from drf_spectacular.utils import OpenApiTypes, extend_schema
from rest_framework.decorators import api_view, renderer_classes
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import notices
from accounts.api import answers, documents
from accounts.api.answers import page
from accounts.api.lists import listed, parameters
from accounts.api.requests import me
from accounts.models import AuditEntry
from accounts.permissions import visible_audit
from gshare_core.kit.lists import CsvRenderer, csv_response, csv_rows, wants_csv


@extend_schema(
    operation_id="list_audit",
    parameters=parameters(documents.AUDIT),
    responses={(200, "application/json"): page(answers.AuditEntryAnswer), (200, "text/csv"): OpenApiTypes.STR},
)
@api_view(["GET"])
@renderer_classes([JSONRenderer, CsvRenderer])
def audit(request: Request) -> HttpResponseBase:
    """Who did what in the groups and organisations that the caller administers, newest first."""
    rows = visible_audit(me(request))
    if not wants_csv(request):
        return listed(request, rows, documents.AUDIT, documents.audit_entry)
    return audit_file(rows, request.GET)


def audit_file(rows: QuerySet[AuditEntry], parameters: QueryDict) -> HttpResponse:
    """These entries, narrowed by the parameters, as CSV. Raises DomainError `invalid` when there are too many."""
    table = (documents.audit_entry(row) for row in csv_rows(rows, documents.AUDIT, parameters))
    return csv_response(
        "audit.csv",
        documents.AUDIT_COLUMNS,
        ([_cell(entry[name]) for name in documents.AUDIT_COLUMNS] for entry in table),
    )


@extend_schema(
    operation_id="list_notifications",
    parameters=parameters(documents.NOTICES),
    responses={(200, "application/json"): page(answers.NotificationAnswer), (200, "text/csv"): OpenApiTypes.STR},
)
@api_view(["GET"])
@renderer_classes([JSONRenderer, CsvRenderer])
def notifications(request: Request) -> HttpResponseBase:
    """The caller's own notices, newest first."""
    rows = notices.notices_of(me(request))
    if not wants_csv(request):
        return listed(request, rows, documents.NOTICES, documents.notice)
    table = (documents.notice(row) for row in csv_rows(rows, documents.NOTICES, request.GET))
    return csv_response(
        "notifications.csv",
        documents.NOTICE_COLUMNS,
        ([entry[name] for name in documents.NOTICE_COLUMNS] for entry in table),
    )


@extend_schema(operation_id="read_notification", request=None, responses=answers.NotificationAnswer)
@api_view(["POST"])
def read_notification(request: Request, notice_id: UUID) -> Response:
    """Mark one of one's own notices read."""
    return Response(documents.notice(notices.mark_read(notice_id=notice_id, by=me(request))))


@extend_schema(operation_id="read_all_notifications", request=None, responses=answers.ReadAnswer)
@api_view(["POST"])
def read_notifications(request: Request) -> Response:
    """Mark all of one's own notices read."""
    return Response({"read": notices.mark_all_read(by=me(request))})


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict) else value
