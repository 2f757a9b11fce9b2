"""Somebody between a client and a real API server, over TLS: passes requests on, and can spoil what tests name.

`before(method, path)` may act before a request is passed on, or answer in the server's place; `line(text)` sees each line of a
watch and may change it or swallow it (None).
"""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import httpx
import yaml

from tests.kube.plane import ControlPlane
from tests.kube.processes import TlsServer


@dataclass
class Answer:
    """An answer that the real server never gave; the parts of its body are sent one by one."""

    status: int
    body: Iterable[bytes] = ()
    headers: dict[str, str] = field(default_factory=dict)


class Between:
    """Serves on loopback between `with` and its end."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self.before: Callable[[str, str], Answer | None] = lambda _method, _path: None
        self.line: Callable[[bytes], bytes | None] = lambda text: text
        self.requests: list[str] = []
        self.seen_headers: list[dict[str, str]] = []

    def __enter__(self) -> Between:
        self._server = TlsServer(type("Handler", (_Handler,), {"between": self}), self.folder, "between")
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._server.port}"

    def kubeconfig(self) -> str:
        """An administrator's, that leads here."""
        document = self.plane.kubeconfig_document(server=self.server)
        authority = base64.b64encode(self._server.certificate.read_bytes()).decode()
        document["clusters"][0]["cluster"]["certificate-authority-data"] = authority
        return yaml.safe_dump(document)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    between: ClassVar[Between]

    def _serve(self) -> None:
        self.between.requests.append(f"{self.command} {self.path}")
        self.between.seen_headers.append(dict(self.headers.items()))
        answer = self.between.before(self.command, self.path)
        try:
            if answer is not None:
                self._say(answer.status, answer.headers, answer.body)
            else:
                self._pass_on()
        except OSError:
            pass  # whoever asked has gone

    do_GET = do_PATCH = do_DELETE = do_POST = do_PUT = _serve  # noqa: N815

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {
            name: self.headers[name] for name in ("Authorization", "Content-Type", "Accept") if name in self.headers
        }
        context = ssl.create_default_context(cafile=str(self.between.plane.ca))
        with httpx.Client(verify=context, trust_env=False, timeout=httpx.Timeout(10, read=60)) as client:
            url = f"{self.between.plane.server}{self.path}"
            with client.stream(self.command, url, content=body, headers=headers) as answer:
                kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
                self._say(answer.status_code, kind, self._parts(answer))

    def _parts(self, answer: httpx.Response) -> Iterable[bytes]:
        if "watch=true" not in self.path:
            yield answer.read()
            return
        for text in answer.iter_lines():
            changed = self.between.line(text.encode())
            if changed is not None:
                yield changed + b"\n"

    def _say(self, status: int, headers: dict[str, str], body: Iterable[bytes]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        for part in body:
            self.wfile.write(part)
            self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Says nothing."""
