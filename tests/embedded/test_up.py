"""The embedded default as a person has it: up, killed in parts, ended, up again with everything kept."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
ADMIN = ("root@gshare.example", "correct-horse-battery")
MARKS = {
    "postgres": "bin/postgres -D",
    "valkey": "valkey-server",
    "web": "gshare_site.asgi:application",
    "internal": "gshare_site.asgi_internal:application",
    "worker": "gshare_site worker",
    "beat": "gshare_site beat",
    "operator": "cluster.operator",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


class Up:
    """One `manage.py up` in a home and on ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.home, self.said = folder / "home", folder / "said"
        self.port = _free_pair()
        self.process: subprocess.Popen[bytes] | None = None

    def environment(self, **more: str) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("GSHARE_", "DJANGO_"))}
        own = {
            "GSHARE_ENV_FILE": os.devnull,
            "GSHARE_HOME": str(self.home),
            "GSHARE_PORT": str(self.port),
            "GSHARE_BOOTSTRAP_ADMIN_EMAIL": ADMIN[0],
            "GSHARE_BOOTSTRAP_ADMIN_PASSWORD": ADMIN[1],
        }
        return {**clean, **own, **more}

    def start(self) -> None:
        with self.said.open("wb") as said:
            self.process = process = subprocess.Popen(
                [sys.executable, "-m", "gshare_site.embedded.up"],
                cwd=ROOT,
                env=self.environment(),
                stdout=said,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

        def answers() -> bool:
            assert process.poll() is None, self.said.read_text()
            return "answers at" in self.said.read_text() and set(self.children()) == set(MARKS)

        until(answers, within=180, what="a console that answers")

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.process = None
        return code

    def children(self) -> dict[str, int]:
        found: dict[str, int] = {}
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children():
                with suppress(psutil.Error):
                    line = " ".join(child.cmdline())
                    found.update({name: child.pid for name, mark in MARKS.items() if mark in line})
        return found

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def get(self, path: str, *, internal: bool = False) -> int | None:
        url = f"http://127.0.0.1:{self.port + internal}{path}"
        try:
            return httpx.get(url, headers={"Host": f"localhost:{self.port}"}, timeout=60).status_code
        except httpx.TransportError:
            return None

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, cwd=ROOT, env=self.environment(), capture_output=True, text=True, check=False)


def _free_pair() -> int:
    """A port that is free together with its neighbour."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
            with suppress(OSError):
                second.bind(("127.0.0.1", port + 1))
                return port


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    folder = Path(tempfile.mkdtemp(prefix="gst-up-", dir="/tmp"))
    folder.chmod(0o755)
    up = Up(folder)
    try:
        up.start()
        yield up
    finally:
        if up.process is not None:
            up.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", list(MARKS))
def test_whatever_is_killed_is_back_and_the_service_works(up: Up, name: str) -> None:
    before = up.children()[name]
    os.kill(before, signal.SIGKILL)
    until(lambda: up.children().get(name, before) != before, within=30, what=f"{name} again")
    until(lambda: up.get("/readyz", internal=True) == 200, within=60, what="a ready service")
    assert up.get("/login/") == 200


def test_while_the_web_process_restarts_a_client_waits_and_is_not_refused(up: Up) -> None:
    os.kill(up.children()["web"], signal.SIGKILL)
    assert up.get("/login/") == 200


def test_the_internal_listener_is_another_socket_and_the_public_one_does_not_know_its_paths(up: Up) -> None:
    assert up.get("/healthz", internal=True) == 200
    for path in ("/healthz", "/metrics", "/internal/v1/desired", "/.well-known/gshare-internal-jwks.json"):
        assert up.get(path) == 404
    assert up.get("/login/", internal=True) == 404


def test_the_operator_knows_neither_database_nor_secret_key(up: Up) -> None:
    given = psutil.Process(up.children()["operator"]).environ()
    telling = [
        name for name in given if "DATABASE" in name or "SECRET" in name or "REDIS" in name or "PASSWORD" in name
    ]
    assert telling == []


def test_no_serving_process_is_given_the_owners_address(up: Up) -> None:
    for name in ("web", "internal", "worker", "beat"):
        assert "GSHARE_MIGRATION_DATABASE_URL" not in psutil.Process(up.children()[name]).environ()


def test_commands_find_the_running_services_by_themselves(up: Up) -> None:
    done = up.manage("trial_balance")
    assert done.returncode == 0, done.stdout + done.stderr


def test_secrets_in_the_home_are_its_owners_only(up: Up) -> None:
    for name in ("secrets.json", "embedded.env", "keys", "logs", "postgres", "operator/token.json"):
        assert (up.home / name).stat().st_mode & 0o077 == 0, name


def test_a_second_one_for_the_same_home_is_refused_by_name(up: Up) -> None:
    command = [sys.executable, "-m", "gshare_site.embedded.up"]
    for port in (_free_pair(), up.port):
        other = up.environment(GSHARE_PORT=str(port))
        done = subprocess.run(command, cwd=ROOT, env=other, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"already runs with GSHARE_HOME {up.home}" in done.stderr


def test_a_busy_port_says_so_before_anything_is_made(up: Up, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gshare_site.embedded.up"]
    other = up.environment(GSHARE_HOME=str(tmp_path / "other"))
    done = subprocess.run(command, cwd=ROOT, env=other, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"port {up.port} on 127.0.0.1 is already in use" in done.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_leaves_no_process_and_the_next_start_keeps_everything(up: Up, number: signal.Signals) -> None:
    kept = json.loads((up.home / "secrets.json").read_text())
    family = up.family()
    assert up.end(number) == 0
    until(lambda: [p for p in family if _alive(p)] == [], within=10, what="the end of every process")
    up.start()
    assert json.loads((up.home / "secrets.json").read_text()) == kept
    assert "Nothing was missing." in up.said.read_text(), "the administrator is still there"


def test_when_the_supervisor_is_killed_its_children_end_and_a_new_one_starts(up: Up) -> None:
    family = up.family()
    up.process.kill()
    up.process.wait(10)
    until(lambda: [p for p in family if _alive(p)] == [], within=60, what="the end of every process")
    up.start()
    assert up.get("/login/") == 200


def _alive(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
