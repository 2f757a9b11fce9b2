"""Bodies of the sessions' API: form only; what they mean is admission's to judge."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from cluster.port import LOG_LINES_MAX
from gshare_core.contract.wire import SMALL_MAX
from gshare_core.kit.names import NameField
from sessions_app.api.answers import APPS, MOUNT_MODES
from sessions_app.domain.facts import Ask, CustomAsk, MountAsk
from sessions_app.models import PauseMode

MILLION = 1_000_000
_own = threading.local()


class MountSerializer(serializers.Serializer[dict[str, Any]]):
    """A volume at a path."""

    volume = serializers.UUIDField()
    path = serializers.CharField(max_length=1024)
    mode = serializers.ChoiceField(choices=MOUNT_MODES, default="rw")


class CustomSerializer(serializers.Serializer[dict[str, Any]]):
    """A shape of one's own; units as the names say, `core_percent` of one card."""

    cpu_milli = serializers.IntegerField(min_value=100, max_value=MILLION)
    memory_mib = serializers.IntegerField(min_value=128, max_value=100 * MILLION)
    scratch_gib = serializers.IntegerField(min_value=0, max_value=MILLION)
    vram_mib = serializers.IntegerField(min_value=0, max_value=MILLION, default=0)
    core_percent = serializers.IntegerField(min_value=0, max_value=100, default=0)
    cards = serializers.IntegerField(min_value=0, max_value=8, default=0)


class AskSerializer(serializers.Serializer[dict[str, Any]]):
    """Body of create and preview."""

    name = NameField()
    group = serializers.UUIDField()
    offering = serializers.UUIDField(required=False, allow_null=True, default=None)
    preset = serializers.UUIDField(required=False, allow_null=True, default=None)
    image = serializers.UUIDField()
    custom = CustomSerializer(required=False, allow_null=True, default=None)
    wallet = serializers.UUIDField(required=False, allow_null=True, default=None)
    cluster = serializers.UUIDField(required=False, allow_null=True, default=None)
    volumes = MountSerializer(many=True, required=False, default=list, max_length=16)  # type: ignore[call-arg]  # the list's
    priority = serializers.IntegerField(min_value=0, max_value=100, default=0)
    preemptible = serializers.BooleanField(default=False)
    privileged = serializers.BooleanField(default=False)
    pause_mode = serializers.ChoiceField(choices=PauseMode.choices, default=PauseMode.COLD)
    auto_resume = serializers.BooleanField(default=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Either a preset or a shape of one's own."""
        if (attrs["preset"] is None) == (attrs["custom"] is None):
            raise serializers.ValidationError({"preset": ["Choose a size, or give a shape of your own, not both."]})
        return attrs

    @classmethod
    def read(cls, body: Any) -> Ask:
        """The domain's value of a body. Raises ValidationError.

        The fields of one serializer serve all requests of a thread: copying them costs several times what they do.
        """
        if not hasattr(_own, "serializer"):
            _own.serializer = cls()
        try:
            return cls._ask(_own.serializer.run_validation(body))
        except serializers.ValidationError:
            told = cls(data=body)  # which puts what is wrong in the form that clients know
            told.is_valid(raise_exception=True)
            return told.ask()

    def ask(self) -> Ask:
        """The validated body as the domain's value."""
        return self._ask(self.validated_data)

    @staticmethod
    def _ask(data: Mapping[str, Any]) -> Ask:
        return Ask(
            name=data["name"],
            group=data["group"],
            image=data["image"],
            offering=data["offering"],
            preset=data["preset"],
            custom=CustomAsk(**data["custom"]) if data["custom"] else None,
            wallet=data["wallet"],
            cluster=data["cluster"],
            mounts=tuple(MountAsk(m["volume"], m["path"], m["mode"]) for m in data["volumes"]),
            priority=data["priority"],
            preemptible=data["preemptible"],
            privileged=data["privileged"],
            pause_mode=data["pause_mode"],
            auto_resume=data["auto_resume"],
        )


class VerbSerializer(serializers.Serializer[dict[str, Any]]):
    """Body of pause, resume, restart, stop, keep-alive, stay-paused."""

    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class OpenSerializer(serializers.Serializer[dict[str, Any]]):
    """Body of access."""

    app = serializers.ChoiceField(choices=APPS)
    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class PrioritySerializer(serializers.Serializer[dict[str, Any]]):
    """Body of `PATCH /queue/{session}`."""

    priority = serializers.IntegerField(min_value=0, max_value=100)
    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class LogsQuery(serializers.Serializer[dict[str, Any]]):
    """Query of logs."""

    run = serializers.IntegerField(min_value=1, max_value=SMALL_MAX, required=False)
    lines = serializers.IntegerField(min_value=1, max_value=LOG_LINES_MAX, required=False)
