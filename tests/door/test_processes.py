"""The server processes of tests: each is who it is taken for, and none outlives its run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from secrets import randbelow

import pytest

from tests.door.processes import echo_app, free_port
from tests.kube.containers import own_address
from tests.waiting import until

RUN = """
import sys, threading
from tests.door.processes import echo_app
with echo_app(int(sys.argv[1])):
    print("listens", flush=True)
    threading.Event().wait()
"""


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_what_somebody_else_answers_is_not_taken_for_the_application() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        with pytest.raises(AssertionError, match="the server ended"):
            with echo_app(other.getsockname()[1]):
                pytest.fail("somebody else listens here")


def test_an_application_listens_on_a_socket_too_and_ends_with_its_context(tmp_path: Path) -> None:
    where = tmp_path / "app.sock"
    with echo_app(where), socket.socket(socket.AF_UNIX) as probe:
        assert probe.connect_ex(str(where)) == 0
    with socket.socket(socket.AF_UNIX) as probe:
        assert probe.connect_ex(str(where)) != 0


def test_an_application_ends_with_a_run_that_is_killed() -> None:
    port = free_port()
    with subprocess.Popen([sys.executable, "-c", RUN, str(port)], stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"listens\n"
        assert listens(port)
        os.kill(run.pid, signal.SIGKILL)
    until(lambda: not listens(port), within=20, what="the application has ended")


def test_an_address_that_one_test_has_no_other_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    had = own_address()
    _, net, subnet, host = map(int, had.split("."))
    drawn = [net - 64, subnet, host - 1]
    monkeypatch.setattr("tests.kube.containers.randbelow", lambda limit: drawn.pop(0) if drawn else randbelow(limit))
    assert own_address() != had
    assert not drawn, "it was drawn again, and left"
