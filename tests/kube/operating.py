"""An operator on a real API server, in this process: its loop in a thread, its reports taken as a control plane would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import httpx
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import load_kube_config_from_dict

from cluster.domain import hami
from cluster.operator.main import SystemClock
from cluster.operator.manifests import ManifestSettings
from cluster.operator.manifests.gpu import USE_UUID
from cluster.operator.reading.troubles import Patience
from cluster.operator.substrates.kubernetes.api import Api, plain_configuration
from cluster.operator.substrates.kubernetes.assembly import Assembly, assemble
from gshare_core.contract import Activity, StatusReport
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, Refused
from tests.waiting import until

T = TypeVar("T")
_SOON = timedelta(seconds=1)
IMPATIENT = Patience(image=_SOON, scheduling=timedelta(seconds=30), node_lock=_SOON, mount=_SOON, creation=_SOON)


class Died(BaseException):
    """What a kill would do: nothing after it is done."""


class Mortal(Api):
    """Dies before its n-th writing call; `calls` are those that it made."""

    def __init__(self, client: ApiClient, dies_before: int) -> None:
        super().__init__(client)
        self._left = dies_before

    async def _call(self, method: str, path: str, *given: Any, **more: Any) -> Any:
        if method != "GET":
            self._left -= 1
            if self._left <= 0:
                raise Died
        return await super()._call(method, path, *given, **more)


class Operating:
    """One operator's life. `reports` are those that were taken; `deaf` takes none."""

    def __init__(
        self, plane: ControlPlane, namespace: str, *, dies_before: int | None = None, user: str = "", deaf: bool = False
    ) -> None:
        self._plane, self._namespace = plane, namespace
        self._dies_before, self._user = dies_before, user
        self.reports: list[tuple[UUID, StatusReport]] = []
        self.deaf = deaf
        self.parts: Assembly | None = None
        self.fault: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._live, name="operator", daemon=True)

    def start(self) -> Operating:
        """Begin; returns once it looks."""
        self._thread.start()
        until(
            lambda: self.is_dead or (self.parts and self.parts.operator.observed_at),
            within=30,
            what="the operator looks",
        )
        if self.fault is not None:
            raise self.fault
        return self

    def acknowledge(self, session: UUID, report: StatusReport) -> None:
        """The control plane has taken this report."""
        assert self.parts is not None
        parts = self.parts

        def note() -> None:
            parts.store.acknowledge(session, report.run, report.sequence)
            parts.operator.wake()

        self._loop.call_soon_threadsafe(note)

    def heed(self, cordoned: frozenset[str] | None) -> None:
        """The control plane has said which nodes are cordoned; returns when the operator has acted on it."""
        assert self.parts is not None
        self.do(self.parts.cordons.keep(cordoned))

    def samples(self, at: datetime | None = None) -> Mapping[tuple[UUID, int], Activity]:
        """What sessions do, as the next beat would tell it."""
        assert self.parts is not None
        return self.do(self.parts.activity.activity(at or datetime.now(UTC)))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done in the operator's own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    @property
    def is_dead(self) -> bool:
        """Whether its life is over."""
        return not self._thread.is_alive()

    def kill(self) -> None:
        """End in the middle of whatever it does."""
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(20)
        assert self.is_dead, "the operator ends when it is told to"

    def phases(self, session: UUID, run: int = 1) -> list[str]:
        """What was reported of a run, without repetitions."""
        said = [report.phase.value for known, report in self.reports if (known, report.run) == (session, run)]
        return [phase for at, phase in enumerate(said) if at == 0 or said[at - 1] != phase]

    def last(self, session: UUID) -> StatusReport | None:
        """The newest report of a session."""
        return next((report for known, report in reversed(self.reports) if known == session), None)

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._run())
        try:
            self._loop.run_until_complete(self._task)
        except (asyncio.CancelledError, Died):
            return  # that is how it was to end
        except BaseExceptionGroup as group:
            if group.split(Died)[1] is not None:
                self.fault = group
        except BaseException as error:  # noqa: BLE001 -- shown to the test
            self.fault = error

    async def _run(self) -> None:
        configuration = plain_configuration()
        await load_kube_config_from_dict(self._plane.kubeconfig_document(), client_configuration=configuration)
        async with ApiClient(configuration) as client:
            if self._user:
                client.set_default_header("Impersonate-User", self._user)
            settings = ManifestSettings(namespace=self._namespace)
            api = Api(client) if self._dies_before is None else Mortal(client, self._dies_before)
            self.parts = assemble(api, settings, lambda session, run: "a" * 64, SystemClock(), patience=IMPATIENT)
            async with asyncio.TaskGroup() as group:
                group.create_task(self.parts.run())
                group.create_task(self._take(self.parts))

    async def _take(self, parts: Assembly) -> None:
        while True:
            await asyncio.sleep(0.05)
            if self.deaf:
                continue
            for session, record in parts.store.pending():
                assert record.report is not None
                self.reports.append((session, record.report))
                parts.store.acknowledge(session, record.run, record.report.sequence)
                parts.operator.wake()


@contextmanager
def operating(
    plane: ControlPlane, namespace: str, *, dies_before: int | None = None, user: str = "", deaf: bool = False
) -> Iterator[Operating]:
    """An operator that is ended afterwards; `user` is whom it acts as, an administrator unless somebody is named.

    With `deaf` its reports are for the test to take.
    """
    made = Operating(plane, namespace, dies_before=dies_before, user=user, deaf=deaf)
    try:
        yield made.start()
    finally:
        made.kill()


def _allotted(pod: JSON, node: str) -> dict[str, str]:
    """What HAMi writes when it has chosen the cards that the pod asks for."""
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    share = f"NVIDIA,{limits.get('nvidia.com/gpumem', 0)},{limits.get('nvidia.com/gpucores', 0)}"
    cards = (pod["metadata"].get("annotations") or {}).get(USE_UUID, "")
    devices = ":".join(f"{card},{share}" for card in cards.split(",") if card)
    return {hami.ASSIGNED_NODE: node, hami.ALLOCATED: f"{devices}:;"} if devices else {}


class Binder(threading.Thread):
    """Binds pods to the node and cards that they name, as HAMi would; for tests that are not about scheduling."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(name="binder", daemon=True)
        self._rest, self._namespace, self._over = plane.rest(), namespace, threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.05):
            with suppress(httpx.HTTPError, Refused):  # the API server is away, or somebody was faster
                self._bind()

    def _bind(self) -> None:
        for pod in self._rest.items(f"/api/v1/namespaces/{self._namespace}/pods"):
            node = (pod["spec"].get("nodeSelector") or {}).get("kubernetes.io/hostname")
            if pod["spec"].get("nodeName") or not node or pod["metadata"].get("deletionTimestamp"):
                continue
            name = pod["metadata"]["name"]
            target = {"apiVersion": "v1", "kind": "Node", "name": node}
            body: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": name},
                "target": target,
            }
            path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
            self._rest.patch(path, {"metadata": {"annotations": _allotted(pod, node)}})
            self._rest.create(f"{path}/binding", body)

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self.join(10)
