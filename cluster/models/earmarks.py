"""Metal that drains towards somebody who has waited long.

Guarantees by constraint: a session has at most one earmark; its amounts are not negative. An earmark takes nothing: it keeps
others from taking more (`cluster.fleet_rows` shows it to them as used), and is given up when its session stops waiting.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from cluster.models.metal import Node


class Earmark(models.Model):
    """A part of one node, and of some of its cards, that is kept for a waiting session.

    `cards` are the ids of the cards; `vram_mib` and `milli` are per card, and count for nothing where whole cards are
    kept. `ready_at` is when it is expected to be free, null where nothing says so; `leaving` are the sessions that make
    way on the cards, with when (null the same).
    """

    session_id = models.UUIDField(primary_key=True)
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="earmarks")
    cards = models.JSONField(default=list)
    is_whole = models.BooleanField(default=False)
    vram_mib = models.PositiveIntegerField(default=0)
    milli = models.PositiveIntegerField(default=0)
    cpu_milli = models.PositiveIntegerField(default=0)
    memory_mib = models.PositiveIntegerField(default=0)
    scratch_gib = models.PositiveIntegerField(default=0)
    made_at = models.DateTimeField()
    ready_at = models.DateTimeField(null=True)
    leaving = models.JSONField(default=dict)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["node"], name="earmark_of_node")]

    def __str__(self) -> str:
        return f"earmark of {self.session_id}"
