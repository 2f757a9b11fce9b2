"""The twin over HTTP, as kube-scheduler calls an extender: ``/filter``, ``/bind``, ``/healthz``, ``/readyz``.

Go's field names; a body beyond 1 MiB is cut off and answered as the real one answers it; errors travel with status 200.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.kube.hami_twin.scheduler import Twin
from tests.serving import Server

_BODY_MAX = 1024 * 1024


class Extender:
    """A server on loopback. Use it as a context; `url` is its address."""

    def __init__(self, twin: Twin, port: int = 0) -> None:
        self._server = Server(("127.0.0.1", port), _handler_of(twin))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Extender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def filter_answer(twin: Twin, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to ``/filter``: with `NodeNames` a choice with effect, with `Nodes` a simulation."""
    pod = arguments.get("Pod")
    if pod is None:
        return _filtered(error="extender args missing pod")
    nodes = arguments.get("Nodes")
    if nodes is not None:
        try:
            chosen, refused = twin.simulate(pod, nodes.get("items") or [])
        except ValueError as error:
            return _filtered(error=f"calcScore failed {error} for pod {pod['metadata']['name']}")
        return {**_filtered(failed=refused), "Nodes": {"metadata": {}, "items": [chosen]} if chosen else None}
    answer = twin.filter(pod, arguments.get("NodeNames") or [])
    return _filtered(names=answer.nodes, failed=answer.failed, error=answer.error)


def bind_answer(twin: Twin, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to ``/bind``."""
    where = [str(arguments.get(key, "")) for key in ("PodNamespace", "PodName", "PodUID", "Node")]
    return {"Error": twin.bind(*where)}


def _filtered(names: Any = None, failed: Any = None, error: str = "") -> dict[str, Any]:
    return {
        "Nodes": None,
        "NodeNames": None if names is None else list(names),
        "FailedNodes": None if failed is None else dict(failed),
        "FailedAndUnresolvableNodes": None,
        "Error": error,
    }


_ROUTES = {
    "/filter": (filter_answer, lambda error: _filtered(error=error)),
    "/bind": (bind_answer, lambda error: {"Error": error}),
}


def _handler_of(twin: Twin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200 if self.path in ("/healthz", "/readyz") else 404, b"ok")

        def do_POST(self) -> None:
            answer, refusal = _ROUTES.get(self.path, (None, None))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if answer is None or refusal is None:
                self._send(404, b"404 page not found\n")
                return
            try:
                arguments = json.loads(body[:_BODY_MAX])
            except ValueError:
                self._answer(refusal("unexpected EOF"))
                return
            self._answer(answer(twin, arguments))

        def _answer(self, document: Mapping[str, Any]) -> None:
            self._send(200, json.dumps(document).encode(), "application/json")

        def _send(self, status: int, body: bytes, kind: str = "text/plain") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class names it)
            pass

    return Handler
