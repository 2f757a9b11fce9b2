"""From the click to a session that works, on the embedded default that runs now.

Each round creates a session over HTTP as a signed-in person, waits until it is shown running, asks JupyterLab through the
session's own origin with a one-time link, and stops it. Beside it JupyterLab is started by itself, the same program in an
empty folder, until it answers: what is left of the whole time is GShare's own share.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from django.conf import settings

from gshare_site.benches import Figure, WrongAnswer
from gshare_site.benches.person import Person
from gshare_site.embedded.places import session_venv

HELP = "Time from the click to a JupyterLab that answers, without JupyterLab's own start."
BAR_SECONDS = 1.0
PATIENCE_SECONDS = 120
LOOK_SECONDS = 0.02


def add_arguments(parser: ArgumentParser) -> None:
    """The bench's own options."""
    parser.add_argument("--rounds", type=int, default=5, help="Sessions started (default 5).")
    parser.add_argument("--who", default="alice", help="Whose session: the first part of a demo address.")


def run(options: Mapping[str, Any]) -> Iterator[Figure]:
    """Measure the whole and the part that is JupyterLab's, in turn."""
    person = Clicker.of_demo(settings.GSHARE.home / "demo.json", options["who"])
    whole, alone = [], []
    for _round in range(options["rounds"]):
        alone.append(_jupyterlab_alone())
        whole.append(person.click_to_work())
    verified = f"{options['rounds']} sessions ran, answered JupyterLab's status with the right credential, and stopped"
    yield Figure("click to work: the whole", median(whole), "s", verified, better="less")
    yield Figure("click to work: JupyterLab's own start", median(alone), "s", verified, better="less")
    share = median(a - b for a, b in zip(whole, alone, strict=True))
    yield Figure("click to work: our share", share, "s", verified, BAR_SECONDS, "less", {"worst": round(max(whole), 3)})


class Clicker(Person):
    """Somebody who starts a session and opens it."""

    @classmethod
    def of_demo(cls, known: Path, who: str) -> Clicker:
        """Sign in with what the demo wrote down. Raises ValueError when no demo runs in this home."""
        if not known.exists():
            raise ValueError(f"{known} is missing: start `make demo` first, with the same GSHARE_HOME")
        written = json.loads(known.read_text())
        login = next((u for u in written["users"] if u["email"].startswith(f"{who}@")), None)
        if login is None:
            raise ValueError(f"the demo knows no {who}")
        person = cls(written["url"])
        if not person.sign_in(login["email"], login["password"]):
            raise ValueError(f"{login['email']} cannot sign in with the password that the demo wrote down")
        return person

    def click_to_work(self) -> float:
        """Seconds from the create to JupyterLab's answer through the session's own origin."""
        body = self._cheapest()
        began = time.perf_counter()
        made = self.ask("POST", "/api/v1/sessions", json=body, headers={"Idempotency-Key": str(uuid4())})
        if made.status_code != 201:
            raise WrongAnswer(f"create answered {made.status_code}: {made.text}")
        session = made.json()["id"]
        self._until(session, "running")
        took = self._open(session) - began
        self.ask("POST", f"/api/v1/sessions/{session}/stop", json={})
        self._until(session, "stopped")
        return took

    def _cheapest(self) -> dict[str, Any]:
        """A session without a GPU: the way is the same."""
        me = self.ask("GET", "/api/v1/me").json()
        presets = self.ask("GET", "/api/v1/presets").json()["results"]
        images = self.ask("GET", "/api/v1/images").json()["results"]
        return {
            "name": "bench",
            "group": me["groups"][0]["id"],
            "preset": next(row["id"] for row in presets if row["tier"] == "cpu"),
            "image": next(row["id"] for row in images if "lab" in row["apps"]),
        }

    def _until(self, session: str, state: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (now := self.ask("GET", f"/api/v1/sessions/{session}").json()["state"]) != state:
            if now == "failed" or time.monotonic() > deadline:
                raise WrongAnswer(f"session {session} is {now}, not {state}")
            time.sleep(LOOK_SECONDS)

    def _open(self, session: str) -> float:
        """Enter by the one-time link and ask JupyterLab; answers when it answered."""
        link = self.ask("POST", f"/api/v1/sessions/{session}/access", json={"app": "lab"}).json()["url"]
        parts = urlsplit(link)
        host, base = {"Host": parts.netloc}, f"http://127.0.0.1:{parts.port}"
        navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        entered = self.client.get(f"{base}{parts.path}?{parts.query}", headers=host | navigation)
        cookie = entered.headers.get("set-cookie", "").split(";", 1)[0]
        answer = self.client.get(f"{base}/lab/api/status", headers=host | {"Cookie": cookie})
        self.client.cookies.clear()
        if answer.status_code != 200 or "kernels" not in answer.json():
            raise WrongAnswer(f"JupyterLab answered {answer.status_code} through the session's origin")
        return time.perf_counter()


def _jupyterlab_alone() -> float:
    """Seconds until JupyterLab answers when nobody but this bench starts it."""
    python = session_venv() / "bin/python"
    if not python.exists():
        raise ValueError("no interpreter with JupyterLab: run `make setup`")
    folder = Path(tempfile.mkdtemp(prefix="gshare-click-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(python), "-P", "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--IdentityProvider.token=bench", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate"]
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return _first_answer(process, f"http://127.0.0.1:{port}/api/status?token=bench") - began
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _first_answer(process: subprocess.Popen[bytes], address: str) -> float:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(address, timeout=5).status_code == 200:
                return time.perf_counter()
        except httpx.HTTPError:
            time.sleep(LOOK_SECONDS)
    raise WrongAnswer("JupyterLab by itself does not answer")
