"""When this side was listening: our own silence is nobody's.

The internal listener stamps one row again and again; where stamps were missing, nothing that a cluster did not say counts
against it.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from gshare_core.kit.fields import Identified


class Heartbeat(models.Model):
    """The last stamp of a listener; there is one row, `internal`."""

    name = models.CharField(max_length=32, primary_key=True)
    stamped_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.stamped_at}"


class Deafness(Identified):
    """A stretch without stamps."""

    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(name="deafness_has_length", condition=Q(until__gt=F("since")))]
        indexes: ClassVar = [models.Index(fields=["until"], name="deafness_until")]

    def __str__(self) -> str:
        return f"{self.since} to {self.until}"
