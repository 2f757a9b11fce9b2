"""The idle pause on Kubernetes: what sessions do there, sampled by the operator, judged by the control plane, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cluster.operator.inventory import Beat
from cluster.operator.main import SystemClock
from gshare_core.contract import Inventory
from sessions_app import idleness, reports
from sessions_app.models import RunActivity, Session
from tests.apps.sessions.world import fresh
from tests.kube.kubelet import Kubelet
from tests.kube.machines import Machine, metrics_served, says
from tests.kube.operating import Operating
from tests.kube.plane import ControlPlane
from tests.kube.test_operator import pods
from tests.kube.test_story import Site, site
from tests.waiting import until

__all__ = ["site"]

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(180)]

MINUTE = timedelta(minutes=1)


class Seats:
    """A machine for the pod of each session, and one for the node's monitor."""

    def __init__(self, site: Site, kubelet: Kubelet) -> None:
        self.site, self.node, self.machines = site, Machine(1), dict[str, Machine]()
        kubelet.ip_of = lambda pod: self._machine(pod["metadata"].get("labels", {}).get("gshare.io/session")).address

    def _machine(self, session: str | None) -> Machine:
        return self.machines.get(session or "", self.node)

    def taken(
        self, kernels: Callable[[], list[dict[str, str]]], inside: Callable[[], dict[str, str | None]]
    ) -> Session:
        """A session of a quarter of the card, in which that is done; it runs."""
        session = self.site.world.create("L")
        machine = self.machines[str(session.pk)] = Machine(len(self.machines) + 2)
        machine.serve(8888, {"/lab/api/kernels": says(kernels)})
        machine.serve(8790, {"/activity": says(inside)})
        self.site.is_in(session, "running")
        return session

    def stop(self) -> None:
        for machine in (self.node, *self.machines.values()):
            machine.stop()


@pytest.fixture
def seats(site: Site, kubelet: Kubelet) -> Iterator[Seats]:
    made = Seats(site, kubelet)
    yield made
    made.stop()


def never() -> dict[str, str | None]:
    return {"input_at": None, "edited_at": None}


def typing() -> dict[str, str | None]:
    return {"input_at": datetime.now(UTC).isoformat(), "edited_at": None}


def at_rest() -> list[dict[str, str]]:
    return [{"execution_state": "idle", "last_activity": (datetime.now(UTC) - timedelta(days=1)).isoformat()}]


def executing() -> list[dict[str, str]]:
    return [{"execution_state": "busy", "last_activity": (datetime.now(UTC) - timedelta(days=1)).isoformat()}]


class Taker:
    """Where the operator's beats arrive."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def inventory(self, document: Inventory) -> None:
        raise AssertionError("the test carries it over")

    def beat(self, operator: Operating) -> None:
        """One beat of the operator, taken as the callback takes it."""
        parts = operator.parts
        assert parts is not None
        beat = Beat(self, parts.substrate, parts.store, parts.operator, SystemClock(), watched=parts.activity)
        document = operator.do(beat.document())
        assert document is not None
        read, bad = Inventory.read(document.model_dump(mode="json"))
        assert not bad
        reports.receive_inventory(self._site.world.cluster.pk, read)


def test_who_is_idle_is_paused_and_who_is_busy_or_unknown_runs_on(
    plane: ControlPlane, namespace: str, site: Site, seats: Seats
) -> None:
    world, operator = site.world, site.operator
    idle = seats.taken(at_rest, never)
    busy = seats.taken(executing, never)
    terminal = seats.taken(at_rest, typing)
    silent = seats.taken(at_rest, never)
    seats.machines[str(silent.pk)].stop()
    card = world.card.uuid
    monitor = f'hami_host_gpu_memory_used_bytes{{device_uuid="{card}",node="{world.node.name}"}} 1\n'
    port = seats.node.serve(0, {"/metrics": says(monitor)})
    container = {"name": "vgpu-monitor", "image": "i", "ports": [{"containerPort": port}]}
    spec = {"nodeName": world.node.name, "containers": [container]}
    monitors = plane.namespace("monitors")
    plane.rest().create(f"/api/v1/namespaces/{monitors}/pods", {"metadata": {"name": "monitor"}, "spec": spec})
    everybody = [idle, busy, terminal, silent]
    until(lambda: _is_heard(operator, everybody), within=20, what="the monitor")
    with metrics_served(plane, namespace) as metrics:
        for _ in range(12):
            world.time.advance(5 * MINUTE)
            for session in everybody:
                pod = plane.rest().get(f"/api/v1/namespaces/{namespace}/pods/s-{session.pk.hex}-1")
                metrics.say(pod, "40m")
            Taker(site).beat(operator)
            idleness.judge()
        assert [fresh(session).state for session in everybody] == ["running"] * 4, (
            "the window began with the first look"
        )
        world.time.advance(6 * MINUTE)
        Taker(site).beat(operator)
        idleness.judge()
    assert {session: fresh(session).state for session in everybody} == {
        idle: "pausing",
        busy: "running",
        terminal: "running",
        silent: "running",
    }
    assert fresh(idle).reason == "idle"
    states = [RunActivity.objects.get(run__session=session).state for session in (busy, terminal, silent)]
    assert states == ["in_use", "in_use", "unknown"]
    site.is_in(idle, "paused")
    assert pods(plane, namespace) == sorted(f"s-{session.pk.hex}-1" for session in (busy, terminal, silent))


def _is_heard(operator: Operating, sessions: list[Session]) -> bool:
    found = operator.samples()
    samples = [found.get((session.pk, 1)) for session in sessions]
    return all(sample is not None and sample.gpu is not None and sample.gpu.healthy for sample in samples)
