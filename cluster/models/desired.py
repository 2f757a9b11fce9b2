"""What the control plane wants of each session: the document that an operator pulls or that is applied for it.

Guarantees by constraint: one document a session and cluster, so that what one cluster shall end stays written while the
session runs on another; its `seq` comes from the cluster's counter and is unique there.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from cluster.models.metal import Cluster
from gshare_core.contract import Desired as Wanted
from gshare_core.kit.fields import Identified


class Desired(Identified):
    """A session's document for one cluster; without `spec` a tombstone that stays until its `gone` was acknowledged.

    `run` and `generation` are those of the document (of a tombstone: those that it ends). `observed_*` is the newest that
    the operator said it has seen, `accepted_at` when it had seen this one.
    """

    session_id = models.UUIDField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="+")
    seq = models.BigIntegerField()
    run = models.PositiveIntegerField()
    generation = models.PositiveIntegerField()
    spec = models.JSONField(null=True)
    written_at = models.DateTimeField()
    is_confirmed = models.BooleanField(default=False)  # a tombstone that an administrator has confirmed
    accepted_at = models.DateTimeField(null=True)
    observed_run = models.PositiveIntegerField(default=0)
    observed_generation = models.PositiveIntegerField(default=0)
    observed_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session_id", "cluster"], name="desired_one_of_session_and_cluster"),
            models.UniqueConstraint(fields=["cluster", "seq"], name="desired_seq_once"),
            models.CheckConstraint(name="desired_order_positive", condition=Q(run__gte=1, generation__gte=1)),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "written_at"], condition=Q(accepted_at=None), name="desired_unaccepted"),
        ]

    def __str__(self) -> str:
        return f"{self.session_id} run {self.run} generation {self.generation}"

    @property
    def order(self) -> tuple[int, int]:
        """What makes one document newer than another."""
        return (self.run, self.generation)

    @property
    def ends(self) -> bool:
        """Whether it keeps nothing running: a tombstone, or a document that pauses or stops."""
        return self.spec is None or self.spec.get("desired") in (Wanted.PAUSED, Wanted.STOPPED)


class Listing(models.Model):
    """The pods that a cluster's newest inventory listed, as (session, run, generation), also of sessions nobody knows.

    `observed_at` is when the cluster looked, on this side's clock. Without `is_complete` some rows could not be read:
    what is not listed may exist all the same.
    """

    cluster = models.OneToOneField(Cluster, on_delete=models.PROTECT, primary_key=True, related_name="listing")
    observed_at = models.DateTimeField()
    is_complete = models.BooleanField()
    pods = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{len(self.pods)} pods of {self.cluster_id}"
