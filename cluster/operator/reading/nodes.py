"""A node of Kubernetes as a row of the inventory: what it can give, its cards, and what pods hold of them.

Guarantees
* what a node does not say is unknown: its cards are then those that were last known (`before`), never none; an amount of CPU,
  memory or scratch that it does not say is 0, which the control plane takes as "not reported";
* what foreign pods ask is not offered: their CPU, memory and scratch are taken off, their shares of cards are listed;
* every pod that HAMi has allotted cards counts until it has ended, bound or not, deleted or not;
* a card is healthy only if something can be placed on it: its plugin says so, still offers cards to the kubelet, and the card is
  not cordoned. Of a node that is cordoned the row says so: its cards are well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cluster.domain import hami
from cluster.domain.amounts import whole, whole_mib, whole_milli
from cluster.domain.hami_pods import bound_on, past_hami
from cluster.domain.kube import (
    Object,
    annotation,
    asks,
    condition,
    has_ended,
    label,
    moment,
    name,
    part,
    session_of,
    text,
)
from cluster.domain.nvidia import RESOURCE_COUNT
from gshare_core.contract import API_GROUP, CardRow, NodeRow

LABEL_YIELD = f"{API_GROUP}/yield"
_MIB_PER_GIB = 1024
_BYTES_PER_MIB = 2**20


@dataclass(frozen=True, slots=True)
class NodeState:
    """Whether a node speaks, and when it last did."""

    ready: bool
    heartbeat_at: datetime | None = None
    hostname: str = ""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node's row and what was noticed; `unknown` says in words what could not be read."""

    row: NodeRow
    state: NodeState
    cards_known: bool
    unknown: tuple[str, ...] = ()
    lock: hami.NodeLock | None = None


def node_state(node: Object, lease: Object | None = None) -> NodeState:
    """Whether the node is Ready, and its newest sign of life: its lease where given, else its condition."""
    ready = condition(node, "Ready")
    beats = [moment(ready, "lastHeartbeatTime"), moment(lease, "spec", "renewTime")]
    return NodeState(
        ready=ready.get("status") == "True",
        heartbeat_at=max((beat for beat in beats if beat is not None), default=None),
        hostname=label(node, "kubernetes.io/hostname") or "",
    )


def is_unschedulable(node: Object) -> bool:
    """Whether Kubernetes places nothing new there, as `kubectl cordon` leaves it."""
    return part(node, "spec").get("unschedulable") is True


def pods_by_node(pods: Iterable[Object]) -> Mapping[str, Sequence[Object]]:
    """The pods that matter to each node: those on it, and those that HAMi keeps cards of it for."""
    found: dict[str, list[Object]] = {}
    for pod in pods:
        for node in {text(pod, "spec", "nodeName"), annotation(pod, hami.ASSIGNED_NODE) or ""} - {""}:
            found.setdefault(node, []).append(pod)
    return found


def read_node(
    node: Object, pods: Iterable[Object], *, before: NodeRow | None = None, lease: Object | None = None
) -> NodeReading:
    """The node; `pods` are at least those that matter to it, `before` its row of the last reading.

    Raises ValueError for a node whose name is none.
    """
    own = name(node)
    pods = [pod for pod in pods if not has_ended(pod)]
    here = [pod for pod in pods if text(pod, "spec", "nodeName") == own]
    foreign = [pod for pod in here if session_of(pod) is None]
    cards, cards_known, unknown = _cards(node, pods, before)
    row = NodeRow(
        name=own,
        labels={key: value for key, value in part(node, "metadata", "labels").items() if isinstance(value, str)},
        ready=node_state(node).ready,
        unschedulable=is_unschedulable(node),
        cpu_milli=_left(whole_milli(_allocatable(node, "cpu")), (asks(pod, "cpu") for pod in foreign)),
        memory_mib=_left(whole_mib(_allocatable(node, "memory")), _in_mib(foreign, "memory")),
        scratch_gib=_scratch(node, foreign),
        yield_capable=label(node, LABEL_YIELD) == "true",
        cards=cards,
    )
    lock = hami.read_lock(annotation(node, hami.NODE_LOCK))
    return NodeReading(row, node_state(node, lease), cards_known, (*unknown, *past_hami(own, here)), lock)


def _allocatable(node: Object, resource: str) -> object:
    return part(node, "status", "allocatable").get(resource)


def _in_mib(pods: Sequence[Object], resource: str) -> Iterable[int]:
    return (-(-asks(pod, resource) // _BYTES_PER_MIB) for pod in pods)


def _left(whole_amount: int | None, taken: Iterable[int]) -> int:
    """What is left of an amount: 0 says that it is not known, so at least 1 where it is."""
    return 0 if not whole_amount else max(1, whole_amount - sum(taken))


def _scratch(node: Object, foreign: Sequence[Object]) -> int:
    mib = _left(whole_mib(_allocatable(node, "ephemeral-storage")), _in_mib(foreign, "ephemeral-storage"))
    return 0 if not mib else max(1, mib // _MIB_PER_GIB)


def _cards(
    node: Object, pods: Sequence[Object], before: NodeRow | None
) -> tuple[tuple[CardRow, ...], bool, tuple[str, ...]]:
    """The cards with what is bound on them, whether they are known now, and what is unknown in words."""
    written = annotation(node, hami.REGISTER)
    offered = whole(_allocatable(node, RESOURCE_COUNT))
    had = before.cards if before else ()
    if written is None and not offered and not had:
        return (), True, ()
    register = hami.read_register(written)
    listed = {card.uuid: card for card in register.cards}
    # What the plugin no longer says is unknown, not gone, unless it says everything else.
    kept = () if register.is_complete else tuple(card for card in had if card.uuid not in listed)
    bound, unknown = bound_on(name(node), pods)
    closed = _closed(node, offered)
    cards = tuple(
        card.model_copy(
            update={
                "bound": tuple(bound.get(card.uuid, ())),
                "healthy": card.healthy and closed is not None and card.uuid not in closed,
            }
        )
        for card in sorted((*register.cards, *kept), key=lambda card: (card.index, card.uuid))
    )
    return cards, register.is_complete, (*register.unreadable, *unknown)


def _closed(node: Object, offered: int | None) -> frozenset[str] | None:
    """The cards on which nothing new may be placed; None for all of them."""
    if not offered:
        return None
    return frozenset(entry.strip() for entry in (annotation(node, hami.CORDON) or "").split(",")) - {""}
