"""The metal: clusters, pools, nodes, cards.

Guarantees by constraint: a card's claims never exceed what the card has, in VRAM, cores and slots; a node's neither; a
present card belongs to one cluster; a pool is shared or granted, a grant names one organisation or one group. What other
people's pods hold of a card is a column of its own: the conditional UPDATE that takes a share counts it, no CHECK does,
because it is a fact that may exceed what is left and must be recorded all the same.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from gshare_core.kit.fields import Identified

NAME_PATTERN = r"^[a-z0-9-]{1,63}$"
MIN_CARD_VRAM_MIB = 1


class ClusterQuerySet(models.QuerySet["Cluster"]):
    """Filters that more than one place uses."""

    def present(self) -> ClusterQuerySet:
        """Registered and not removed."""
        return self.filter(removed_at=None)


class Cluster(Identified):
    """A registered cluster. `kubeconfig` is the name of a reference; its content is never stored here.

    `sweep_*`: the sweep refuses to act since `sweep_held_at`, because it would end `sweep_ends` of the `sweep_listed` pods
    that the cluster runs; `sweep_confirmed` is how many ends an administrator has confirmed. `restored_at`: an operator
    knew of changes that this database does not have (it was restored). `delivered_seq`: documents up to this number were
    handed to the cluster, if it does not fetch them.
    """

    class Kind(models.TextChoices):
        LOCAL = "local", _("local")
        KUBE = "kube", _("Kubernetes")

    class State(models.TextChoices):
        PENDING = "pending", _("pending")
        CONNECTED = "connected", _("connected")
        SUSPECT = "suspect", _("suspect")
        LOST = "lost", _("lost")

    name = models.CharField(max_length=63, validators=[RegexValidator(NAME_PATTERN)])
    kind = models.CharField(max_length=5, choices=Kind)
    kubeconfig = models.CharField(max_length=63, blank=True, validators=[RegexValidator(NAME_PATTERN)])
    state = models.CharField(max_length=9, choices=State, default=State.PENDING)
    token_epoch = models.PositiveIntegerField(default=1)
    storage_classes = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()
    last_beat_at = models.DateTimeField(null=True, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)  # of the newest inventory, on this side's clock
    restored_at = models.DateTimeField(null=True, blank=True)
    delivered_seq = models.BigIntegerField(default=0)
    sweep_held_at = models.DateTimeField(null=True, blank=True)
    sweep_ends = models.PositiveIntegerField(default=0)
    sweep_listed = models.PositiveIntegerField(default=0)
    sweep_confirmed = models.PositiveIntegerField(default=0)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = ClusterQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["name"], condition=Q(removed_at=None), name="cluster_name_once"),
            models.CheckConstraint(name="cluster_name_plain", condition=Q(name__regex=NAME_PATTERN)),
            models.CheckConstraint(
                name="cluster_kubeconfig_is_a_name", condition=Q(kubeconfig="") | Q(kubeconfig__regex=NAME_PATTERN)
            ),
            models.CheckConstraint(name="cluster_epoch_positive", condition=Q(token_epoch__gte=1)),
            models.CheckConstraint(
                name="cluster_removed_after_created",
                condition=Q(removed_at=None) | Q(removed_at__gte=F("created_at")),
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["name", "id"], name="cluster_by_name")]

    def __str__(self) -> str:
        return self.name


class PoolQuerySet(models.QuerySet["Pool"]):
    """Filters that more than one place uses."""

    def home_of(self, cluster_id: UUID) -> Pool:
        """Where a cluster's new nodes stand: its first pool, made with it."""
        return self.filter(cluster_id=cluster_id).order_by("pk")[0]


class Pool(Identified):
    """A named set of nodes of one cluster: shared, or dedicated to whom its grants name."""

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="pools")
    name = models.CharField(max_length=63)
    is_shared = models.BooleanField(default=False)

    objects = PoolQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="pool_name_once"),
            models.CheckConstraint(name="pool_is_named", condition=~Q(name="")),
        ]
        indexes: ClassVar = [models.Index(fields=["name", "id"], name="pool_by_name")]

    def __str__(self) -> str:
        return self.name


class PoolGrant(Identified):
    """Who may use a dedicated pool: one organisation, or one group."""

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="grants")
    organisation = models.ForeignKey("accounts.Organisation", on_delete=models.PROTECT, null=True, related_name="+")
    group = models.ForeignKey("accounts.Group", on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="pool_grant_names_one",
                condition=Q(organisation=None, group__isnull=False) | Q(organisation__isnull=False, group=None),
            ),
            models.UniqueConstraint(fields=["pool", "organisation"], name="pool_grant_organisation_once"),
            models.UniqueConstraint(fields=["pool", "group"], name="pool_grant_group_once"),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} → {self.group_id or self.organisation_id}"


