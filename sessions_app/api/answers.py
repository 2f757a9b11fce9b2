"""Answers of the sessions' API, for its OpenAPI document. `representation` and `overview` make them; a test keeps the two
in step. Credits are strings with six decimals, times RFC 3339 in UTC."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from accounts.domain.roles import Role
from sessions_app.domain import idle
from sessions_app.domain.lifecycle import State
from sessions_app.models import Mode, PauseMode

Answer = serializers.Serializer[dict[str, Any]]
AnyField = serializers.Field[Any, Any, Any, Any]
STATES = [state.value for state in State]
MOUNT_MODES = ["ro", "rw"]
APPS = ["lab", "terminal", "code"]
SEAT_ROLES = [Role.GUEST.value, Role.MEMBER.value, Role.GROUP_ADMIN.value]


class SessionOwnerAnswer(Answer):
    id = serializers.UUIDField()
    email = serializers.EmailField()


class ResourcesAnswer(Answer):
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    scratch_gib = serializers.IntegerField()


class HeldCardAnswer(Answer):
    uuid = serializers.CharField()
    node = serializers.CharField()
    kind = serializers.ChoiceField(choices=["shared", "exclusive"])


class GpuAnswer(Answer):
    vram_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField()
    cards = HeldCardAnswer(many=True)
    occupancy = serializers.CharField(help_text="Share of one card, or number of cards; six decimals.")


class CostAnswer(Answer):
    hourly_credits = serializers.CharField()
    accrued = serializers.CharField()
    charged = serializers.CharField()
    held = serializers.CharField()
    lasts_until = serializers.DateTimeField(allow_null=True)


class WaitAnswer(Answer):
    lane = serializers.CharField()
    position = serializers.IntegerField()
    reason = serializers.CharField()
    detail = serializers.CharField()
    missing = serializers.DictField()
    estimate_at = serializers.DateTimeField(allow_null=True)
    basis = serializers.CharField()


class IdleAnswer(Answer):
    state = serializers.ChoiceField(choices=[state.value for state in idle.State], allow_null=True)
    idle_since = serializers.DateTimeField(allow_null=True)
    will_pause_at = serializers.DateTimeField(allow_null=True)
    timeout_min = serializers.IntegerField(allow_null=True)
    kept_alive_until = serializers.DateTimeField(allow_null=True)
    evidence = serializers.DictField()


class RuntimeAnswer(Answer):
    max_min = serializers.IntegerField(allow_null=True)
    ends_at = serializers.DateTimeField(allow_null=True)


class MountAnswer(Answer):
    volume = serializers.UUIDField()
    path = serializers.CharField()
    mode = serializers.ChoiceField(choices=MOUNT_MODES)


class SessionAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    reason = serializers.CharField(allow_null=True)
    detail = serializers.CharField()
    owner = SessionOwnerAnswer()
    group = serializers.UUIDField()
    organisation = serializers.UUIDField()
    mode = serializers.ChoiceField(choices=Mode.choices)
    offering = serializers.UUIDField(allow_null=True)
    preset = serializers.UUIDField(allow_null=True)
    image = serializers.UUIDField()
    resources = ResourcesAnswer()
    gpu = GpuAnswer(allow_null=True)
    run = serializers.IntegerField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    state_since = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    running_seconds = serializers.IntegerField()
    cost = CostAnswer()
    queue = WaitAnswer(allow_null=True)
    idle = IdleAnswer()
    runtime = RuntimeAnswer()
    apps = serializers.ListField(child=serializers.ChoiceField(choices=APPS))
    volumes = MountAnswer(many=True)
    pause_mode = serializers.ChoiceField(choices=PauseMode.choices)
    preemptible = serializers.BooleanField()
    priority = serializers.IntegerField()
    auto_resume = serializers.BooleanField()
    resume_at = serializers.DateTimeField(
        allow_null=True, help_text="Paused, and tried again by itself from then on; `stay-paused` calls that off."
    )
    allowed = serializers.ListField(child=serializers.CharField())


class TimelineAnswer(Answer):
    """A row of the history, newest first."""

    def get_fields(self) -> dict[str, AnyField]:
        """Written as a dictionary because `from` is a word of the language."""
        return {
            "at": serializers.DateTimeField(),
            "run": serializers.IntegerField(),
            "event": serializers.CharField(),
            "from": serializers.ChoiceField(choices=STATES, allow_null=True),
            "to": serializers.ChoiceField(choices=STATES, allow_null=True),
            "actor": serializers.CharField(),
            "reason": serializers.CharField(allow_null=True),
            "detail": serializers.CharField(),
            "charged": serializers.CharField(),
            "held": serializers.CharField(),
            "billed_from": serializers.DateTimeField(allow_null=True),
            "billed_to": serializers.DateTimeField(allow_null=True),
        }


class LogLineAnswer(Answer):
    """A line of a log as plain text."""

    def get_fields(self) -> dict[str, AnyField]:
        """Two fields, of which `source` is the framework's own attribute."""
        wrote = serializers.CharField(help_text="The application or container that wrote it.")
        return {"source": wrote, "text": serializers.CharField(allow_blank=True)}


