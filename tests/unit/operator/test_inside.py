"""The reporter inside a session's container, run as an image runs it: real terminals, real files, real HTTP."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from cluster.operator.reading.apps import Inside, Kernels, app_uses, read_inside, read_kernels, read_terminals
from gshare_core.contract import AppUse
from tests.serving import Server
from tests.waiting import until

PROGRAM = Path(__file__).resolve().parents[3] / "deploy/images/activity.py"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
ONE = datetime(2026, 11, 30, 13, tzinfo=UTC)


class Lab(BaseHTTPRequestHandler):
    """Jupyter's answer about its kernels; `asked` is what it was asked, and with which token."""

    answer: ClassVar[tuple[int, bytes]] = (200, b"[]")
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization", "")))
        status, body = self.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def lab() -> Iterator[type[Lab]]:
    class Own(Lab):
        asked: ClassVar[list[tuple[str, str]]] = []

    server = Server(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Own.port = server.server_port  # type: ignore[attr-defined]
    yield Own
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def reporter(tmp_path: Path, lab: type[Lab]) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"GSHARE_TOKEN": "secret", "GSHARE_PORT_ACTIVITY": str(port), "HOME": str(tmp_path)}
    environment["GSHARE_PORT_LAB"] = str(lab.port)  # type: ignore[attr-defined]
    running = subprocess.Popen([sys.executable, "-I", str(PROGRAM)], env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: _answers(url), what="the reporter")
        yield url
    finally:
        running.kill()
        running.wait()


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return ask(url) is not None
    return False


def ask(url: str) -> Inside | None:
    return read_inside(httpx.get(f"{url}/activity", headers={"Authorization": "token secret"}).content)


@pytest.mark.timeout(90)
def test_typing_into_any_terminal_is_use_and_opening_one_or_output_is_not(reporter: str) -> None:
    before = ask(reporter)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    try:
        assert ask(reporter) == before, "a terminal was opened, nobody typed"

        def typed() -> Inside | None:
            os.write(terminal, b"x\n")
            os.read(terminal, 1024)
            found = ask(reporter)
            return found if found != before else None

        # The kernel moves a terminal's times in steps of eight seconds.
        found = until(typed, within=30, what="input")
        assert found.input_at is not None
        assert abs((datetime.now(UTC) - found.input_at).total_seconds()) < 20
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_file_that_vs_code_saved_is_use(reporter: str, tmp_path: Path) -> None:
    found = ask(reporter)
    assert found is not None
    assert found.edited_at is None
    (tmp_path / ".local/share/code-server/User/History/4f2a").mkdir(parents=True)
    edited = ask(reporter)
    assert edited is not None
    assert edited.edited_at is not None


def test_it_tells_what_jupyter_says_of_its_kernels_and_leaves_no_trace_of_use(reporter: str, lab: type[Lab]) -> None:
    kernel = {
        "id": "k",
        "name": "python3",
        "execution_state": "busy",
        "last_activity": NOON.isoformat(),
        "connections": 1,
    }
    lab.answer = (200, json.dumps([kernel]).encode())
    lab.asked.clear()
    found = ask(reporter)
    assert found is not None
    assert found.kernels == Kernels(True, NOON)
    assert lab.asked == [("/lab/api/kernels?no_track_activity=1", "token secret")]


@pytest.mark.parametrize("answer", [(403, b"[]"), (200, b"{"), (200, b"7"), (200, b'[{"id": "k"}]'), (200, b"[3]")])
def test_where_jupyter_says_nothing_the_rest_is_told(reporter: str, lab: type[Lab], answer: tuple[int, bytes]) -> None:
    lab.answer = answer
    found = ask(reporter)
    assert found is not None
    assert found.kernels is None


def test_it_tells_nobody_else_and_nothing_else(reporter: str) -> None:
    assert httpx.get(f"{reporter}/activity").status_code == 401
    assert httpx.get(f"{reporter}/activity", headers={"Authorization": "token Secret"}).status_code == 401
    assert httpx.get(f"{reporter}/etc/passwd", headers={"Authorization": "token secret"}).status_code == 404


BOTH = ("lab", "terminal")


@pytest.mark.parametrize(
    ("apps", "kernels", "terminals", "inside", "rows"),
    [
        (("lab",), Kernels(True, NOON), None, None, [AppUse(app="lab", busy=True, last_activity_at=NOON)]),
        (("lab",), None, None, None, [AppUse(app="lab", known=False)]),
        (("lab",), Kernels(False, NOON), ONE, None, [AppUse(app="lab", last_activity_at=ONE)]),
        (("lab",), Kernels(False, NOON), ONE, Inside(None, None), [AppUse(app="lab", last_activity_at=NOON)]),
        (("lab",), Kernels(False, None), None, Inside(ONE, NOON), [AppUse(app="lab", last_activity_at=ONE)]),
        (BOTH, Kernels(False, None), NOON, None, [AppUse(app="lab", last_activity_at=NOON), AppUse(app="terminal", known=False)]),
        (BOTH, Kernels(False, None), NOON, Inside(ONE, None), [AppUse(app="lab"), AppUse(app="terminal", last_activity_at=ONE)]),
        (("code",), None, None, Inside(None, ONE), [AppUse(app="code", last_activity_at=ONE)]),
        (("code",), None, None, Inside(ONE, NOON), [AppUse(app="code", last_activity_at=ONE)]),
        (("code", "activity", "other"), None, None, None, [AppUse(app="code", known=False)]),
    ],
)  # fmt: skip
def test_each_application_is_judged_by_who_can_tell_of_it(apps, kernels, terminals, inside, rows) -> None:  # type: ignore[no-untyped-def]
    assert list(app_uses(apps, kernels, terminals, inside)) == rows


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"[]", b"\xff", b"null", b'{"input_at": 5}', b'{"input_at": null}', b'{"input_at": "x", "edited_at": null}', b'{"input_at": null, "edited_at": null, "kernels": [3]}'],
)  # fmt: skip
def test_what_is_no_answer_is_unknown(answer: bytes | None) -> None:
    assert read_inside(answer) is None
    assert read_terminals(answer) is None
    if answer != b"[]":
        assert read_kernels(answer) is None
