"""Bodies of this room's API: form only. What they mean is the services' to judge."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from rest_framework import serializers

from accounts.api.serializers import Body
from gshare_core.kit.names import NameField


class NewCluster(Body):
    """`POST /clusters`: with a kubeconfig's name a Kubernetes cluster, without one whose operator pulls."""

    name = serializers.CharField(max_length=63)
    kubeconfig = serializers.CharField(max_length=63, required=False, allow_null=True, allow_blank=True, default="")
    storage_classes = serializers.DictField(child=serializers.CharField(max_length=253), default=dict)


class ClusterChange(Body):
    """`PATCH` of a cluster."""

    name = serializers.CharField(max_length=63, required=False)
    kubeconfig = serializers.CharField(max_length=63, required=False)
    storage_classes = serializers.DictField(child=serializers.CharField(max_length=253), required=False)


class TokenWish(Body):
    """`POST /clusters/{id}/token`."""

    scope = serializers.CharField(max_length=16, default="operator")


class SweepWish(Body):
    """`POST /clusters/{id}/sweep`: how many ends the administrator was shown."""

    would_end = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class DrainWish(Body):
    """`POST /nodes/{id}/drain`: how its sessions leave, and why, which their owners read."""

    mode = serializers.CharField(max_length=16, default="reschedule")
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class ModeWish(Body):
    """`PUT /cards/{id}/mode`: how the card, and with it all cards of its node, shall be cut.

    `whole_node` says so where there are several; `drain` is how sessions leave them, if any are there, `reason` what
    their owners read. Which instances are made is HAMi's choice at each start: there is nothing to say about profiles.
    """

    mode = serializers.CharField(max_length=16)
    whole_node = serializers.BooleanField(default=False)
    drain = serializers.CharField(max_length=16, required=False, allow_blank=True, allow_null=True, default="")
    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        named = {"profile", "profiles", "mig_profile", "mig_profiles"} & set(self.initial_data)
        if named:
            message = _("HAMi makes instances as sessions need them: profiles cannot be chosen. Leave this out.")
            raise serializers.ValidationError({name: [message] for name in sorted(named)})
        return attrs


class NewPool(Body):
    """`POST /pools`."""

    cluster = serializers.UUIDField()
    name = serializers.CharField(max_length=63)
    shared = serializers.BooleanField(default=False)
    nodes = serializers.ListField(child=serializers.UUIDField(), default=list)


class PoolChange(Body):
    """`PATCH` of a pool; `nodes` are exactly those that stand in it afterwards."""

    name = serializers.CharField(max_length=63, required=False)
    nodes = serializers.ListField(child=serializers.UUIDField(), required=False)


class NewGrant(Body):
    """`POST /pools/{id}/grants`: one of the two."""

    organisation = serializers.UUIDField(required=False, allow_null=True, default=None)
    group = serializers.UUIDField(required=False, allow_null=True, default=None)


class NewVolume(Body):
    """`POST /volumes`; without a cluster, the only one that the caller may use."""

    name = NameField()
    kind = serializers.CharField(max_length=16, default="data")
    access = serializers.CharField(max_length=16, default="rwo")
    size_gib = serializers.IntegerField()
    cluster = serializers.UUIDField(required=False, allow_null=True, default=None)
    group = serializers.UUIDField(required=False, allow_null=True, default=None)


class VolumeChange(Body):
    """`PATCH` of a volume."""

    name = NameField(required=False)
    size_gib = serializers.IntegerField(required=False)


class NewShare(Body):
    """`POST /volumes/{id}/shares`: a user by id or e-mail address, or a group."""

    user = serializers.CharField(max_length=254, required=False, allow_blank=True, default="")
    group = serializers.UUIDField(required=False, allow_null=True, default=None)
    mode = serializers.CharField(max_length=2)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if bool(attrs["user"]) == (attrs["group"] is not None):
            raise serializers.ValidationError({"user": ["Name one person or one group."]})
        return attrs