class LogsAnswer(Answer):
    """The last lines of a run's logs, the newest last of each source. No lines: nothing has begun, or all of it is gone."""

    run = serializers.IntegerField(help_text="0 before the first run.")
    lines = LogLineAnswer(many=True)


class LinkAnswer(Answer):
    """A one-time link."""

    url = serializers.URLField()
    expires_at = serializers.DateTimeField()


class GateAnswer(Answer):
    gate = serializers.IntegerField(min_value=1, max_value=8)
    passed = serializers.BooleanField()
    code = serializers.CharField()
    detail = serializers.CharField()
    remedy = serializers.CharField()
    facts = serializers.DictField()


class WhereAnswer(Answer):
    cluster = serializers.UUIDField()
    node = serializers.CharField()
    cards = serializers.ListField(child=serializers.CharField())


class PreviewAnswer(Answer):
    outcome = serializers.ChoiceField(choices=["placed", "queued", "refused"])
    hourly_credits = serializers.CharField()
    hold_credits = serializers.CharField()
    placement = WhereAnswer(allow_null=True)
    missing = serializers.DictField()
    queue_length = serializers.IntegerField()
    gates = GateAnswer(many=True)


class TierAnswer(Answer):
    vram_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField()
    cards = serializers.IntegerField()
    hourly_credits = serializers.CharField()
    free_now = serializers.IntegerField(help_text="How many of this size would start now.")
    queue_length = serializers.IntegerField()


class OfferingAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    model = serializers.CharField()
    vram_mib = serializers.IntegerField()
    min_cuda = serializers.CharField()
    yield_allowed = serializers.BooleanField()
    hourly_credits = serializers.CharField(allow_null=True, help_text="Of a whole card.")
    tiers = serializers.DictField(child=TierAnswer())


class MyselfAnswer(Answer):
    id = serializers.UUIDField()
    email = serializers.EmailField()
    name = serializers.CharField()
    language = serializers.CharField()


class MyGroupAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=SEAT_ROLES)


class MyWalletAnswer(Answer):
    id = serializers.UUIDField(allow_null=True, help_text="None before its first use.")
    kind = serializers.CharField()
    owner = serializers.UUIDField(allow_null=True)
    balance = serializers.CharField()
    held = serializers.CharField()
    accrued = serializers.CharField()
    available = serializers.CharField()
    monthly_grants = serializers.ListField(child=serializers.DictField())


class MeAnswer(Answer):
    user = MyselfAnswer()
    organisation = serializers.UUIDField(allow_null=True)
    groups = MyGroupAnswer(many=True)
    super_admin = serializers.BooleanField()
    wallet = MyWalletAnswer()
    must_change_password = serializers.BooleanField()


class EffectiveLimitAnswer(Answer):
    value = serializers.IntegerField(allow_null=True)
    scope = serializers.CharField(allow_null=True, help_text="Which scope set it.")
    used = serializers.IntegerField(allow_null=True, help_text="Null where nothing adds up, such as a time.")
    remaining = serializers.IntegerField(allow_null=True, help_text="What every bound leaves, totals too.")


class TotalLimitAnswer(EffectiveLimitAnswer):
    field = serializers.CharField()


class EffectivePolicyAnswer(Answer):
    def get_fields(self) -> dict[str, AnyField]:
        """One field, `fields`, whose name is the framework's own attribute."""
        return {
            "fields": serializers.DictField(child=EffectiveLimitAnswer()),
            "totals": TotalLimitAnswer(many=True, help_text="Of the group and the organisation, with everybody's use."),
        }
