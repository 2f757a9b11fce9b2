"""What answers in pods and on nodes, for tests of samples: addresses of their own, small HTTP servers, the metrics API.

The metrics API is a custom resource under its name, served by the real API server: tests write what metrics-server would.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.kube.fixtures import is_served
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, Rest
from tests.serving import Server
from tests.waiting import until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_METRICS = "/apis/metrics.k8s.io/v1beta1"


def address(number: int) -> str:
    """A loopback address that no other process of the tests uses."""
    return f"127.{os.getpid() >> 8 & 127 | 128}.{os.getpid() & 255}.{number}"


Answers = dict[str, Callable[[BaseHTTPRequestHandler], None]]


def says(body: Any, status: int = 200) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer: text as it is, anything else as JSON; what a function says at that moment."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        said = body() if callable(body) else body
        content = (said if isinstance(said, str) else json.dumps(said)).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


class Machine:
    """An address with HTTP servers on its ports. `asked` are the requests: port, path and the credential."""

    def __init__(self, number: int) -> None:
        self.address = address(number)
        self.asked: list[tuple[int, str, str]] = []
        self._servers: list[Server] = []

    def serve(self, port: int, answers: Answers) -> int:
        """Answer by path (without its query); others with 404. `answers` may be changed later; port 0 is any."""
        machine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own = self.server.server_port  # type: ignore[attr-defined]
                machine.asked.append((own, self.path, self.headers.get("Authorization", "")))
                with suppress(OSError):  # whoever asked has gone
                    answers.get(self.path.partition("?")[0], says("", 404))(self)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        server = Server((self.address, port), Handler)
        server.daemon_threads = True
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def stop(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()
        self._servers = []


class Metrics:
    """What metrics-server says of the pods of a namespace."""

    def __init__(self, rest: Rest, namespace: str) -> None:
        self._rest, self._pods = rest, f"{_METRICS}/namespaces/{namespace}/pods"

    def say(self, pod: JSON, cpu: str, *, memory: str = "100Mi", ago: timedelta = timedelta(0)) -> None:
        """The pod uses that much, measured so long ago."""
        name = pod["metadata"]["name"]
        document = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": name, "labels": pod["metadata"]["labels"]},
            "timestamp": (datetime.now(UTC) - ago).isoformat(),
            "window": "15s",
            "containers": [{"name": "session", "usage": {"cpu": cpu, "memory": memory}}],
        }
        self._rest.apply(f"{self._pods}/{name}", document, manager="metrics-server")


@contextmanager
def metrics_served(plane: ControlPlane, namespace: str) -> Iterator[Metrics]:
    """The metrics API is there."""
    rest, name = plane.rest(), "pods.metrics.k8s.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, of tests"}},
        "spec": {"group": "metrics.k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    rest.apply(f"{_DEFINITIONS}/{name}", definition, manager="tests")
    until(lambda: is_served(rest, f"{_METRICS}/namespaces/{namespace}/pods"), within=30, what="metrics are served")
    try:
        yield Metrics(rest, namespace)
    finally:
        rest.delete(f"{_DEFINITIONS}/{name}")
        until(lambda: rest.find(f"{_DEFINITIONS}/{name}") is None, within=30, what="they are served no more")
