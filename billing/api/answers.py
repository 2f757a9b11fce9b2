"""Answers of billing's API, for its OpenAPI document. `documents` makes them; a test keeps the two in step.

Credits are strings with six decimals.
"""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from billing.models import TransferKind

Answer = serializers.Serializer[dict[str, Any]]


class WalletAnswer(Answer):
    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=["system", "organisation", "group", "user"])
    owner = serializers.UUIDField(allow_null=True)
    balance = serializers.CharField()
    held = serializers.CharField()
    accrued = serializers.CharField()
    available = serializers.CharField()
    monthly_grants = serializers.ListField(child=serializers.DictField())
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
