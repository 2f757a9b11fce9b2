"""How a node's cards are cut: asked for here, done by the cluster's operator, true when inventory shows it.

Guarantees: a change closes all cards of its node in the transaction that asked for it, under their locks, so that nothing is
placed on them from that commit on and nothing that was placed before is overlooked; the cluster is told only when they
hold nothing. The node is cordoned meanwhile. Every step is guarded by the state that it starts from: repeated, late or
killed in between, it changes nothing or goes on. What fails stays closed, with the reason, until somebody asks again.
Lock order: actor, node, cards, cluster's counter; a change belongs to whoever holds its node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import structlog
from django.utils.translation import gettext as _

from accounts import audit
from accounts.permissions import Act
from cluster.domain.modes import can_mig
from cluster.models import Card, Claim, Cluster, ModeChange, Node, NodeDrain
from cluster.sequence import tell_of_metal
from cluster.services.authority import authorise
from cluster.services.nodes import ask_to_leave, held_node, mark_cordoned, why_leave
from gshare_core.contract import MESSAGE_BYTES, ModeChangePhase
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock, wake
from gshare_core.kit.locks import Rank, lock_row, lock_rows, ordered

if TYPE_CHECKING:
    from accounts.models import User

logger = structlog.get_logger(__name__)

State = ModeChange.State
_SYSTEM = "system"
_UNANSWERED = "the operator did not answer; nothing was changed"


@dataclass(frozen=True, slots=True)
class ModeWish:
    """How cards shall be cut. `whole_node` says that the asker knows which cards it concerns; `drain` how sessions leave
    them (`reschedule`, `stop`, or nothing: then they must be empty), `reason` is what their owners read."""

    mode: str
    whole_node: bool = False
    drain: str = ""
    reason: str = ""


def change_mode(*, by: User | None, card_id: UUID, wish: ModeWish) -> ModeChange | None:
    """Cut a card, and with it all cards of its node, another way; the open change, or None where nothing is to be done.

    Idempotent. Asking for the mode that the cards have calls off what has not begun. Raises `forbidden`, `not_found`, `invalid`,
    `reason_required`, `in_use`, `conflict`, `unavailable`, `not_implemented`.
    """
    if wish.mode not in ModeChange.Target.values:
        raise invalid("mode", _("Choose hami-core (shared) or mig."))
    why = why_leave(wish.drain, wish.reason, field="drain") if wish.drain else ""
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        node, cards = _held(card_id)
        change = ModeChange.objects.filter(node=node, closed_at=None).first()
        is_so = all(card.mode == wish.mode for card in cards)
        if change is not None and change.state != State.FAILED:
            return _asked_again(by, change, node, cards, wish.mode)
        if is_so and (change is None or not change.has_begun):
            if change is not None:
                _call_off(by, change, node, cards)
            return None
        _refuse(node, cards, wish)
        if change is not None:
            _close(change, State.FAILED, at=clock.now())
        return _open(by, node, cards, wish, why, inherits=change is not None and change.has_cordoned)


def _held(card_id: UUID) -> tuple[Node, list[Card]]:
    """The card's node and all its cards, locked. Raises `not_found`."""
    node_id = Card.objects.filter(pk=card_id, retired_at=None).values_list("node_id", flat=True).first()
    if node_id is None:
        raise not_found("card")
    node = held_node(node_id)
    cards = lock_rows(Rank.CARD, Card.objects.filter(node=node, retired_at=None))
    if card_id not in {card.pk for card in cards}:
        raise not_found("card")
    return node, cards


def _asked_again(
    by: User | None, change: ModeChange, node: Node, cards: Sequence[Card], mode: str
) -> ModeChange | None:
    """Somebody asks while a change is under way: for the same, or for how it was, or too late."""
    if mode == change.target:
        ModeChange.objects.filter(pk=change.pk).update(calls_off=False)
        change.calls_off = False
        return change
    if change.has_begun:
        raise DomainError(
            "conflict",
            _("The operator is already cutting the cards of %(node)s: %(message)s")
            % {"node": node.name, "message": change.message or change.phase},
            remedy=_("Wait until it is done or has failed; then ask again."),
        )
    if change.state == State.DRAINING and not change.is_written:
        _call_off(by, change, node, cards)
        return None
    # The cluster may have been told: whether it has begun, only the cluster can say.
    ModeChange.objects.filter(pk=change.pk).update(calls_off=True)
    change.calls_off = True
    wake.after_commit(wake.MODE_CHANGES)
    return change


