"""Where the books about cards disagree: what pods are annotated with, what HAMi counts, what open claims hold."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from cluster.models.metal import Card
from gshare_core.kit.fields import Identified


class CardDrift(Identified):
    """A disagreement about one card for as long as it lasts; alarmed once it has lasted for `GSHARE_DRIFT_SETTLE`."""

    card = models.OneToOneField(Card, on_delete=models.PROTECT, related_name="drift")
    words = models.JSONField()
    since = models.DateTimeField()
    alarmed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="card_drift_alarmed_later", condition=Q(alarmed_at=None) | Q(alarmed_at__gte=F("since"))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.card_id} since {self.since}"
