"""What pods hold of a node's cards by HAMi's books, bound or not, deleted or not, and what of it cannot be known, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.domain import hami
from cluster.domain.kube import Object, annotation, asks, full_name, rows, session_of, text
from cluster.domain.nvidia import RESOURCE_COUNT
from gshare_core.contract import BoundShare


def bound_on(node: str, pods: Sequence[Object]) -> tuple[Mapping[str, list[BoundShare]], tuple[str, ...]]:
    """What pods that have not ended hold of each of a node's cards by UUID, and whose holdings cannot be read."""
    bound: dict[str, list[BoundShare]] = {}
    unknown: list[str] = []
    for pod in pods:
        if annotation(pod, hami.ASSIGNED_NODE) != node:
            continue
        containers = hami.read_devices(annotation(pod, hami.ALLOCATED))
        if containers is None:
            unknown.append(f"what pod {full_name(pod)} holds of the node's cards cannot be read")
            continue
        holds = hami.held(
            containers,
            init_containers=len(rows(pod, "spec", "initContainers")),
            app_containers=len(rows(pod, "spec", "containers")),
        )
        for uuid, device in holds.items():
            share = BoundShare(session=session_of(pod), vram_mib=device.vram_mib, core_percent=device.core_percent)
            # Several instances or containers on one card take a slot each; the first row carries all that they hold.
            more = share.model_copy(update={"vram_mib": 0, "core_percent": 0})
            bound.setdefault(uuid, []).extend([share, *[more] * (device.slots - 1)])
    return bound, tuple(unknown)


def past_hami(node: str, pods: Sequence[Object]) -> tuple[str, ...]:
    """Which pods on a node that have not ended have cards past HAMi."""
    return tuple(
        f"pod {full_name(pod)} has cards that HAMi does not know of"
        for pod in pods
        if text(pod, "spec", "nodeName") == node
        and annotation(pod, hami.ASSIGNED_NODE) is None
        and asks(pod, RESOURCE_COUNT)
    )