def _refuse(node: Node, cards: Sequence[Card], wish: ModeWish) -> None:
    """What stands against it, the most basic first."""
    cluster = node.cluster
    if cluster.kind == Cluster.Kind.LOCAL:
        raise DomainError(
            "not_implemented",
            _("Cluster %(cluster)s is local: its cards are shared by processes, and nothing there can cut one by MIG.")
            % {"cluster": cluster.name},
            remedy=_("Change cards of a Kubernetes cluster with HAMi."),
        )
    if wish.mode == ModeChange.Target.MIG:
        unable = sorted({card.model for card in cards if not can_mig(card.model)})
        if unable:
            raise invalid(
                "mode",
                _("%(models)s cannot be cut by MIG.") % {"models": ", ".join(unable)},
                remedy=_("HAMi changes all cards of a node together: choose a node whose cards can all be cut."),
            )
    if len(cards) > 1 and not wish.whole_node:
        raise invalid(
            "whole_node",
            _("HAMi changes all %(cards)s cards of %(node)s together.") % {"cards": len(cards), "node": node.name},
            remedy=_("Send whole_node: true if that is meant."),
        )
    if cluster.state != Cluster.State.CONNECTED or not node.is_ready or node.missing_since is not None:
        what = cluster.name if cluster.state != Cluster.State.CONNECTED else node.name
        raise DomainError(
            "unavailable",
            _("%(what)s is silent: nobody can see whether its cards are empty.") % {"what": what},
            remedy=_("Try again when it is heard from."),
        )
    _refuse_in_use(node, cards, wish)


def _refuse_in_use(node: Node, cards: Sequence[Card], wish: ModeWish) -> None:
    sessions, foreign = users_of(cards)
    if foreign or (sessions and not wish.drain):
        words = _("The cards of %(node)s are in use: by %(sessions)s sessions, and by %(foreign)s pods of others.")
        leave = _("Send drain (reschedule or stop) and a reason, so that the sessions leave, or wait until they end.")
        raise DomainError(
            "in_use",
            words % {"node": node.name, "sessions": sessions, "foreign": foreign},
            remedy=_("End those pods, or move them away: they are not GShare's.") if foreign else leave,
            facts={"node": node.name, "cards": len(cards), "sessions": sessions, "foreign_pods": foreign},
        )


def users_of(cards: Sequence[Card]) -> tuple[int, int]:
    """How many sessions hold a part of these cards, and how many pods of others."""
    held = Claim.objects.holding().filter(card__in=[card.pk for card in cards])
    foreign = sum(max(card.foreign_slots, int(card.foreign_vram_mib > 0)) for card in cards)
    return held.values("session_id").distinct().count(), foreign


def _open(
    by: User | None, node: Node, cards: Sequence[Card], wish: ModeWish, why: str, *, inherits: bool
) -> ModeChange:
    at = clock.now()
    sessions, _foreign = users_of(cards)
    change = ModeChange.objects.create(
        node=node,
        target=wish.mode,
        asked_by=by.email if by is not None else _SYSTEM,
        asked_at=at,
        stepped_at=at,
        has_cordoned=inherits or not node.is_cordoned,
    )
    Card.objects.filter(pk__in=[card.pk for card in cards]).update(is_draining=True)
    if not mark_cordoned(node, cordoned=True):
        tell_of_metal(node.cluster_id, node.pk)
    if wish.drain:
        ask_to_leave(node, by=by, mode=wish.drain, reason=why, at=at)
    after = {"mode": wish.mode, "cards": [card.uuid for card in cards], "sessions": sessions, "drain": wish.drain}
    _record(by, "card.mode", change, at, after, reason=why)
    wake.after_commit(wake.MODE_CHANGES)
    return change


# What the tick writes ------------------------------------------------------------------------------------------------


def apply_when_empty(change_id: UUID) -> str:
    """Have the change told to its cluster if its cards hold nothing; else what they hold, in words."""
    with _of(change_id, State.DRAINING) as (change, cards):
        if change is None:
            return ""
        listed = sorted(card.uuid for card in cards if card.missing_since is None)
        sessions, foreign = users_of(cards)
        held = any(card.used_slots or card.used_vram_mib or card.used_milli for card in cards)
        why = "" if listed else "the node lists no cards"
        if sessions or foreign or held:
            why = f"still held by {sessions} sessions and {foreign} pods of others"
        if why:
            if change.message != why:
                ModeChange.objects.filter(pk=change.pk).update(message=why)
            return why
        if ModeChange.objects.filter(node=change.node_id, is_written=True).exclude(pk=change.pk).exists():
            return ""  # the cluster still has the change before this one
        _step(change, state=State.APPLYING, card_uuids=listed, is_written=True, message="")
        return ""


def note_told(change_id: UUID) -> None:
    """The cluster has been told. If somebody ended the change meanwhile, it is to be looked after there all the same."""
    ModeChange.objects.filter(pk=change_id, is_written=False).update(is_written=True)


def note_phase(change_id: UUID, phase: ModeChangePhase | None, message: str, *, has_begun: bool) -> None:
    """Keep what the operator says; times count from when its phase changed."""
    rows = ModeChange.objects.filter(pk=change_id, closed_at=None, is_written=True)
    if phase is not None:
        rows.exclude(phase=phase.value).update(phase=phase.value, stepped_at=clock.now())
    if has_begun:
        rows.filter(has_begun=False).update(has_begun=True)
    if message:
        rows.exclude(message=message).update(message=message)


