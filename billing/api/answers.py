"""Answers of billing's API, for its OpenAPI document. `documents` makes them; a test keeps the two in step.

Credits are strings with six decimals.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from billing.api.serializers import PERIOD
from billing.models import BudgetMode, RequestState, TransferKind

Answer = serializers.Serializer[dict[str, Any]]


class FromParent(Answer):
    """Something that a parent gives."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`parent` is the framework's own attribute, so it cannot be one of the class."""
        return super().get_fields() | {"parent": serializers.UUIDField()}


class GrantAnswer(FromParent):
    amount = serializers.CharField()
    since = serializers.DateField(help_text="The first day of its first month.")


class WalletAnswer(Answer):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=["system", "organisation", "group", "user"])
    owner = serializers.UUIDField(allow_null=True)
    balance = serializers.CharField()
    held = serializers.CharField()
    accrued = serializers.CharField()
    available = serializers.CharField()
    monthly_grants = GrantAnswer(many=True)
    name = serializers.CharField()


class TransferAnswer(Answer):
    id = serializers.UUIDField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=TransferKind.choices)
    debit = serializers.CharField(help_text="A wallet's id, mint or revenue.")
    credit = serializers.CharField(help_text="A wallet's id, mint or revenue.")
    amount = serializers.CharField()
    reference = serializers.UUIDField(allow_null=True)
    actor = serializers.UUIDField(allow_null=True)
    note = serializers.CharField()


class EntryAnswer(TransferAnswer):
    """A transfer as one wallet sees it, with the run that a charge pays for."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """`label` is the framework's own attribute, so it cannot be one of the class."""
        return super().get_fields() | {
            "number": serializers.IntegerField(),
            "change": serializers.CharField(),
            "balance": serializers.CharField(),
            "label": serializers.CharField(),
            "run": serializers.IntegerField(allow_null=True),
            "billed_from": serializers.DateTimeField(allow_null=True),
            "billed_to": serializers.DateTimeField(allow_null=True),
        }


class RefillAnswer(FromParent):
    """What a parent gave a wallet for a month, and what it fell short of."""

    id = serializers.UUIDField()
    month = serializers.DateField()
    wallet = serializers.UUIDField()
    name = serializers.CharField()
    amount = serializers.CharField()
    moved = serializers.CharField()
    shortfall = serializers.CharField()
    transfer = serializers.UUIDField(allow_null=True)
    at = serializers.DateTimeField()


class AskerAnswer(Answer):
    id = serializers.UUIDField()
    email = serializers.CharField()


class RequestAnswer(FromParent):
    """A request for credits, and how it was decided. `forwards`: the request below that it would pay for."""

    id = serializers.UUIDField()
    wallet = serializers.UUIDField()
    wallet_name = serializers.CharField()
    parent_name = serializers.CharField()
    amount = serializers.CharField()
    reason = serializers.CharField()
    state = serializers.ChoiceField(choices=RequestState.choices)
    asked_by = AskerAnswer()
    asked_at = serializers.DateTimeField()
    decided_by = AskerAnswer(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    decision = serializers.CharField()
    transfer = serializers.UUIDField(allow_null=True)
    forwards = serializers.UUIDField(allow_null=True)


@extend_schema_field(PERIOD)
class PeriodAnswer(serializers.Field):
    """`month`, or fixed dates."""


class BudgetAnswer(Answer):
    """A budget and its present period; `starts_at` is null while it does not count."""

    id = serializers.UUIDField()
    scope = serializers.CharField()
    limit = serializers.CharField()
    mode = serializers.ChoiceField(choices=BudgetMode.choices)
    period = PeriodAnswer()
    time_zone = serializers.CharField()
    created_at = serializers.DateTimeField()
    starts_at = serializers.DateTimeField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)
    spent = serializers.CharField()
    held = serializers.CharField()
    remaining = serializers.CharField()
    alerts = serializers.ListField(child=serializers.IntegerField(), help_text="Thresholds reached, percent.")


class ForecastAnswer(BudgetAnswer):
    """With where it is heading: `projected` at the end of the period, by the pace of the last seven days."""

    accrued = serializers.CharField(allow_null=True)
    pace_per_day = serializers.CharField(allow_null=True)
    projected = serializers.CharField(allow_null=True)
    reaches_limit_at = serializers.DateTimeField(allow_null=True)
    basis = serializers.ChoiceField(choices=["recent_spend", "nothing_spent"], allow_null=True)


class RefusalAnswer(Answer):
    code = serializers.CharField()
    detail = serializers.CharField()


class BulkLineAnswer(Answer):
    wallet = serializers.UUIDField()
    name = serializers.CharField()
    amount = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    transfer = serializers.UUIDField(allow_null=True)
    refusal = RefusalAnswer(allow_null=True)


class BulkAnswer(Answer):
    """What was moved, or with `dry_run` what would be; `before` and `after` are the parent's balance."""

    act = serializers.ChoiceField(choices=["allocate", "reclaim"])
    dry_run = serializers.BooleanField()
    wallet = serializers.UUIDField()
    total = serializers.CharField()
    before = serializers.CharField()
    after = serializers.CharField()
    refused = serializers.IntegerField()
    lines = BulkLineAnswer(many=True)
