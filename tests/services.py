"""The test run's own PostgreSQL and Valkey: one of each per run, a database per worker, gone when the run ends.

The migrated database is cached outside the checkout under a key made of every migration and grant, so that a run usually
starts by copying a folder and pays neither initdb nor migrations. Where GSHARE_DATABASE_URL, GSHARE_MIGRATION_DATABASE_URL
and GSHARE_TEST_SUPERUSER_URL name a server (GSHARE_REDIS_URL a Redis), those are used instead.
"""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from platformdirs import user_cache_path

from gshare_site.embedded import valkey
from gshare_site.embedded.postgres import SUPERUSER, PrivatePostgres, find_binaries
from gshare_site.provision import APP_ROLE, OWNER_ROLE, create_database, create_role

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = "tests-only"
TEMPLATE = "gshare_template"
KEPT_TEMPLATES = 4
APPS = ("accounts", "billing", "catalog", "cluster", "sessions_app", "gshare_core", "gshare_site")


@dataclass(frozen=True)
class Addresses:
    """Where the run's services are; database URLs name no database, `database_url` puts one in."""

    superuser: str
    owner: str
    app: str
    redis: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def with_database(url: str, name: str) -> str:
    """The URL for the database `name`."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


def template_key() -> str:
    """Changes with anything that changes the migrated schema or its grants."""
    digest = hashlib.sha256(f"{find_binaries().major}".encode())
    files = [
        ROOT / "requirements.txt",
        ROOT / "gshare_site/provision.py",
        ROOT / "gshare_site/embedded/postgres.py",
        ROOT / "tests/services.py",
    ]
    for app in APPS:
        files += [ROOT / app / "apps.py", *sorted((ROOT / app / "migrations").glob("*.py"))]
    for path in files:
        if path.is_file():
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:20]


class Server:
    """A running private PostgreSQL of the tests."""

    def __init__(self, folder: Path) -> None:
        self.postgres = PrivatePostgres(folder / "data", folder / "s", durable=False)
        self.log = folder / "postgres.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.postgres.initialise(PASSWORD)
        self.postgres.prepare_start()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.postgres.command(),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        process = self.process
        self.postgres.wait_until_ready(PASSWORD, within=60, alive=lambda: process.poll() is None)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(10)
        self.process = None

    def url(self, role: str, database: str = "") -> str:
        return self.postgres.url(role, PASSWORD, database)


@contextmanager
def running_services(given: Mapping[str, str]) -> Iterator[Addresses]:
    """Start PostgreSQL unless it is given, yield the addresses (Valkey's is `given`'s or empty), end what was started."""
    folder = Path(tempfile.mkdtemp(prefix="gst-", dir="/tmp"))
    server = Server(folder)
    try:
        addresses = _given_addresses(given)
        if addresses is None:
            shutil.copytree(cached_template() / "data", folder / "data", symlinks=True)
            server.start()
            addresses = Addresses(
                superuser=server.url(SUPERUSER),
                owner=server.url(OWNER_ROLE),
                app=server.url(APP_ROLE),
                redis=given.get("GSHARE_REDIS_URL", ""),
            )
        yield addresses
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_valkey() -> Iterator[str]:
    """A Valkey of this process's own: tests flush it, and its channels are seen from every database number of a server."""
    folder = Path(tempfile.mkdtemp(prefix="gsv-", dir="/tmp"))
    socket = folder / "valkey.sock"
    process = subprocess.Popen(
        valkey.valkey_command(socket),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        valkey.wait_until_ready(socket, within=20, alive=lambda: process.poll() is None)
        yield valkey.valkey_url(socket)
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _given_addresses(given: Mapping[str, str]) -> Addresses | None:
    names = ("GSHARE_TEST_SUPERUSER_URL", "GSHARE_MIGRATION_DATABASE_URL", "GSHARE_DATABASE_URL")
    if not given.get("GSHARE_DATABASE_URL"):
        return None
    missing = [name for name in names if not given.get(name)]
    if missing:
        raise RuntimeError(f"tests on a given server also need {', '.join(missing)}")
    superuser, owner, app = (given[name] for name in names)
    with psycopg.connect(with_database(superuser, "postgres"), autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("DROP DATABASE IF EXISTS {}").format(psycopg.sql.Identifier(TEMPLATE)))
        create_database(connection, TEMPLATE, owner=urlsplit(owner).username or OWNER_ROLE)
    migrate(owner, app, TEMPLATE)
    return Addresses(superuser=superuser, owner=owner, app=app, redis=given.get("GSHARE_REDIS_URL", ""))


def cached_template() -> Path:
    """The folder of a stopped server that holds the migrated template; made when its key is new."""
    cache = user_cache_path("gshare", appauthor=False) / "tests"
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = cache / f"pg-{template_key()}"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build_template(target)
        os.utime(target)
        old = sorted(cache.glob("pg-*"), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT_TEMPLATES:]
        for path in old:
            shutil.rmtree(path, ignore_errors=True)
    return target


def _build_template(target: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="gsb-", dir="/tmp"))
    server = Server(folder)
    try:
        server.start()
        with psycopg.connect(with_database(server.url(SUPERUSER), "postgres"), autocommit=True) as connection:
            create_role(connection, OWNER_ROLE, PASSWORD)
            create_role(connection, APP_ROLE, PASSWORD)
            create_database(connection, TEMPLATE, owner=OWNER_ROLE)
        migrate(server.url(OWNER_ROLE), server.url(APP_ROLE), TEMPLATE)
        server.stop()
        shutil.rmtree(folder / "s", ignore_errors=True)
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        shutil.copytree(folder, scratch, symlinks=True)
        scratch.rename(target)
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def environment(addresses: Addresses, database: str) -> dict[str, str]:
    """What a GShare process needs to serve this database; os.environ without the developer's own GSHARE_ settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GSHARE_")}
    return {
        **clean,
        "DJANGO_SETTINGS_MODULE": "gshare_site.settings",
        "GSHARE_ENV_FILE": os.devnull,
        "GSHARE_HOME": os.environ["GSHARE_HOME"],
        "GSHARE_SECRET_KEY": "tests-only-" + "0" * 40,
        "GSHARE_DATABASE_URL": with_database(addresses.app, database),
        "GSHARE_REDIS_URL": addresses.redis,
    }


def migrate(owner: str, app: str, database: str) -> None:
    """Run `manage.py migrate_all` in its own process against the database."""
    env = environment(Addresses(superuser="", owner=owner, app=app, redis=""), database)
    env["GSHARE_MIGRATION_DATABASE_URL"] = with_database(owner, database)
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate_all", "--verbosity=0"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"migrate_all failed:\n{done.stdout}{done.stderr}")
