"""The whole chain on Kubernetes: resources, the operator, the real kube-scheduler, HAMi's rules, stand-in kubelets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gshare_core.ids import uuid7
from tests.kube.documents import a_card_share
from tests.kube.hami import hami_scheduler
from tests.kube.kubelet import Kubelet
from tests.kube.nodes import a_card, a_node
from tests.kube.operating import operating
from tests.kube.plane import ControlPlane
from tests.kube.test_operator import pods, want
from tests.waiting import until


@pytest.fixture(scope="module")
def hami(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hami_scheduler(plane, tmp_path_factory.mktemp("hami")) as url:
        yield url


def test_sixteen_sessions_fill_a_card_and_each_is_on_the_card_it_was_given(
    plane: ControlPlane, namespace: str, kubelet: Kubelet, hami: str
) -> None:
    node, cards = f"full-{namespace}", [f"GPU-{namespace}-{name}" for name in "ab"]
    kubelet.add_node(a_node(node, [a_card(uuid, index=index) for index, uuid in enumerate(cards)]))
    share = a_card_share(node=node, cards=[cards[1]], vramMib=5120, corePercent=6)
    resources = {"cpuMilli": 500, "memoryMib": 512, "scratchGib": 1}
    crowd = [uuid7() for _number in range(16)]
    with operating(plane, namespace) as operator:
        for session in crowd:
            want(plane, namespace, session, gpu=share, resources=resources, volumes=[])
        until(
            lambda: all("running" in operator.phases(session) for session in crowd),
            within=150,
            what="all sixteen run",
        )
        assert {operator.last(session).cards for session in crowd} == {(cards[1],)}
        for session in crowd:
            want(plane, namespace, session, gpu=share, resources=resources, volumes=[], generation=2, desired="Stopped")
        until(lambda: pods(plane, namespace) == [], within=60, what="all are gone")
    assert kubelet.errors == []


def test_several_whole_cards_are_the_ones_that_were_claimed(
    plane: ControlPlane, namespace: str, kubelet: Kubelet, hami: str
) -> None:
    node, cards = f"whole-{namespace}", [f"GPU-{namespace}-{name}" for name in "abc"]
    kubelet.add_node(a_node(node, [a_card(uuid, index=index) for index, uuid in enumerate(cards)]))
    share = a_card_share(mode="exclusive", node=node, cards=[cards[0], cards[2]], vramMib=81920, corePercent=100)
    session = uuid7()
    with operating(plane, namespace) as operator:
        want(plane, namespace, session, gpu=share, volumes=[])
        until(lambda: "running" in operator.phases(session), within=90, what="it runs")
        assert sorted(operator.last(session).cards) == sorted([cards[0], cards[2]])
