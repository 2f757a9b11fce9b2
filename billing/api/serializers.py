"""Bodies of billing's API: form only. What they mean is the services' to judge."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils.translation import gettext_lazy as _
from drf_spectacular.utils import OpenApiTypes, extend_schema_field
from rest_framework import serializers

from billing.bulk import MOVES_MAX
from billing.moving import NOTE_MAX
from gshare_core.money import parse_credits

OWNER_KINDS = ("user", "group", "organisation")


class Text(serializers.Field):
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
