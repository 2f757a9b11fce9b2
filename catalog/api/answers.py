"""Answers of the catalogue's API, for its OpenAPI document. `catalogue` makes them; a test keeps the two in step."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from catalog.domain.tiers import Tier
from catalog.models import Visibility

Answer = serializers.Serializer[dict[str, Any]]


class PresetAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    tier = serializers.ChoiceField(choices=[tier.value for tier in Tier])
    cards = serializers.IntegerField()
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    scratch_gib = serializers.IntegerField()
    position = serializers.IntegerField()


class PriceAnswer(Answer):
    id = serializers.UUIDField()
    offering = serializers.UUIDField()
    hourly_credits = serializers.CharField(help_text="Credits for a whole card an hour.")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True, help_text="When the next price begins, as far as one is set.")
    state = serializers.ChoiceField(choices=["planned", "current", "past", "replaced"])


class ImageAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    reference = serializers.CharField()
    cuda = serializers.CharField(allow_null=True)
    apps = serializers.ListField(child=serializers.CharField())
    visibility = serializers.ChoiceField(choices=Visibility.choices)
    organisation = serializers.UUIDField(allow_null=True)
    group = serializers.UUIDField(allow_null=True)
