"""Changes of how a node's cards are cut: shared by HAMi's core, or in MIG instances.

Guarantees by constraint: one change a node is open; one that has ended says when; the operator was told which cards before
anything was asked of it.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from cluster.models.metal import Node
from gshare_core.contract import MESSAGE_BYTES
from gshare_core.kit.fields import Identified


class ModeChange(Identified):
    """All cards of a node that shall be cut another way: HAMi 2.10 can only change them together.

    While it is open (also after it failed: nobody knows how the cards are cut) the node's cards are draining. `has_begun`:
    the operator may have changed something on the node. `is_written`: its resource may exist in the cluster. `calls_off`:
    it shall be withdrawn if nothing has begun. `has_cordoned`: it was this change that cordoned the node, and it takes
    that back. `phase` and `message` are the operator's words; `stepped_at` is when state or phase last changed.
    """

    class Target(models.TextChoices):
        HAMI_CORE = "hami-core", _("shared")
        MIG = "mig", _("MIG")

    class State(models.TextChoices):
        DRAINING = "draining", _("draining")
        APPLYING = "applying", _("applying")
        FAILED = "failed", _("failed")
        DONE = "done", _("done")
        CALLED_OFF = "called_off", _("called off")

    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="mode_changes")
    target = models.CharField(max_length=9, choices=Target)
    state = models.CharField(max_length=10, choices=State, default=State.DRAINING)
    card_uuids = models.JSONField(default=list, blank=True)
    asked_by = models.CharField(max_length=254)
    asked_at = models.DateTimeField()
    stepped_at = models.DateTimeField()
    has_begun = models.BooleanField(default=False)
    is_written = models.BooleanField(default=False)
    calls_off = models.BooleanField(default=False)
    has_cordoned = models.BooleanField(default=False)
    phase = models.CharField(max_length=16, blank=True)
    message = models.CharField(max_length=MESSAGE_BYTES, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node"], condition=Q(closed_at=None), name="mode_change_open_once"),
            models.CheckConstraint(
                name="mode_change_closed_later", condition=Q(closed_at=None) | Q(closed_at__gte=F("asked_at"))
            ),
            models.CheckConstraint(
                name="mode_change_end_is_dated",
                condition=Q(state__in=("draining", "applying"), closed_at=None)
                | Q(state="failed")
                | Q(state__in=("done", "called_off"), closed_at__isnull=False),
            ),
            models.CheckConstraint(name="mode_change_names_cards", condition=Q(is_written=False) | ~Q(card_uuids=[])),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["id"], condition=Q(closed_at=None) | Q(is_written=True), name="mode_change_to_look_after"
            )
        ]

    def __str__(self) -> str:
        return f"{self.node_id} → {self.target}"