class Node(Identified):
    """A machine as its cluster last described it, and what claims hold of it beside cards.

    `missing_since` is set while the inventory does not list it; then it is not ready either, but still counts as
    registered until it is retired. `is_cordoned` is what an administrator said here, `is_unschedulable` what its own
    cluster says: either takes it out of placement.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="nodes")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="nodes")
    name = models.CharField(max_length=253)
    labels = models.JSONField(default=dict, blank=True)
    cpu_milli = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    scratch_gib = models.PositiveIntegerField()
    used_cpu_milli = models.PositiveIntegerField(default=0)
    used_memory_mib = models.PositiveIntegerField(default=0)
    used_scratch_gib = models.PositiveIntegerField(default=0)
    is_ready = models.BooleanField(default=False)
    not_ready_since = models.DateTimeField(null=True, blank=True)
    is_cordoned = models.BooleanField(default=False)
    is_unschedulable = models.BooleanField(default=False)
    is_yield_capable = models.BooleanField(default=False)
    missing_since = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], condition=Q(retired_at=None), name="node_name_once"),
            models.CheckConstraint(name="node_cpu_suffices", condition=Q(used_cpu_milli__lte=F("cpu_milli"))),
            models.CheckConstraint(name="node_memory_suffices", condition=Q(used_memory_mib__lte=F("memory_mib"))),
            models.CheckConstraint(name="node_scratch_suffices", condition=Q(used_scratch_gib__lte=F("scratch_gib"))),
            models.CheckConstraint(
                name="node_silence_is_dated",
                condition=Q(is_ready=True, not_ready_since=None) | Q(is_ready=False, not_ready_since__isnull=False),
            ),
            models.CheckConstraint(
                name="node_missing_is_not_ready", condition=Q(missing_since=None) | Q(is_ready=False)
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["name", "id"], name="node_by_name")]

    def __str__(self) -> str:
        return self.name


class NodeDrain(Identified):
    """A node that is being emptied: what runs on it must still leave it, above.

    `reason` is for the owners of what runs there, `asked_by` is who asked, as their timelines name him.
    """

    class Mode(models.TextChoices):
        RESCHEDULE = "reschedule", _("start elsewhere")
        STOP = "stop", _("stop")

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="drains")
    mode = models.CharField(max_length=10, choices=Mode)
    reason = models.CharField(max_length=500)
    asked_by = models.CharField(max_length=254)
    changed_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node"], condition=Q(closed_at=None), name="node_drain_open_once"),
            models.CheckConstraint(
                name="node_drain_closed_later", condition=Q(closed_at=None) | Q(closed_at__gte=F("changed_at"))
            ),
            models.CheckConstraint(name="node_drain_has_a_reason", condition=~Q(reason="")),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} ({self.mode})"


class Card(Identified):
    """A GPU as inventory last described it, and what claims hold of it. `*_milli` are thousandths of the card."""

    class Mode(models.TextChoices):
        HAMI_CORE = "hami-core", _("shared")
        MIG = "mig", _("MIG")
        MPS = "mps", _("MPS")

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="cards")
    uuid = models.CharField(max_length=80)
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=200)
    vram_mib = models.PositiveIntegerField()
    core_milli = models.PositiveIntegerField(default=1000)
    slots = models.PositiveSmallIntegerField()
    mode = models.CharField(max_length=9, choices=Mode, default=Mode.HAMI_CORE)
    mig_profiles = models.JSONField(default=list, blank=True)
    is_healthy = models.BooleanField(default=True)
    is_draining = models.BooleanField(default=False)
    used_vram_mib = models.PositiveIntegerField(default=0)
    used_milli = models.PositiveIntegerField(default=0)
    used_slots = models.PositiveSmallIntegerField(default=0)
    foreign_vram_mib = models.PositiveIntegerField(default=0)
    foreign_milli = models.PositiveIntegerField(default=0)
    foreign_slots = models.PositiveSmallIntegerField(default=0)
    missing_since = models.DateTimeField(null=True, blank=True)
    retired_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["uuid"], condition=Q(retired_at=None), name="card_uuid_once"),
            models.CheckConstraint(name="card_has_vram", condition=Q(vram_mib__gte=MIN_CARD_VRAM_MIB)),
            models.CheckConstraint(name="card_vram_suffices", condition=Q(used_vram_mib__lte=F("vram_mib"))),
            models.CheckConstraint(name="card_cores_suffice", condition=Q(used_milli__lte=F("core_milli"))),
            models.CheckConstraint(name="card_slots_suffice", condition=Q(used_slots__lte=F("slots"))),
        ]
        indexes: ClassVar = [
            models.Index(fields=["node", "index", "id"], name="card_of_node"),
            models.Index(fields=["uuid", "id"], name="card_by_uuid"),
        ]

    def __str__(self) -> str:
        return self.uuid
