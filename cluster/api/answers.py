"""Answers of this room's API, for its OpenAPI document. `documents` makes them; a test keeps the two in step."""

from __future__ import annotations

from rest_framework import serializers

from accounts.api.answers import Answer, PersonAnswer
from cluster.models import Card, Cluster, ModeChange, NodeDrain, Volume, VolumeShare


class SweepAnswer(Answer):
    """Whether the sweep refuses to act: since when, and how many of the listed pods it would end."""

    held_since = serializers.DateTimeField(allow_null=True)
    would_end = serializers.IntegerField()
    listed = serializers.IntegerField()
    confirmed = serializers.IntegerField()
    restored_at = serializers.DateTimeField(allow_null=True)


class ClusterAnswer(Answer):
    """Whoever may use it sees name, kind and state; who runs it the rest."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Cluster.Kind.choices)
    state = serializers.ChoiceField(choices=Cluster.State.choices)
    kubeconfig = serializers.CharField(allow_null=True, required=False)
    storage_classes = serializers.DictField(child=serializers.CharField(), required=False)
    created_at = serializers.DateTimeField(required=False)
    last_beat_at = serializers.DateTimeField(allow_null=True, required=False)
    sweep = SweepAnswer(required=False)


class FindingAnswer(Answer):
    """One thing that is not as sessions need it; an `error` keeps them from running, a `warning` bites later."""

    severity = serializers.ChoiceField(choices=["error", "warning", "note"])
    code = serializers.CharField()
    where = serializers.CharField()
    words = serializers.CharField()
    remedy = serializers.CharField()


class ExaminedAnswer(Answer):
    """Whether a cluster can be reached and, of one that we write to, what its pre-flight test found, the gravest first."""

    reachable = serializers.BooleanField()
    problem = serializers.CharField(allow_null=True)
    state = serializers.ChoiceField(choices=Cluster.State.choices)
    last_beat_at = serializers.DateTimeField(allow_null=True)
    findings = FindingAnswer(many=True)


class TokenAnswer(Answer):
    """Shown this once: what a cluster's program reads from its token file."""

    token = serializers.CharField()
    cluster = serializers.UUIDField()
    cluster_key = serializers.CharField()
    expires_at = serializers.DateTimeField()


class HostUseAnswer(Answer):
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    scratch_gib = serializers.IntegerField()


class NodeDrainAnswer(Answer):
    """How the node is being emptied; over when this is null and no session holds anything."""

    mode = serializers.ChoiceField(choices=NodeDrain.Mode.choices)
    reason = serializers.CharField()
    since = serializers.DateTimeField()


class NodeAnswer(Answer):
    id = serializers.UUIDField()
    cluster = serializers.UUIDField()
    pool = serializers.UUIDField()
    name = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    ready = serializers.BooleanField()
    not_ready_since = serializers.DateTimeField(allow_null=True)
    cordoned = serializers.BooleanField()
    unschedulable = serializers.BooleanField()
    drain = NodeDrainAnswer(allow_null=True)
    sessions = serializers.IntegerField()
    missing_since = serializers.DateTimeField(allow_null=True)
    yield_capable = serializers.BooleanField()
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    scratch_gib = serializers.IntegerField()
    used = HostUseAnswer()


class CardUseAnswer(Answer):
    vram_mib = serializers.IntegerField()
    core_milli = serializers.IntegerField()
    slots = serializers.IntegerField()


class NamedAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()


class DriftAnswer(Answer):
    """What the books about a card disagree on, for too long."""

    words = serializers.ListField(child=serializers.CharField())
    since = serializers.DateTimeField()


class ModeChangeAnswer(Answer):
    """How the card shall be cut, and how far that is; `message` says what it waits for, or why it failed."""

    id = serializers.UUIDField()
    target = serializers.ChoiceField(choices=ModeChange.Target.choices)
    state = serializers.ChoiceField(choices=ModeChange.State.choices)
    phase = serializers.CharField(allow_null=True)
    message = serializers.CharField()
    asked_at = serializers.DateTimeField()
    since = serializers.DateTimeField()
    called_off = serializers.BooleanField()


class CardAnswer(Answer):
    id = serializers.UUIDField()
    node = NamedAnswer()
    uuid = serializers.CharField()
    index = serializers.IntegerField()
    model = serializers.CharField()
    vram_mib = serializers.IntegerField()
    core_percent = serializers.IntegerField()
    slots = serializers.IntegerField()
    mode = serializers.ChoiceField(choices=Card.Mode.choices)
    healthy = serializers.BooleanField()
    draining = serializers.BooleanField()
    mode_change = ModeChangeAnswer(allow_null=True)
    missing_since = serializers.DateTimeField(allow_null=True)
    used = CardUseAnswer()
    foreign = CardUseAnswer()
    drift = DriftAnswer(allow_null=True)


class PoolGrantAnswer(Answer):
    id = serializers.UUIDField()
    pool = serializers.UUIDField()
    organisation = serializers.UUIDField(allow_null=True)
    group = serializers.UUIDField(allow_null=True)


class PoolAnswer(Answer):
    id = serializers.UUIDField()
    cluster = serializers.UUIDField()
    name = serializers.CharField()
    shared = serializers.BooleanField()
    nodes = serializers.ListField(child=serializers.UUIDField())
    grants = PoolGrantAnswer(many=True)


class OwnerAnswer(Answer):
    id = serializers.UUIDField()
    email = serializers.EmailField()


class VolumeAnswer(Answer):
    id = serializers.UUIDField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Volume.Kind.choices)
    access = serializers.ChoiceField(choices=Volume.Access.choices)
    size_gib = serializers.IntegerField()
    cluster = serializers.UUIDField()
    owner = OwnerAnswer(allow_null=True)
    group = serializers.UUIDField(allow_null=True)
    mode = serializers.ChoiceField(choices=VolumeShare.Mode.choices, allow_null=True)
    in_use = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    deleted_at = serializers.DateTimeField(allow_null=True)
    restorable_until = serializers.DateTimeField(allow_null=True)


class VolumeShareAnswer(Answer):
    id = serializers.UUIDField()
    volume = serializers.UUIDField()
    user = PersonAnswer(allow_null=True)
    group = serializers.UUIDField(allow_null=True)
    mode = serializers.ChoiceField(choices=VolumeShare.Mode.choices)
    created_at = serializers.DateTimeField()
