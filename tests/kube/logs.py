"""The part of a kubelet that serves containers' logs: over TLS, asked by the API server, like the real one."""

from __future__ import annotations

import ssl
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.kube.processes import run


class LogServer:
    """Answers `/containerLogs/<namespace>/<pod>/<container>` with what tests wrote. API servers do not check its certificate."""

    def __init__(self, folder: Path) -> None:
        subject = ["-subj", "/CN=kubelet", "-days", "2"]
        keys = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-keyout",
            "kubelet.key",
            "-out",
            "kubelet.crt",
        ]
        run(["openssl", "req", "-x509", "-nodes", *subject, *keys], folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "kubelet.crt", folder / "kubelet.key")
        self.texts: dict[tuple[str, str, str], str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.texts))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="kubelet-logs", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def write(self, namespace: str, pod: str, container: str, text: str) -> None:
        """What the container has written so far."""
        self.texts[namespace, pod, container] = text

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def _handler(texts: dict[tuple[str, str, str], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            parts = url.path.strip("/").split("/")
            text = (
                texts.get((parts[1], parts[2], parts[3])) if parts[0] == "containerLogs" and len(parts) == 4 else None
            )
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
