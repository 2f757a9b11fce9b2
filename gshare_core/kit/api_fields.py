"""Fields of API bodies that more than one application reads: amounts of credits, moments. Form only."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiTypes, extend_schema_field
from rest_framework import serializers

from gshare_core.money import parse_credits


class Text(serializers.Field[Any, Any, Any, Any]):
    """A field that is written as text and only read from bodies."""

    def to_representation(self, value: Any) -> Any:
        raise NotImplementedError("bodies are only read")


@extend_schema_field(OpenApiTypes.STR)
class CreditsField(Text):
    """Credits as a decimal string (or a whole number) → micro-credits. Floats are refused: they round."""

    default_error_messages = {"invalid": _("Write an amount such as 12.5, as a string.")}

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, (str, int)):
            self.fail("invalid")
        try:
            return parse_credits(str(data))
        except ValueError:
            self.fail("invalid")


@extend_schema_field(OpenApiTypes.DATETIME)
class MomentField(Text):
    """A date and time with its zone → a datetime in UTC. Without a zone it would be somebody's guess whose midnight it is."""

    default_error_messages = {"invalid": _("Write a date and time with its zone, such as 2026-11-01T00:00:00+09:00.")}

    def to_internal_value(self, data: Any) -> datetime:
        try:
            moment = parse_datetime(data) if isinstance(data, str) else None
            if moment is None or moment.tzinfo is None:
                self.fail("invalid")
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):  # no such day; the first and last days of the calendar in other zones
            self.fail("invalid")
