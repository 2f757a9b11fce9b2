"""What a pod asks of HAMi: per container a number of cards, memory, a percentage of it, cores.

Limits are read first, requests only where a limit is absent. A memory that is no whole number within 32 bits drops the
container's whole request, so that the pod passes by HAMi.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.kube.hami_twin import words

Pod = Mapping[str, Any]

PERCENTAGE_UNSET = 101
_MEMORY_MAX = 2**31 - 1
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))((?:[eE][+-]?\d+)|[numkMGTPE]|[KMGTPE]i)?")
_SUFFIXES = {
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("num", start=-3)},
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


@dataclass(frozen=True, slots=True)
class Defaults:
    """The scheduler's device configuration, as far as it bears on requests."""

    memory_mib: int = 0
    cores: int = 0
    memory_factor: int = 1


@dataclass(frozen=True, slots=True)
class Request:
    """One container's request; `cards` 0 means that it asks for nothing."""

    cards: int = 0
    memory_mib: int = 0
    percentage: int = PERCENTAGE_UNSET
    cores: int = 0

    def memory_on(self, total_mib: int) -> int:
        """What it takes of a card that has so much."""
        if self.percentage != PERCENTAGE_UNSET and self.memory_mib == 0:
            return total_mib * self.percentage // 100
        return max(self.memory_mib, 0)


def whole_number(quantity: object) -> int | None:
    """A Kubernetes quantity as a whole number (``8k`` is 8000, ``1Gi`` 2³⁰); None when it is none."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        return None
    amount, suffix = Decimal(match[1]), match[2] or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        amount = amount.scaleb(int(suffix[1:]))
    elif suffix:
        amount *= _SUFFIXES[suffix]
    return int(amount) if amount == amount.to_integral_value() else None


def containers_of(pod: Pod) -> list[Mapping[str, Any]]:
    """Init containers, then the others, in the order of the spec."""
    spec = pod.get("spec") or {}
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def init_count(pod: Pod) -> int:
    """How many of them are init containers."""
    return len((pod.get("spec") or {}).get("initContainers") or ())


def annotations_of(thing: Mapping[str, Any]) -> dict[str, str]:
    """The annotations of a pod or a node."""
    return dict((thing.get("metadata") or {}).get("annotations") or {})


def requests_of(pod: Pod, defaults: Defaults) -> Sequence[Request]:
    """One request per container of `containers_of`."""
    return [request_of(container, defaults) for container in containers_of(pod)]


def request_of(container: Mapping[str, Any], defaults: Defaults) -> Request:
    """What one container asks for."""
    cards = _asked(container, words.RESOURCE_COUNT)
    if not cards:
        return Request()
    memory = 0
    if _is_given(container, words.RESOURCE_MEMORY):
        factor = max(defaults.memory_factor, 1)
        given = _asked(container, words.RESOURCE_MEMORY)
        if given is None or not 0 <= given <= _MEMORY_MAX // factor:
            return Request()
        memory = given * factor
    percentage = _asked(container, words.RESOURCE_PERCENTAGE) or 0
    percentage = min(percentage, 100) if percentage > 0 else PERCENTAGE_UNSET
    if percentage == PERCENTAGE_UNSET and memory == 0:
        memory, percentage = (defaults.memory_mib, percentage) if defaults.memory_mib else (0, 100)
    cores = _asked(container, words.RESOURCE_CORES)
    return Request(cards, memory, percentage, defaults.cores if cores is None else cores)


def _asked(container: Mapping[str, Any], name: str) -> int | None:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        if name in (resources.get(kind) or {}):
            return whole_number(resources[kind][name])
    return None


def _is_given(container: Mapping[str, Any], name: str) -> bool:
    resources = container.get("resources") or {}
    return any(name in (resources.get(kind) or {}) for kind in ("limits", "requests"))
