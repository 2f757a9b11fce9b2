"""`manage.py up`: the embedded default from an empty folder to a console that answers, and back.

Order: refuse what must not be served, take the sockets and the home's lock, start PostgreSQL and Valkey, make roles and
database, prepare (migrate, grant, bootstrap, seed) in a process of its own as the owner, start the control plane and the
local operator, say where it is. Whatever fails on the way ends what was started, with one line that says why.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx
from prometheus_client.multiprocess import mark_process_dead

from gshare_site.config import Config
from gshare_site.embedded import database, valkey
from gshare_site.embedded.listeners import ListenError, open_listener, refuse_plain_http
from gshare_site.embedded.places import PlaceError, Places, kept_secrets, runtime_folder, write_private
from gshare_site.embedded.postgres import PostgresError, PrivatePostgres
from gshare_site.embedded.privileges import PrivilegeError
from gshare_site.embedded.programs import ROOT, Platform, operator_program, postgres_program, valkey_program
from gshare_site.embedded.supervisor import Program, Supervisor
from gshare_site.embedded.valkey import ValkeyError

CONSOLE_SECONDS = 120
FAULTS = (ListenError, PlaceError, PostgresError, PrivilegeError, ValkeyError)


class StackError(Exception):
    """The embedded default cannot start; the message is for the person who started it."""


@dataclass
class Stack:
    """One run of the embedded default."""

    config: Config
    demo: bool
    say: Callable[[str], None]
    opened: ExitStack = field(default_factory=ExitStack)

    def run(self) -> None:
        """Return after a clean end (Ctrl-C, SIGTERM). Raises StackError."""
        self.places = Places(self.config.home)
        with self.opened:
            try:
                self._run()
            except FAULTS as error:
                raise StackError(str(error)) from error

    def _run(self) -> None:
        config = self.config
        refuse_plain_http(bind=config.bind, public_url=config.public_url, trusted_proxies=config.trusted_proxies)
        self._refuse_if_running()
        public = self.opened.enter_context(open_listener(config.bind, config.port, "GSHARE_PORT"))
        host, _, port = config.internal_bind.rpartition(":")
        internal = self.opened.enter_context(
            open_listener(host.strip("[]"), int(port), "GSHARE_PORT or GSHARE_INTERNAL_BIND")
        )
        self.places.make()
        self._take_lock()
        self.runtime = runtime_folder(config.home)
        self.opened.callback(shutil.rmtree, self.runtime, ignore_errors=True)
        self.kept = kept_secrets(self.places.secrets)
        metrics = self._fresh_folder("metrics")
        self.supervisor = Supervisor(
            logs=self.places.logs, say=self.say, after_death=lambda pid: mark_process_dead(pid, str(metrics))
        )
        self.supervisor.install_signals()
        self.opened.callback(self.supervisor.stop_all)
        environment = self._start_services() | {"PROMETHEUS_MULTIPROC_DIR": str(metrics)}
        self._prepare(environment)
        platform = Platform(config, environment, public.fileno(), internal.fileno())
        self._start_all(platform.listening())
        self._wait_for_console()  # the rest would only slow down what somebody is waiting for
        self._start_all([*platform.working(), operator_program(config, self.places)])
        self._announce()
        self.supervisor.watch()
        if self.supervisor.stopping:
            self.say("Stopping: sessions are paused, files in volumes and all data are kept …")

    def _start_all(self, programs: Iterable[Program]) -> None:
        for program in programs:
            if not self.supervisor.stopping:
                self.supervisor.start(program)

    def _refuse_if_running(self) -> None:
        """Say that this home is in use before saying that its port is: the port is busy because of it."""
        if self.places.lock.exists():
            with self.places.lock.open("a") as lock:
                self._lock(lock)

    def _take_lock(self) -> None:
        self._lock(self.opened.enter_context(self.places.lock.open("a")))

    def _lock(self, lock: IO[str]) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            where = _answers_at(self.places.demo)
            raise StackError(
                f"GShare already runs with GSHARE_HOME {self.places.home}{where}; stop it with Ctrl-C there,"
                " or choose another GSHARE_HOME and GSHARE_PORT"
            ) from None

    def _fresh_folder(self, name: str) -> Path:
        folder = self.runtime / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        return folder

    def _start_services(self) -> dict[str, str]:
        """Private PostgreSQL and Valkey unless addresses are given; the serving processes' environment."""
        config, urls = self.config, {}
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GSHARE_OPERATOR_")}
        redis_url = config.redis_url.get_secret_value()
        if not redis_url:
            socket = self.runtime / "valkey.sock"
            self._start_all([valkey_program(socket)])
            redis_url = valkey.valkey_url(socket)
        urls["GSHARE_REDIS_URL"] = redis_url
        if config.database_url.get_secret_value():
            urls["GSHARE_DATABASE_URL"] = config.database_url.get_secret_value()
            self.owner_url = config.migration_database_url.get_secret_value()
            if not self.owner_url:
                raise StackError(
                    "GSHARE_DATABASE_URL also needs GSHARE_MIGRATION_DATABASE_URL, the role that owns the tables"
                )
        else:
            urls["GSHARE_DATABASE_URL"] = self._start_postgres()
        urls["GSHARE_SECRET_KEY"] = config.secret_key.get_secret_value() or self.kept["secret_key"]
        text = "".join(f"{name}={json.dumps(value)}\n" for name, value in urls.items())
        write_private(self.places.environment, "# written by `manage.py up`\n" + text)
        without_owner = {name: value for name, value in ours.items() if not name.startswith("GSHARE_MIGRATION_")}
        return {**without_owner, **urls, "GSHARE_HOME": str(config.home), "GSHARE_PORT": str(config.port)}

    def _start_postgres(self) -> str:
        server = PrivatePostgres(self.places.database, self.runtime / "pg")
        if not (server.data / "PG_VERSION").exists():
            self.say(f"Making a database in {server.data} (the first start takes a minute or two) …")
        password = self.kept["superuser_password"]
        server.initialise(password)
        server.prepare_start()
        child = self.supervisor.start(postgres_program(server))
        server.wait_until_ready(password, within=60, alive=lambda: child.alive() and not self.supervisor.stopping)
        database.provision(server, self.kept)
        self.owner_url = database.owner_url(server, self.kept)
        return database.serving_url(server, self.kept)

    def _prepare(self, environment: Mapping[str, str]) -> None:
        """Migrate, grant, bootstrap and seed as the owner, in a process that ends before anything serves."""
        command = [sys.executable, "manage.py", "prepare", *(["--demo"] if self.demo else [])]
        env = {**environment, "GSHARE_MIGRATION_DATABASE_URL": self.owner_url}
        process = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True)
        while process.poll() is None:
            self.supervisor.watch(until=lambda: process.poll() is not None)
            if self.supervisor.stopping and process.poll() is None:
                process.terminate()
                process.wait()
                return
        if process.returncode:
            raise StackError("the preparation failed, see above")

    def _wait_for_console(self) -> None:
        deadline = time.monotonic() + CONSOLE_SECONDS
        answered = False

        def console_answers() -> bool:
            nonlocal answered
            answered = answered or self._answers()
            return answered or time.monotonic() > deadline

        self.supervisor.watch(until=console_answers)
        if not answered and not self.supervisor.stopping:
            raise StackError(f"the console does not answer within {CONSOLE_SECONDS} s, see {self.places.logs}")

    def _announce(self) -> None:
        """Write demo.json and say where everything is."""
        if self.supervisor.stopping:
            return
        url = self.config.public_url
        users = json.loads(self.places.demo_users.read_text(encoding="utf-8"))["users"] if self.demo else []
        if self.demo:
            write_private(self.places.demo, json.dumps({"url": url, "users": users}, indent=1) + "\n")
        self.say(f"\nGShare answers at {url}\n")
        columns = ("email", "password", "role", "note")
        widths = {column: max((len(user[column]) for user in users), default=0) for column in columns}
        for user in users:
            self.say("  " + "  ".join(f"{user[column]:<{widths[column]}}" for column in columns).rstrip())
        self.say(f"\nLogs: {self.places.logs}   Ctrl-C stops everything and keeps all data.\n")

    def _answers(self) -> bool:
        try:
            headers = {"Host": httpx.URL(self.config.public_url).netloc.decode()}
            answer = httpx.get(f"http://{self.config.bind}:{self.config.port}/login/", headers=headers, timeout=5)
        except httpx.TransportError:
            return False
        return answer.status_code < 500


def _answers_at(demo: Path) -> str:
    """Where the running one answers, as far as it has written it down."""
    try:
        return f" and answers at {json.loads(demo.read_text(encoding='utf-8'))['url']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
