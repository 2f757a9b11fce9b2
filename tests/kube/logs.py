"""The part of a kubelet that serves containers' logs: over TLS, asked by the API server, like the real one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.kube.processes import TlsServer


class LogServer:
    """Answers `/containerLogs/<namespace>/<pod>/<container>` with what tests wrote, or else with what `find` finds.

    API servers do not check its certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.texts: dict[tuple[str, str, str], str] = {}
        self.find: Callable[[str, str, str], str | None] = lambda _namespace, _pod, _container: None
        self._server = TlsServer(_handler(self), folder, "kubelet")
        self._thread = threading.Thread(target=self._server.serve_forever, name="kubelet-logs", daemon=True)

    @property
    def port(self) -> int:
        return self._server.port

    def write(self, namespace: str, pod: str, container: str, text: str) -> None:
        """What the container has written so far."""
        self.texts[namespace, pod, container] = text

    def text(self, namespace: str, pod: str, container: str) -> str | None:
        """What the container has written, if it is known."""
        written = self.texts.get((namespace, pod, container))
        return self.find(namespace, pod, container) if written is None else written

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def _handler(logs: LogServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts = url.path.strip("/").split("/")
            text = logs.text(*parts[1:]) if parts[0] == "containerLogs" and len(parts) == 4 else None
            if text is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            tail = parse_qs(url.query).get("tailLines")
            lines = text.splitlines(keepends=True)
            body = "".join(lines[-int(tail[0]) :] if tail else lines).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler
