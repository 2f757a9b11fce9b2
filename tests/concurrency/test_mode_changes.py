"""Cards that are asked to be cut another way while people take parts of them, and while others ask the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster import fleets, mode_changes, services
from cluster.models import Card, Claim, Cluster, ModeChange
from cluster.services import ModeWish
from cluster.services.claims import Reserved
from gshare_core.errors import DomainError
from tests.apps.cluster.test_mode_changes import FakeCluster
from tests.builders import a_cluster, a_node
from tests.cluster_acts import a_quarter, take
from tests.concurrency.rivals import together

pytestmark = pytest.mark.django_db(transaction=True)

ROUNDS = 8
MIG, SHARED = ModeWish("mig", whole_node=True), ModeWish("hami-core", whole_node=True)


@pytest.fixture(autouse=True)
def _fresh_fleet() -> Iterator[None]:
    fleets.forget()
    yield
    fleets.forget()


def ask(card: Card, wish: ModeWish = MIG) -> Any:
    return services.change_mode(by=None, card_id=card.pk, wish=wish)


def is_refused(result: object, code: str) -> bool:
    return isinstance(result, DomainError) and result.code == code


def test_either_the_card_is_taken_and_the_change_refused_or_the_other_way_round() -> None:
    cluster = a_cluster(kind="kube", kubeconfig="kube")
    for round_ in range(ROUNDS):
        node = a_node(cluster, f"gpu-{round_}", cards=[{}, {}])
        cards = list(Card.objects.filter(node=node))

        *taken, asked = together(*[lambda: take(a_quarter())] * 3, lambda c=cards[0]: ask(c))

        held = Claim.objects.holding().filter(node=node).count()
        assert held == sum(isinstance(each, Reserved) for each in taken)
        if is_refused(asked, "in_use"):
            assert held > 0
            assert not Card.objects.filter(node=node, is_draining=True).exists()
        else:
            assert isinstance(asked, ModeChange), asked
            assert held == 0, "nothing is placed on a card that is being cut another way"
        Card.objects.filter(node=node).update(is_draining=True)  # the next round's node is the only one
        node.is_cordoned = True
        node.save(update_fields=["is_cordoned"])
        fleets.forget()


def test_many_who_ask_at_once_make_one_change_and_one_resource() -> None:
    node = a_node(a_cluster(kind="kube", kubeconfig="kube"), cards=[{}, {}, {}])
    cards, there = list(Card.objects.filter(node=node)), FakeCluster()

    asked = together(*[lambda c=card: ask(c) for card in cards * 2])

    assert {each.pk for each in asked} == {ModeChange.objects.get().pk}
    together(*[lambda: mode_changes.look_after(lambda _cluster: there)] * 4)
    assert (len(there.wanted), ModeChange.objects.get().state) == (1, "applying")


def test_who_asks_and_who_calls_off_at_once_leave_one_of_the_two() -> None:
    cluster: Cluster = a_cluster(kind="kube", kubeconfig="kube")
    for round_ in range(ROUNDS):
        node = a_node(cluster, f"gpu-{round_}", cards=[{}])
        card, there = Card.objects.get(node=node), FakeCluster()
        ask(card)

        together(
            lambda c=card: ask(c, SHARED),
            lambda t=there: mode_changes.look_after(lambda _cluster: t),
            lambda c=card: ask(c, SHARED),
            lambda t=there: mode_changes.look_after(lambda _cluster: t),
        )
        for _pass in range(2):
            mode_changes.look_after(lambda _cluster, t=there: t)

        card.refresh_from_db()
        node.refresh_from_db()
        assert there.wanted == {}
        assert (card.is_draining, node.is_cordoned) == (False, False)
        assert set(ModeChange.objects.filter(node=node).values_list("state", "is_written")) == {("called_off", False)}
        node.is_cordoned = True
        node.save(update_fields=["is_cordoned"])
