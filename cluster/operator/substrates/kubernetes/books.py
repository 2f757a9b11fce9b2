"""What HAMi's scheduler counts as given away of each card, by its own metrics: to be compared, never to be acted upon.

Guarantees: the scheduler that leads is asked, or the only one there is; who does not answer, or counts nonsense, has said
nothing. Pods of sessions are never asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from cluster.domain.kube import Object, label
from cluster.operator.reading.exposition import Series
from cluster.operator.substrates.kubernetes.asking import asker
from cluster.operator.substrates.kubernetes.exporters import COUNTED, HAMI_SCHEDULER, Place

_ROLE = "hami.io/scheduler-role"
_MIB, _MOST_MIB = 2**20, 2**20


async def counted_by_hami(pods: Iterable[Object], *, closed: str) -> Mapping[str, int]:
    """MiB given away by card; empty when nobody says. `closed` is the namespace whose pods are no schedulers."""
    place = _place(pods, closed)
    if place is None:
        return {}
    async with asker() as asks:
        return counted(await HAMI_SCHEDULER.ask(asks, place) or ())


def counted(said: Iterable[Series]) -> Mapping[str, int]:
    """MiB by card from the metrics; the newer name wins, a figure that no card has is left out."""
    found: dict[str, int] = {}
    for series in sorted(said, key=lambda one: one.name == next(iter(COUNTED))):
        uuid = series.labels.get(COUNTED[series.name])
        if uuid and math.isfinite(series.value) and 0 <= series.value <= _MOST_MIB * _MIB:
            found[uuid] = int(series.value // _MIB)
    return found


def _place(pods: Iterable[Object], closed: str) -> Place | None:
    schedulers = [(place, label(pod, _ROLE)) for pod in pods if (place := HAMI_SCHEDULER.place(pod, closed=closed))]
    leading = [(place, role) for place, role in schedulers if role == "leader"]
    chosen = leading or schedulers
    return chosen[0][0] if len(chosen) == 1 else None
