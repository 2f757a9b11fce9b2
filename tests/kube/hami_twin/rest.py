"""The twin on a real API server: the port over REST, and the loop that brings events and passes.

Everything is listed and compared, nothing is watched: an event is a pod whose resource version is new.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Protocol, cast

from tests.kube.hami_twin.port import Node, Refusal
from tests.kube.hami_twin.requests import Pod
from tests.kube.hami_twin.reservations import uid_of
from tests.kube.hami_twin.scheduler import Config, Twin

_NODES = "/api/v1/nodes"


class Client(Protocol):
    """A client of an API server. Its calls raise an exception of its own for anything but success."""

    def find(self, path: str) -> dict[str, Any] | None:
        """The object, or None where there is none."""
        ...

    def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a list."""
        ...

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """POST."""
        ...

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A merge patch; null removes."""
        ...


class RestCluster:
    """The port of the scheduler. `refused` is what the client raises when the server refuses."""

    def __init__(self, client: Client, refused: type[Exception]) -> None:
        self._client = client
        self._refused = refused

    def nodes(self) -> Sequence[Node]:
        return self._client.items(_NODES)

    def pods(self) -> Sequence[Pod]:
        """All pods of all namespaces."""
        return self._client.items("/api/v1/pods")

    def node(self, name: str) -> Node | None:
        return self._client.find(f"{_NODES}/{name}")

    def pod(self, namespace: str, name: str) -> Pod | None:
        return self._client.find(_pod(namespace, name))

    def patch_pod(
        self, namespace: str, name: str, annotations: Mapping[str, str], labels: Mapping[str, str] | None = None
    ) -> None:
        metadata = {"annotations": dict(annotations), **({"labels": dict(labels)} if labels else {})}
        self._do(lambda: self._client.patch(_pod(namespace, name), {"metadata": metadata}))

    def patch_node(self, name: str, annotations: Mapping[str, str | None], version: str | None = None) -> None:
        metadata: dict[str, Any] = {"annotations": dict(annotations)}
        if version is not None:
            metadata["resourceVersion"] = version
        self._do(lambda: self._client.patch(f"{_NODES}/{name}", {"metadata": metadata}))

    def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, **({"uid": uid} if uid else {})},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._do(lambda: self._client.create(f"{_pod(namespace, name)}/binding", binding))

    def quotas(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        return self._client.items(f"/api/v1/namespaces/{namespace}/resourcequotas")

    def _do(self, call: Callable[[], object]) -> None:
        try:
            call()
        except self._refused as error:
            body = cast("Mapping[str, Any]", getattr(error, "body", None) or {})
            raise Refusal(str(body.get("message") or error)) from error


class Follower:
    """A twin that follows an API server while the context is open.

    `pods_every` and `nodes_every` are seconds between looks; the real scheduler passes over nodes every 15 s. `away` are
    the errors of a client whose server is away: the next look comes anyway.
    """

    def __init__(
        self,
        cluster: RestCluster,
        config: Config | None = None,
        *,
        pods_every: float = 0.2,
        nodes_every: float = 15.0,
        away: tuple[type[Exception], ...] = (),
    ) -> None:
        self.twin = Twin(cluster, lambda: datetime.now(UTC), config)
        self._cluster = cluster
        self._pods_every, self._nodes_every = pods_every, nodes_every
        self._away: tuple[type[Exception], ...] = (*away, Refusal)
        self._versions: dict[str, str] = {}
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=(look, seconds), daemon=True)
            for look, seconds in ((self.look_at_pods, pods_every), (self.twin.refresh, nodes_every))
        ]

    def __enter__(self) -> Follower:
        self.look_at_pods()
        self.twin.refresh()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def look_at_pods(self) -> None:
        """Tell the twin what changed since the last look.

        A pod may be reserved and gone between two looks, so that none of them saw it with its annotations, as the delete
        event that the real scheduler hears has them: what is tracked and no longer there is forgotten. What is tracked is
        asked first, as a pod that is filtered meanwhile may be younger than the list.
        """
        tracked = self.twin.tracked()
        now = {uid_of(pod): pod for pod in self._cluster.pods()}
        for uid in tracked - now.keys():
            self.twin.forget(uid)
        for uid, pod in now.items():
            if self._versions.get(uid) != pod["metadata"]["resourceVersion"]:
                self.twin.pod_changed(pod)
        self._versions = {uid: pod["metadata"]["resourceVersion"] for uid, pod in now.items()}

    def _repeat(self, look: Callable[[], None], seconds: float) -> None:
        while not self._end.wait(seconds):
            try:
                look()
            except self._away:
                continue


def _pod(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
