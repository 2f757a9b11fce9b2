"""Who stands around the operator in its bench: whoever wants sessions, a scheduler with a node's kubelet, the control plane, and
the applications in sessions.

Guarantees: they follow instead of listing, and each call is made once, so that what is left of the machine is the operator's, the
API server's and etcd's; all of them live in one loop in one thread, and what they cost is this process's own processor time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
import threading
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, TypeVar
from uuid import UUID

import aiohttp
from aiohttp import web

from gshare_core.contract import API_GROUP, LABEL_SESSION, PLURAL_SESSIONS

JSON = dict[str, Any]
T = TypeVar("T")
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
_ABREAST = 16
_ADDED = b'{"type":"ADDED"'
_LEASE_SECONDS = 10.0
# Sandbox, container, JupyterLab's own start, and a readiness probe every two seconds: never less where an image is there.
_COMES_UP_SECONDS = 3.0


class StandIns:
    """Between `start` and `stop` in a thread of their own. `seen`: when each session's pod was first shown."""

    def __init__(self, server: str, ca: str, token: str, namespace: str) -> None:
        self.seen: dict[UUID, float] = {}
        self.running: set[UUID] = set()
        self.runs: set[int] = set()
        self.inventories = self.questions = 0
        self.faults: list[str] = []
        self.url, self.port = "", 0
        self._server, self._ca, self._token, self._namespace = server, ca, token, namespace
        self._bound: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stand-ins", daemon=True)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, node: str) -> None:
        """Serve, follow, and keep the node alive."""
        gc.freeze()  # what Django and the tests brought along need not be gone through again and again
        self._thread.start()
        self._do(self._start(node))

    def stop(self) -> None:
        """End all of it."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def write(self, resources: Sequence[JSON], rate: float) -> list[float]:
        """Apply the resources, so many a second; when each was asked for. Raises RuntimeError where one is refused."""
        return self._do(self._write(resources, rate))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self, node: str) -> None:
        self._http = aiohttp.ClientSession(
            self._server,
            connector=aiohttp.TCPConnector(limit=_ABREAST * 4, ssl=ssl.create_default_context(cafile=self._ca)),
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=aiohttp.ClientTimeout(total=60.0),
        )
        application = web.Application()
        application.router.add_get("/internal/v1/desired", self._desired)
        application.router.add_post("/internal/v1/inventory", self._inventory)
        application.router.add_post("/internal/v1/sessions/{session}/status", self._report)
        application.router.add_get("/lab/api/{what}", self._jupyter)
        application.router.add_get("/activity", self._reporter)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, self.port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{self.port}"
        self._ports = {self.port}
        self._room = asyncio.Semaphore(_ABREAST)
        self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._keep_alive(node))]

    async def _stop(self) -> None:
        await self._runner.cleanup()
        # A long poll may still wait for its time.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.close()

    async def _call(self, method: str, path: str, body: JSON, content: str = MERGE) -> None:
        data, headers = json.dumps(body).encode(), {"Content-Type": content}
        async with self._http.request(method, path, data=data, headers=headers) as answer:
            if answer.status // 100 != 2:
                self.faults.append(f"{method} {path}: {answer.status} {(await answer.text())[:300]}")

    # Whoever wants sessions ----------------------------------------------------------------------------------------------

    async def _write(self, resources: Sequence[JSON], rate: float) -> list[float]:
        began = perf_counter()
        asked = [0.0] * len(resources)

        async def one(number: int, resource: JSON) -> None:
            await asyncio.sleep(max(0.0, began + number / rate - perf_counter()))
            path = f"/apis/{API_GROUP}/v1/namespaces/{self._namespace}/{PLURAL_SESSIONS}/{resource['metadata']['name']}"
            asked[number] = perf_counter()
            await self._call("PATCH", f"{path}?fieldManager=gshare-control-plane&force=true", resource, APPLY)

        await asyncio.gather(*(one(*each) for each in enumerate(resources)))
        if self.faults:
            raise RuntimeError(self.faults[0])
        return asked

    # Scheduler and kubelet -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Note each session's pod, bind it to the node that it names, and set it running."""
        path = f"/api/v1/namespaces/{self._namespace}/pods?watch=true&labelSelector={LABEL_SESSION}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            asyncio.TaskGroup() as group,
            self._http.get(path, timeout=timeout, read_bufsize=1 << 20) as events,
        ):
            async for line in events.content:
                if not line.startswith(_ADDED):  # what this stand-in did itself is no news to it
                    continue
                pod = json.loads(line)["object"]
                await self._listen(pod)
                self.seen.setdefault(UUID(pod["metadata"]["labels"][LABEL_SESSION]), perf_counter())
                group.create_task(self._run(pod))

    async def _listen(self, pod: JSON) -> None:
        """Serve at every port that the pods name; they have the same."""
        ports = {port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        for port in sorted(ports - self._ports):
            self._ports.add(port)
            await web.TCPSite(self._runner, "127.0.0.1", port).start()

    async def _run(self, pod: JSON) -> None:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeSelector"]["kubernetes.io/hostname"]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        async with self._room:
            await self._call("POST", f"{path}/binding", binding, "application/json")
        await asyncio.sleep(_COMES_UP_SECONDS)
        async with self._room:
            await self._call("PATCH", f"{path}/status", {"status": _ready(pod)})

    async def _keep_alive(self, node: str) -> None:
        """Renew the node's lease, as its kubelet does."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node}"
        while True:
            spec = {"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": _now("%Y-%m-%dT%H:%M:%S.%fZ")}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node}, "spec": spec}
            await self._call("PATCH", f"{path}?fieldManager=kubelet&force=true", lease, APPLY)
            await asyncio.sleep(_LEASE_SECONDS)

    # The control plane ---------------------------------------------------------------------------------------------------

    async def _desired(self, request: web.Request) -> web.Response:
        await asyncio.sleep(float(request.query["wait"]))
        return web.json_response({"seq": 0, "documents": [], "removed_volumes": []})

    async def _inventory(self, request: web.Request) -> web.Response:
        await request.read()
        self.inventories += 1
        return web.json_response({})

    async def _report(self, request: web.Request) -> web.Response:
        report = json.loads(await request.read())
        self.runs.add(report["run"])
        if report["phase"] == "running":
            self.running.add(UUID(request.match_info["session"]))
        return web.Response(status=204)

    # Applications --------------------------------------------------------------------------------------------------------

    # The pods' address and ports are ours: each session's applications answer as JupyterLab and an image's reporter do.

    async def _jupyter(self, request: web.Request) -> web.Response:
        self.questions += 1
        return web.json_response([])

    async def _reporter(self, request: web.Request) -> web.Response:
        self.questions += 1
        return web.json_response({"input_at": None, "edited_at": None, "kernels": []})


def _ready(pod: JSON) -> JSON:
    """The status of a pod whose containers run and are ready."""
    started = _now("%Y-%m-%dT%H:%M:%SZ")
    holds = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready", "ContainersReady")]
    containers = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": each["image"],
            "started": True,
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": started}},
        }
        for each in pod["spec"]["containers"]
    ]
    address = {"hostIP": "127.0.0.1", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    return {
        "phase": "Running", "startTime": started, "conditions": holds, "containerStatuses": containers, **address,
    }  # fmt: skip


def _now(form: str) -> str:
    return datetime.now(UTC).strftime(form)
