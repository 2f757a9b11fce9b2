"""The demo's own processes, and a person at a page: what the browser stories are told with.

`running_demo` starts `manage.py up --demo` on a port and in a home of its own and ends it as Ctrl-C would.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 300
PATIENCE_MS = 60_000  # a page on a busy machine
STOP_SECONDS = 60


@dataclass(frozen=True)
class Demo:
    """A running demo: its address, its home, its people by the first part of their address."""

    url: str
    home: Path
    process: subprocess.Popen[bytes]
    people: dict[str, dict[str, str]]
    settings: Mapping[str, str] = field(default_factory=dict)

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a management command on the demo's database."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)

    @property
    def environment(self) -> dict[str, str]:
        """What a process of this demo gets."""
        return environment(self.home, self.port) | dict(self.settings)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


def environment(home: Path, port: int) -> dict[str, str]:
    """What the demo's processes get: nothing of the test run's own settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GSHARE_", "DJANGO_"))}
    return clean | {"GSHARE_HOME": str(home), "GSHARE_PORT": str(port), "GSHARE_ENV_FILE": os.devnull}


def free_port() -> int:
    """A port whose successor is free too: the internal listener takes it."""
    for _attempt in range(50):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
            with socket.socket() as two:
                try:
                    two.bind(("127.0.0.1", port + 1))
                except OSError:
                    continue
                return port
    raise RuntimeError("no two free ports in a row")


@contextmanager
def running_demo(**settings: str) -> Iterator[Demo]:
    """A demo with settings of its own, ended as Ctrl-C would."""
    home = Path(tempfile.mkdtemp(prefix="gse-", dir="/tmp"))
    home.chmod(0o711)  # sessions run as users of their own below it
    port = free_port()
    log = (home / "up.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "manage.py", "up", "--demo"],
        cwd=ROOT,
        env=environment(home, port) | settings,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    known = home / "demo.json"

    def answers() -> bool:
        assert process.poll() is None, (home / "up.log").read_text()
        return known.exists()

    try:
        until(answers, within=START_SECONDS, what="the demo to answer")
        written = json.loads(known.read_text())
        people = {person["email"].partition("@")[0]: person for person in written["users"]}
        yield Demo(written["url"], home, process, people, settings)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        log.close()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def quiet_page(context: BrowserContext) -> Iterator[Page]:
    """A page that must not complain: errors of scripts and refused resources fail the test."""
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("console", lambda said: complaints.append(said.text) if _is_complaint(said) else None)
    yield opened
    assert complaints == []


def _is_complaint(said: Any) -> bool:
    """An error on the console that is not the refusal of a form (those answer 422 on purpose)."""
    return said.type == "error" and "422" not in said.text


def sign_in(page: Page, demo: Demo, who: str, password: str | None = None) -> None:
    """As a person does it."""
    page.goto(f"{demo.url}/login/")
    page.get_by_label("E-mail").fill(demo.people[who]["email"])
    page.locator("input[name=password]").fill(password or demo.people[who]["password"])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
