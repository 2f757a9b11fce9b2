"""CPU of pods from the metrics API (`metrics.k8s.io/v1beta1` PodMetrics), which tells rates: counters made of them.

Guarantees: unknown is unknown, never zero: a pod without containers in its metrics, or with one of whom no amount is said, has
none; metrics that stopped are none. Where nobody measured for long, another counter begins (`epoch`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cluster.domain.amounts import amount
from cluster.domain.kube import Object, moment, part, rows

#: metrics-server measures each pod every 15 to 60 s.
_GAP_MAX = timedelta(minutes=3)
_FRESH = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Rate:
    """What a pod used around a moment: microseconds of CPU per second, bytes of memory (None: not said)."""

    at: datetime
    usec_per_second: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Counter:
    """Microseconds of CPU since the counter began, up to `at`."""

    epoch: int
    at: datetime
    usec: int
    memory_bytes: int | None


def read_rate(metrics: Object) -> Rate | None:
    """The rate that a PodMetrics tells; None where it tells none."""
    at, used = moment(metrics, "timestamp"), [part(each, "usage") for each in rows(metrics, "containers")]
    cores = [amount(each.get("cpu")) for each in used]
    known = [core for core in cores if core is not None and core >= 0]
    if at is None or not known or len(known) != len(cores):
        return None
    memory = [amount(each.get("memory")) for each in used]
    sizes = [size for size in memory if size is not None and size >= 0]
    return Rate(at, int(sum(known) * 1_000_000), int(sum(sizes)) if len(sizes) == len(memory) else None)


def advanced(counter: Counter | None, rate: Rate) -> Counter:
    """The counter after a rate was heard: it held since the one before."""
    if counter is None or rate.at - counter.at > _GAP_MAX:
        return Counter(int(rate.at.timestamp() * 1000), rate.at, 0, rate.memory_bytes)
    if rate.at <= counter.at:
        return counter
    used = rate.usec_per_second * ((rate.at - counter.at) // timedelta(microseconds=1)) // 1_000_000
    return replace(counter, at=rate.at, usec=counter.usec + used, memory_bytes=rate.memory_bytes)


def is_fresh(counter: Counter, now: datetime) -> bool:
    """Whether it still tells about now."""
    return now - counter.at <= _FRESH
