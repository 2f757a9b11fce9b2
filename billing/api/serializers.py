"""Bodies of billing's API: form only. What they mean is the services' to judge."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiTypes, extend_schema_field
from rest_framework import serializers

from billing.bulk import MOVES_MAX
from billing.models import BudgetMode
from billing.moving import NOTE_MAX
from gshare_core.kit.api_fields import CreditsField, Text

_DAY = {"type": "string", "format": "date"}
PERIOD = {
    "oneOf": [
        {"type": "string", "enum": ["month"]},
        {"type": "object", "properties": {"from": _DAY, "to": _DAY}, "required": ["from", "to"]},
    ]
}
OWNER_KINDS = ("user", "group", "organisation")


@extend_schema_field(OpenApiTypes.STR)
class WalletField(Text):
    """A wallet's id, or its owner as `user:<id>`, `group:<id>`, `organisation:<id>` (whose wallet may not exist yet)."""

    default_error_messages = {"invalid": _("Give the id of a wallet, or user:<id>, group:<id>, organisation:<id>.")}

    def to_internal_value(self, data: Any) -> tuple[str, UUID]:
        kind, separator, key = str(data).rpartition(":")
        if separator and kind not in OWNER_KINDS:
            self.fail("invalid")
        try:
            return kind or "wallet", UUID(key)
        except ValueError:
            self.fail("invalid")


class Move(serializers.Serializer):
    """`POST /wallets/{id}/allocate` and `/reclaim`: where the credits go."""

    to = WalletField()
    amount = CreditsField()
    note = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")


@extend_schema_field(OpenApiTypes.STR)
class ScopeField(Text):
    """Whose spend a budget limits: `user:<id>`, `group:<id>` or `organisation:<id>`."""

    default_error_messages = {"invalid": _("Write user:<id>, group:<id> or organisation:<id>.")}

    def to_internal_value(self, data: Any) -> tuple[str, UUID]:
        kind, _separator, key = str(data).partition(":")
        if kind not in OWNER_KINDS:
            self.fail("invalid")
        try:
            return kind, UUID(key)
        except ValueError:
            self.fail("invalid")


class Dates(serializers.Serializer):
    """A budget's fixed dates, both included."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`from` is a word of the language."""
        return super().get_fields() | {"from": serializers.DateField(), "to": serializers.DateField()}


@extend_schema_field(PERIOD)
class PeriodField(Text):
    """`month`, or `{"from", "to"}` → first and last day (both None for months)."""

    default_error_messages = {
        "invalid": _("Write month, or from and to as dates."),
        "order": _("The last day lies before the first."),
    }

    def to_internal_value(self, data: Any) -> tuple[date | None, date | None]:
        if data == "month":
            return None, None
        dates = Dates(data=data)
        if not isinstance(data, dict) or not dates.is_valid():
            self.fail("invalid")
        first, last = dates.validated_data["from"], dates.validated_data["to"]
        if last < first:
            self.fail("order")
        return first, last


class NewBudget(serializers.Serializer):
    """`POST /budgets`."""

    scope = ScopeField()
    limit = CreditsField()
    mode = serializers.ChoiceField(choices=BudgetMode.choices)
    period = PeriodField()
    time_zone = serializers.CharField(max_length=64)


class BudgetChange(serializers.Serializer):
    """`PATCH /budgets/{id}`: limit and mode; what else it is never changes."""

    limit = CreditsField(required=False)
    mode = serializers.ChoiceField(choices=BudgetMode.choices, required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Refuses what would rewrite its past."""
        fixed = sorted(set(self.initial_data) - set(self.fields))
        if fixed:
            raise serializers.ValidationError(
                {name: [_("This never changes. Close the budget and make another.")] for name in fixed}
            )
        return attrs


class Grant(serializers.Serializer):
    """`PUT /wallets/{id}/monthly-grant`: what the parent gives it each month; 0 ends it."""

    amount = CreditsField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`parent` is the framework's own attribute, so it cannot be one of the class."""
        return super().get_fields() | {"parent": WalletField()}


class CreditAsk(serializers.Serializer):
    """`POST /credit-requests`. Without `wallet` one's own; without `parent` what stands above, when that is one only."""

    wallet = WalletField(required=False, allow_null=True, default=None)
    amount = CreditsField()
    reason = serializers.CharField(max_length=NOTE_MAX, allow_blank=True, required=False, default="")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`parent` is the framework's own attribute, so it cannot be one of the class."""
        return super().get_fields() | {"parent": WalletField(required=False, allow_null=True, default=None)}


class Note(serializers.Serializer):
    """`POST /credit-requests/{id}/approve`, `/forward`: a word with it."""

    note = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")


class Rejection(serializers.Serializer):
    """`POST /credit-requests/{id}/reject`: why."""

    reason = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")


class BulkLine(serializers.Serializer):
    """One line of `POST /wallets/{id}/bulk`: a child of the wallet, and how much."""

    wallet = WalletField()
    amount = CreditsField()


class Bulk(serializers.Serializer):
    """`POST /wallets/{id}/bulk`: this wallet gives to, or takes back from, each of the lines' wallets."""

    act = serializers.ChoiceField(choices=["allocate", "reclaim"])
    moves = serializers.ListField(child=BulkLine(), min_length=1, max_length=MOVES_MAX)
    note = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")
    dry_run = serializers.BooleanField(required=False, default=False)


class Issue(serializers.Serializer):
    """`POST /wallets/system/issue`."""

    amount = CreditsField()
    note = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")


class Adjust(serializers.Serializer):
    """`POST /wallets/{id}/adjust`: a signed amount, and why."""

    amount = CreditsField()
    note = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")
    reason = serializers.CharField(max_length=NOTE_MAX, required=False, allow_blank=True, default="")
