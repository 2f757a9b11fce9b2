"""Nodes.

Guarantees: a cordoned node takes nothing new and keeps what it has; one that is drained is cordoned, and what runs on it
leaves, until it is used again: an intent row says so, which the sweep above reads and which closes only on a pass that
began `GSHARE_INTENT_SETTLE` or more after the asking and found the node empty. What changes here is told to all processes
in the same transaction; the cluster's operator cordons its own node too (`operator`, `cordoned_nodes`).
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.utils.translation import gettext as _

from accounts import audit
from accounts.permissions import Act
from cluster.models import Claim, ModeChange, Node, NodeDrain
from cluster.sequence import tell_of_metal
from cluster.services.authority import authorise
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock, wake
from gshare_core.kit.locks import Rank, lock_row, ordered

if TYPE_CHECKING:
    from accounts.models import User

_REASON_LENGTH = 500
_SYSTEM = "system"


def cordon_node(*, by: User | None, node_id: UUID, cordoned: bool) -> Node:
    """Take a node out of placement, or put it back, which calls off its drain. Idempotent.

    A node whose cards are being cut another way is not used before that has ended. Raises `forbidden`, `not_found`,
    `conflict`.
    """
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        node, at = held_node(node_id), clock.now()
        _heed_mode_change(node, cordoned=cordoned)
        called_off = not cordoned and NodeDrain.objects.filter(node=node, closed_at=None).update(closed_at=at) > 0
        if mark_cordoned(node, cordoned=cordoned) or called_off:
            after = {"is_cordoned": cordoned} | ({"drain": "called off"} if called_off else {})
            _record(by, "node.cordon" if cordoned else "node.uncordon", node, at, after)
    return node


def drain_node(*, by: User | None, node_id: UUID, mode: str, reason: str) -> Node:
    """Cordon a node and have everything leave it: to start elsewhere, or to be stopped. The owners read the reason.

    Asking again changes how and why for what is still there. Raises `forbidden`, `not_found`, `invalid`, `reason_required`.
    """
    why = why_leave(mode, reason)
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        node, at = held_node(node_id), clock.now()
        _heed_mode_change(node, cordoned=True)
        mark_cordoned(node, cordoned=True)
        ask_to_leave(node, by=by, mode=mode, reason=why, at=at)
        holding = Claim.objects.holding().filter(node=node).values("session_id").distinct().count()
        _record(by, "node.drain", node, at, {"mode": mode, "reason": why, "sessions": holding})
    return node


def why_leave(mode: str, reason: str, *, field: str = "mode") -> str:
    """The reason, as owners will read it. Raises `invalid` for an unknown way to leave, `reason_required`."""
    why = reason.strip()[:_REASON_LENGTH]
    if mode not in NodeDrain.Mode.values:
        raise invalid(field, _("Choose reschedule or stop."))
    if not why:
        raise DomainError(
            "reason_required",
            _("Other people's sessions will leave the node: say why."),
            errors={"reason": [_("Say why; the owners read it.")]},
            remedy=_("Send a reason."),
        )
    return why


def ask_to_leave(node: Node, *, by: User | None, mode: str, reason: str, at: datetime) -> None:
    """Have everything leave a node that is held and cordoned: the intent that the sweep above reads."""
    words = {"mode": mode, "reason": reason, "asked_by": by.email if by is not None else _SYSTEM, "changed_at": at}
    if not NodeDrain.objects.filter(node=node, closed_at=None).update(**words):
        NodeDrain.objects.create(node=node, **words)
    wake.after_commit(wake.DRAIN_INTENTS)


def close_node_drain(intent_id: UUID, *, pass_began_at: datetime) -> bool:
    """Close an intent for which a pass found nothing; False while something holds the node, or it is too young."""
    intents = NodeDrain.objects.filter(
        pk=intent_id, closed_at=None, changed_at__lte=pass_began_at - settings.GSHARE.intent_settle
    )
    held = Claim.objects.holding().filter(node__in=intents.values("node"))
    return not held.exists() and intents.update(closed_at=pass_began_at) == 1


def held_node(node_id: UUID) -> Node:
    """The registered node, locked. Raises `not_found`."""
    node = lock_row(Rank.NODE, Node.objects.filter(pk=node_id, retired_at=None))
    if node is None:
        raise not_found("node")
    return node


def mark_cordoned(node: Node, *, cordoned: bool) -> bool:
    """Write it and tell everybody; False when it was so already."""
    if node.is_cordoned == cordoned:
        return False
    node.is_cordoned = cordoned
    node.save(update_fields=["is_cordoned"])
    tell_of_metal(node.cluster_id, node.pk)
    return True


def _heed_mode_change(node: Node, *, cordoned: bool) -> None:
    """A change of its cards' mode keeps the node cordoned until it ends; who cordons it himself keeps it so afterwards."""
    changes = ModeChange.objects.filter(node=node, closed_at=None)
    if cordoned:
        changes.update(has_cordoned=False)
    elif changes.exclude(state=ModeChange.State.FAILED).exists():
        raise DomainError(
            "conflict",
            _("The cards of %(node)s are being cut another way.") % {"node": node.name},
            remedy=_("Wait until that has ended, or call it off by asking for the mode that the cards have."),
        )


def _record(by: User | None, act: str, node: Node, at: datetime, after: dict[str, Any]) -> None:
    audit.record(by=by, act=act, target_kind="node", target_id=node.pk, target_label=node.name, after=after, at=at)
