"""Five hundred sessions that are wanted at the same instant: all run, none twice, each on the card that it was given."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID

import pytest

from gshare_core.ids import uuid7
from tests.kube.documents import a_card_share
from tests.kube.kubelet import Kubelet
from tests.kube.nodes import a_card, a_node
from tests.kube.operating import Binder, operating
from tests.kube.plane import ControlPlane
from tests.kube.test_operator import want
from tests.waiting import until

SESSIONS, SHARES = 500, 8
VRAM_MIB, PERCENT = 5_097, 6


# About 40 s of two idle cores; a machine that others use too is given its time.
@pytest.mark.timeout(600)
def test_five_hundred_at_once_all_run_once_on_the_cards_they_were_given(
    plane: ControlPlane, kubelet: Kubelet, namespace: str
) -> None:
    rest = plane.rest()
    kubelet.lease_seconds = 10.0
    cards = [f"GPU-{number:04d}" for number in range(-(-SESSIONS // SHARES))]
    for number, card in enumerate(cards):
        kubelet.add_node(a_node(f"gpu-{number:03d}", [a_card(card)]))
    sessions = {uuid7(): cards[number // SHARES] for number in range(SESSIONS)}

    def ask(session: UUID) -> None:
        number = cards.index(sessions[session])
        share = a_card_share(node=f"gpu-{number:03d}", cards=[sessions[session]], vramMib=VRAM_MIB, corePercent=PERCENT)
        want(plane, namespace, session, gpu=share, volumes=[], apps=[{"name": "lab", "port": 8888}])

    binder = Binder(plane, namespace)
    binder.start()
    with operating(plane, namespace) as operator, ThreadPoolExecutor(8) as people:
        list(people.map(ask, sessions))

        def all_run() -> bool:
            return {session for session, report in operator.reports if report.phase == "running"} == set(sessions)

        until(all_run, within=480, what="all run")
        rows = operator.do(operator.parts.substrate.nodes(datetime.now(UTC)))
        runs = Counter(report.run for _session, report in operator.reports)
    binder.stop()
    made = rest.items(f"/api/v1/namespaces/{namespace}/pods")
    whose = Counter(pod["metadata"]["labels"]["gshare.io/session"] for pod in made)
    assert whose == Counter(map(str, sessions)), "one pod each"
    assert set(runs) == {1}, "no run was made anew"
    bound = {
        share.session: card.uuid
        for row in rows
        for card in row.cards
        for share in card.bound
        if share.vram_mib == VRAM_MIB
    }
    assert bound == sessions
    held = [sum(share.vram_mib for share in card.bound) for row in rows for card in row.cards]
    assert sorted(held) == sorted(Counter(sessions.values())[card] * VRAM_MIB for card in cards)
    assert kubelet.errors == []