def fail_change(change_id: UUID, why: str) -> bool:
    """It did not come about; the cards stay closed, since nobody knows how they are cut."""
    with _of(change_id, State.DRAINING, State.APPLYING) as (change, _cards):
        if change is None:
            return False
        _step(change, state=State.FAILED, message=(why or change.message)[:MESSAGE_BYTES])
        _record(None, "card.mode_failed", change, clock.now(), {"why": change.message})
    logger.error("mode_change_failed", node=change.node.name, target=change.target, why=change.message)
    return True


def withdrawn(change_id: UUID) -> None:
    """The cluster was told and has forgotten it, and nothing had begun: it is called off, or has failed for want of an answer."""
    with _of(change_id, State.APPLYING) as (change, cards):
        if change is None:
            return
        change.is_written = False
        if change.calls_off:
            change.save(update_fields=["is_written"])
            _call_off(None, change, change.node, cards)
            return
        _step(change, state=State.FAILED, is_written=False, message=_UNANSWERED)
        _record(None, "card.mode_failed", change, clock.now(), {"why": change.message})


def finish_change(change_id: UUID) -> bool:
    """The cards are cut as wanted, and inventory shows it: they may be used again, and the node with them."""
    with _of(change_id, State.APPLYING, State.FAILED) as (change, cards):
        if change is None or not is_confirmed(change, cards):
            return False
        at = clock.now()
        _close(change, State.DONE, at=at)
        _reopen(change, change.node, cards)
        _record(None, "card.mode_done", change, at, {"mode": change.target, "cards": change.card_uuids})
    return True


def lose_change(change_id: UUID) -> None:
    """Its node is registered no more: there is nothing to cut."""
    rows = ModeChange.objects.filter(pk=change_id, closed_at=None)
    rows.update(state=State.FAILED, closed_at=clock.now(), is_written=False, message="the node is no longer registered")


def forgotten(change_id: UUID) -> None:
    """The cluster keeps nothing of a change that is closed."""
    ModeChange.objects.filter(pk=change_id, closed_at__isnull=False).update(is_written=False)


def is_confirmed(change: ModeChange, cards: Sequence[Card]) -> bool:
    """Whether an inventory of after the operator's word shows every card cut as wanted."""
    seen = {card.uuid: card for card in cards if card.missing_since is None and card.is_healthy}
    cut = (
        (card := seen.get(uuid)) is not None
        and card.mode == change.target
        and (bool(card.mig_profiles) or change.target != ModeChange.Target.MIG)
        for uuid in change.card_uuids
    )
    observed_at = change.node.cluster.observed_at
    return observed_at is not None and observed_at > change.stepped_at and all(cut)


class _of:  # noqa: N801 -- reads as a word where it is used
    """The change with its node's cards, all locked, if it is open in one of these states; else nothing."""

    def __init__(self, change_id: UUID, *states: str) -> None:
        self._change_id, self._states, self._transaction = change_id, states, ordered()

    def __enter__(self) -> tuple[Any, list[Card]]:
        self._transaction.__enter__()
        node = lock_row(Rank.NODE, Node.objects.filter(mode_changes=self._change_id, retired_at=None))
        if node is None:
            return None, []
        cards = lock_rows(Rank.CARD, Card.objects.filter(node=node, retired_at=None))
        rows = ModeChange.objects.filter(pk=self._change_id, closed_at=None, state__in=self._states)
        change = rows.select_related("node__cluster").first()
        return change, cards

    def __exit__(self, *how: Any) -> bool | None:
        return self._transaction.__exit__(*how)


def _step(change: ModeChange, **fields: Any) -> None:
    for name, value in {**fields, "stepped_at": clock.now()}.items():
        setattr(change, name, value)
    change.save(update_fields=[*fields, "stepped_at"])


def _close(change: ModeChange, state: str, *, at: datetime) -> None:
    change.state, change.closed_at = state, at
    change.save(update_fields=["state", "closed_at"])


def _call_off(by: User | None, change: ModeChange, node: Node, cards: Sequence[Card]) -> None:
    """Nothing has begun: everything is as before."""
    at = clock.now()
    _close(change, State.CALLED_OFF, at=at)
    _reopen(change, node, cards)
    _record(by, "card.mode_called_off", change, at, {"mode": change.target})


def _reopen(change: ModeChange, node: Node, cards: Sequence[Card]) -> None:
    """The cards may be used again, and the node, if it was this change that cordoned it."""
    Card.objects.filter(pk__in=[card.pk for card in cards]).update(is_draining=False)
    if change.has_cordoned:
        NodeDrain.objects.filter(node=node, closed_at=None).update(closed_at=clock.now())
    if not (change.has_cordoned and mark_cordoned(node, cordoned=False)):
        tell_of_metal(node.cluster_id, node.pk)


def _record(
    by: User | None, act: str, change: ModeChange, at: datetime, after: dict[str, Any], *, reason: str = ""
) -> None:
    audit.record(
        by=by,
        act=act,
        target_kind="node",
        target_id=change.node_id,
        target_label=change.node.name,
        after=after,
        reason=reason or None,
        at=at,
    )
