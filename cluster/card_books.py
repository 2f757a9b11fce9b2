"""Taking in where the books about a cluster's cards disagree, as one beat shows it.

Guarantees: a difference is alarmed (log, metrics, the card's row in the API and the site administration) once it has lasted for
`GSHARE_DRIFT_SETTLE`, since a start and an end take a moment to reach every book; it is alarmed once, and called off when the
books agree. A card that is not listed is unknown and keeps what was found of it. Nothing is repaired, nobody is ended.
Of clusters on Kubernetes only: elsewhere there is one book.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count, Sum

from cluster.domain.drift import drifts
from cluster.models import Card, CardDrift, Claim
from gshare_core.contract import Inventory

logger = structlog.get_logger(__name__)


def compare_books(cluster_id: UUID, document: Inventory, *, at: datetime) -> None:
    """Bring what is known of disagreements to what this beat shows. Call it outside a transaction."""
    found: dict[str, list[str]] = defaultdict(list)
    for drift in drifts(document.nodes, claimed_mib=_claimed(cluster_id, document)):
        found[drift.card].append(drift.words)
    known = CardDrift.objects.filter(card__node__cluster_id=cluster_id, card__retired_at=None)
    rows = {row.card.uuid: row for row in known.select_related("card__node")}
    listed = {card.uuid for node in document.nodes for card in node.cards}
    _forget([row for uuid, row in rows.items() if uuid in listed and uuid not in found])
    new = found.keys() - rows.keys()
    if new:
        cards = Card.objects.filter(node__cluster_id=cluster_id, uuid__in=new, retired_at=None)
        fresh = [CardDrift(card=card, words=found[card.uuid], since=at) for card in cards]
        CardDrift.objects.bulk_create(fresh, ignore_conflicts=True)
    for uuid in sorted(found.keys() & rows.keys()):
        _go_on(rows[uuid], found[uuid], at)


def alarmed_drifts() -> dict[str, int]:
    """By cluster the number of cards whose books have disagreed for too long."""
    rows = CardDrift.objects.filter(card__retired_at=None, card__node__cluster__removed_at=None).exclude(
        alarmed_at=None
    )
    counted = rows.values_list("card__node__cluster__name").annotate(many=Count("pk"))
    return dict(counted.order_by("card__node__cluster__name"))


def _claimed(cluster_id: UUID, document: Inventory) -> dict[str, int]:
    """MiB that claims hold, by card; 0 where none does. Of cards of silent nodes nothing: their pods are not looked at."""
    uuids = [card.uuid for node in document.nodes if node.ready for card in node.cards]
    held = Claim.objects.holding().filter(node__cluster_id=cluster_id, card__isnull=False)
    sums = dict(held.values_list("card__uuid").annotate(mib=Sum("vram_mib")).order_by("card__uuid"))
    return {uuid: sums.get(uuid, 0) for uuid in uuids}


def _go_on(row: CardDrift, words: list[str], at: datetime) -> None:
    is_due = row.alarmed_at is None and at - row.since >= settings.GSHARE.drift_settle
    if row.words == words and not is_due:
        return
    row.words, row.alarmed_at = words, at if is_due else row.alarmed_at
    CardDrift.objects.filter(pk=row.pk).update(words=row.words, alarmed_at=row.alarmed_at)
    if is_due:
        logger.error("card_books_disagree", node=row.card.node.name, card=row.card.uuid, words=words)


def _forget(rows: list[CardDrift]) -> None:
    if not rows:
        return
    with transaction.atomic():
        CardDrift.objects.filter(pk__in=[row.pk for row in rows]).delete()
    for row in rows:
        if row.alarmed_at is not None:
            logger.info("card_books_agree", node=row.card.node.name, card=row.card.uuid)
