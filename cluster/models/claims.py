"""Claims on cards and nodes, and the changes of the fleet that every process follows.

Guarantees by constraint: a run holds a card once; a claim that is open or orphaned blocks its card, one that is released
says when; changes of a cluster's fleet are numbered by its counter row, which is locked last and until the commit, so
that a follower who has seen n will never meet a smaller number later.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from cluster.models.metal import Card, Cluster, Node
from gshare_core.kit.fields import Identified


class ClaimQuerySet(models.QuerySet["Claim"]):
    """Filters that more than one place uses."""

    def holding(self) -> ClaimQuerySet:
        """Open and orphaned ones: what still blocks the metal."""
        return self.exclude(state=Claim.State.RELEASED)


class Claim(Identified):
    """A reserved part of one card (or, without a card, of a node only) that one run holds.

    A run's host resources stand on the first of its claims. `run_id` and `session_id` are references upward; `run` is
    the run's number, as operators know it. An orphaned claim waits for the operator to have observed `ending_generation`.
    """

    class Kind(models.TextChoices):
        ACTIVE = "active", _("active")
        PARKED = "parked", _("parked")

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ORPHANED = "orphaned", _("orphaned")
        RELEASED = "released", _("released")

    session_id = models.UUIDField()
    run_id = models.UUIDField()
    run = models.PositiveIntegerField()
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="claims")
    card = models.ForeignKey(Card, on_delete=models.PROTECT, null=True, blank=True, related_name="claims")
    kind = models.CharField(max_length=6, choices=Kind, default=Kind.ACTIVE)
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    is_exclusive = models.BooleanField(default=False)
    vram_mib = models.PositiveIntegerField(default=0)
    milli = models.PositiveIntegerField(default=0)
    slots = models.PositiveSmallIntegerField(default=0)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    scratch_gib = models.PositiveIntegerField(default=0)
    claimed_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)
    ending_generation = models.PositiveIntegerField(null=True, blank=True)

    objects = ClaimQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["run_id", "card"], condition=~Q(state="released"), name="claim_one_of_run_and_card"
            ),
            models.UniqueConstraint(
                fields=["run_id"], condition=Q(card=None) & ~Q(state="released"), name="claim_one_of_run_without_card"
            ),
            models.CheckConstraint(
                name="claim_release_is_dated",
                condition=Q(state="released", released_at__isnull=False) | (~Q(state="released") & Q(released_at=None)),
            ),
            models.CheckConstraint(
                name="claim_released_after_claimed",
                condition=Q(released_at=None) | Q(released_at__gte=F("claimed_at")),
            ),
            models.CheckConstraint(
                name="claim_orphan_names_generation",
                condition=~Q(state="orphaned") | Q(ending_generation__isnull=False),
            ),
            models.CheckConstraint(
                name="claim_share_needs_a_card",
                condition=Q(card__isnull=False) | Q(vram_mib=0, milli=0, slots=0),
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["run_id"], condition=~Q(state="released"), name="claim_held_of_run"),
            models.Index(fields=["card"], condition=~Q(state="released"), name="claim_held_of_card"),
            models.Index(fields=["node"], condition=~Q(state="released"), name="claim_held_of_node"),
            models.Index(fields=["node"], condition=Q(state="orphaned"), name="claim_orphaned"),
            models.Index(fields=["session_id", "claimed_at"], name="claim_of_session"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} claim of run {self.run_id}"


class Sequence(models.Model):
    """A cluster's counter: what followers follow is numbered from it. Its lock is the last but the timeline's."""

    cluster = models.OneToOneField(Cluster, on_delete=models.PROTECT, primary_key=True, related_name="sequence")
    last = models.BigIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(name="sequence_not_negative", condition=Q(last__gte=0))]

    def __str__(self) -> str:
        return f"{self.cluster_id}: {self.last}"


class FleetChange(Identified):
    """Something of a cluster's fleet changed: read the node again, or, without one, the whole cluster.

    `transaction` is PostgreSQL's id of the transaction that wrote it, by which a process knows its own uncommitted
    changes and keeps them out of what all its threads share.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    seq = models.BigIntegerField()
    node = models.ForeignKey(Node, on_delete=models.PROTECT, null=True, related_name="+")
    transaction = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["cluster", "seq"], name="fleet_change_seq_once")]

    def __str__(self) -> str:
        return f"{self.cluster_id} #{self.seq}"
