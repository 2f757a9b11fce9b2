"""A control plane of a few lines over real HTTP: documents to follow, and a record of what was reported.

It can be told to misbehave at the reports: answer 500, close the connection after having taken one (the answer is
lost), or be away altogether. It also checks what every caller must send.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from gshare_core.contract import DesiredDocument, DesiredFeed, Inventory, SessionSpec, StatusReport
from tests.serving import Server

_STATUS = re.compile(r"/internal/v1/sessions/([0-9a-f-]{36})/status")


@dataclass
class Book:
    """What the control plane knows; shared by its threads, outlives its restarts."""

    token: str = "first"
    seq: int = 0
    documents: dict[UUID, DesiredDocument] = field(default_factory=dict)
    attempts: list[tuple[UUID, StatusReport]] = field(default_factory=list)
    accepted: list[tuple[UUID, StatusReport]] = field(default_factory=list)
    inventories: list[Inventory] = field(default_factory=list)
    asked_after: list[int] = field(default_factory=list)
    unauthorised: int = 0
    misbehaviour: list[str] = field(default_factory=list)
    removed_volumes: tuple[str, ...] = ()
    cordoned_nodes: tuple[str, ...] | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def want(self, spec: SessionSpec) -> None:
        """Write a session's document."""
        self._write(spec.session_id, spec, spec.run, spec.generation)

    def bury(self, session: UUID, run: int, generation: int) -> None:
        """Write a tombstone."""
        self._write(session, None, run, generation)

    def _write(self, session: UUID, spec: SessionSpec | None, run: int, generation: int) -> None:
        with self.changed:
            self.seq += 1
            entombed = {} if spec else {"run": run, "generation": generation}
            self.documents[session] = DesiredDocument(session=session, seq=self.seq, spec=spec, **entombed)
            self.changed.notify_all()

    def after(self, seq: int, wait: int) -> DesiredFeed:
        deadline = time.monotonic() + wait
        with self.changed:
            self.asked_after.append(seq)
            while True:
                news = [row for row in self.documents.values() if row.seq > seq]
                left = deadline - time.monotonic()
                if news or left <= 0:
                    documents = tuple(sorted(news, key=lambda row: row.seq))
                    return DesiredFeed(
                        seq=self.seq,
                        documents=documents,
                        removed_volumes=self.removed_volumes,
                        cordoned_nodes=self.cordoned_nodes,
                    )
                self.changed.wait(min(left, 0.5))

    def phases(self, session: UUID) -> list[str]:
        """The accepted phases of a session, in the order in which they came."""
        return [report.phase.value for known, report in self.accepted if known == session]

    def last(self, session: UUID, phase: str) -> StatusReport | None:
        """The latest accepted report of that phase."""
        found = [report for known, report in self.accepted if known == session and report.phase == phase]
        return found[-1] if found else None


class ControlPlane:
    """The book served on a loopback port; `stop` and `start` keep the port."""

    def __init__(self) -> None:
        self.book = Book()
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        handler = type("Handler", (_Handler,), {"book": self.book})
        self._server = Server(("127.0.0.1", self.port), handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    book: Book
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        query = {key: int(values[0]) for key, values in parse_qs(urlsplit(self.path).query).items()}
        if self.allowed():
            self.answer(200, self.book.after(query["after"], query["wait"]).to_wire())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        if not self.allowed():
            return
        status = _STATUS.fullmatch(self.path)
        if status:
            self.take_report(UUID(status[1]), StatusReport.model_validate(body))
        elif self.path == "/internal/v1/inventory":
            document, bad = Inventory.read(body)
            assert not bad, bad
            self.book.inventories.append(document)
            self.answer(200, {})
        else:
            self.answer(404, {})

    def take_report(self, session: UUID, report: StatusReport) -> None:
        self.book.attempts.append((session, report))
        how = self.book.misbehaviour.pop(0) if self.book.misbehaviour else "well"
        if how == "refuse":
            self.answer(500, {"detail": "not now"})
            return
        self.book.accepted.append((session, report))
        if how == "lose the answer":
            self.close_connection = True
            self.connection.close()
            return
        self.answer(204, None)

    def allowed(self) -> bool:
        if self.headers.get("Authorization") == f"Bearer {self.book.token}":
            return True
        self.book.unauthorised += 1
        self.answer(401, {"detail": "no"})
        return False

    def answer(self, status: int, body: Any) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: object) -> None:
        pass
