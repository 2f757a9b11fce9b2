"""Trap 43: a node that was made anew brings cards with other UUIDs; what was, belongs to node and slot too."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster.domain.placement import NoPlace
from cluster.models import Card, Claim, Cluster, Node
from cluster.services.claims import Reserved
from gshare_core.ids import uuid7
from gshare_core.kit import clock
from tests.apps.cluster.test_inventory import beat, card, node
from tests.builders import a_cluster
from tests.cluster_acts import a_quarter, release, take

pytestmark = pytest.mark.django_db

OLD, NEW = ("GPU-old-0", "GPU-old-1"), ("GPU-new-0", "GPU-new-1")


@pytest.fixture
def cluster() -> Cluster:
    return a_cluster("demo", state="pending")


def with_cards(uuids: tuple[str, ...]) -> dict[str, object]:
    return node(cards=[card(uuid, index) for index, uuid in enumerate(uuids)])


def used() -> str:
    """Take a quarter; the card on which it is, by UUID."""
    run = uuid7()
    assert isinstance(take(a_quarter(), run_id=run), Reserved)
    (where,) = Claim.objects.filter(run_id=run, card__isnull=False).values_list("card__uuid", flat=True)
    assert release(run)
    return where


def history(name: str, slot: int) -> list[str]:
    """What was claimed in that slot of that node, by the cards of their time."""
    claims = Claim.objects.filter(card__node__name=name, card__index=slot).order_by("claimed_at", "pk")
    return list(claims.values_list("card__uuid", flat=True))


def test_new_cards_in_the_old_slots_are_used_at_once_and_the_old_ones_take_nothing(cluster: Cluster) -> None:
    beat(cluster, with_cards(OLD))
    before = used()
    beat(cluster, with_cards(NEW))
    after = used()
    assert (before in OLD, after in NEW) == (True, True)
    slot = OLD.index(before)
    assert history("gpu-01", slot)[0] == before
    assert sorted([*history("gpu-01", 0), *history("gpu-01", 1)]) == sorted([before, after])


@pytest.mark.parametrize("node_too", [False, True], ids=["the cards were changed", "the node was away for days"])
def test_what_was_stays_with_node_and_slot_when_the_old_cards_are_retired(cluster: Cluster, node_too: bool) -> None:
    beat(cluster, with_cards(OLD))
    before = used()
    other = node("gpu-02")
    beat(cluster, other, *(() if node_too else (with_cards(NEW),)))
    long_ago = clock.now() - timedelta(days=2)
    Card.objects.filter(uuid__in=OLD).update(missing_since=long_ago)
    Node.objects.filter(name="gpu-01", missing_since__isnull=False).update(missing_since=long_ago)
    beat(cluster, other, *(() if node_too else (with_cards(NEW),)))
    assert not Card.objects.filter(uuid__in=OLD, retired_at=None).exists()
    beat(cluster, other, with_cards(NEW))
    after = used()
    assert after in NEW
    assert set(history("gpu-01", 0)) | set(history("gpu-01", 1)) == {before, after}
    retired = Card.objects.get(uuid=before)
    assert (retired.index, retired.node.name) == (OLD.index(before), "gpu-01")


def test_a_claim_of_before_keeps_its_card_and_its_room_until_it_is_given_back(cluster: Cluster) -> None:
    beat(cluster, with_cards(OLD[:1]))
    run = uuid7()
    assert isinstance(take(a_quarter(), run_id=run), Reserved)
    beat(cluster, with_cards(NEW[:1]))
    Card.objects.filter(uuid__in=OLD).update(missing_since=clock.now() - timedelta(days=2))
    beat(cluster, with_cards(NEW[:1]))
    assert Card.objects.get(uuid=OLD[0]).retired_at is None, "somebody may still be on it"
    for _ in range(4):
        assert isinstance(take(a_quarter()), Reserved)
    refused = take(a_quarter())
    assert isinstance(refused, NoPlace), "the new card alone has room, and that is taken"
    assert release(run)
    beat(cluster, with_cards(NEW[:1]))
    assert Card.objects.get(uuid=OLD[0]).retired_at is not None
