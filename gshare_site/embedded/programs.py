"""The processes of the embedded default, as the supervisor runs them. What each may know is decided here.

The serving processes get the serving role's address and the secret key; the operator gets neither, nor anything else of the
control plane's but its own token file, because the sessions it starts are strangers' code.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM

from gshare_site.config import Config
from gshare_site.embedded.places import Places, session_programs
from gshare_site.embedded.postgres import PrivatePostgres
from gshare_site.embedded.privileges import dying_with_parent
from gshare_site.embedded.supervisor import Program
from gshare_site.embedded.valkey import valkey_command
from gshare_site.environment import foreign_values

ROOT = Path(__file__).resolve().parent.parent.parent
SERVICES, PLATFORM, OPERATOR = 0, 1, 2
OPERATOR_STOP_SECONDS = 30.0
PLAIN_NAMES = ("PATH", "LANG", "LC_ALL", "TZ", "HOME", "USER", "LOGNAME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")


def postgres_program(server: PrivatePostgres) -> Program:
    """PostgreSQL; a fast shutdown (SIGINT) rolls open transactions back."""
    return Program(
        name="postgres",
        command=server.command,
        environment=plain_environment(),
        tier=SERVICES,
        stop_signal=SIGINT,
        stop_seconds=30,
        before_start=server.prepare_start,
    )


def valkey_program(socket: Path) -> Program:
    return Program(
        name="valkey", command=lambda: valkey_command(socket), environment=plain_environment(), tier=SERVICES
    )


@dataclass(frozen=True)
class Platform:
    """What the control plane's own processes share."""

    config: Config
    environment: Mapping[str, str]
    public_fd: int
    internal_fd: int

    def listening(self) -> list[Program]:
        """Web processes on one socket, and the internal listener."""
        count = self.config.web_processes
        names = ["web"] if count == 1 else [f"web-{number + 1}" for number in range(count)]
        return [*(self._web(name) for name in names), self._internal()]

    def working(self) -> list[Program]:
        """Worker and beat."""
        return [self._worker(), self._beat()]

    def _web(self, name: str) -> Program:
        return self._program(
            name, uvicorn("gshare_site.asgi:application", self.public_fd), descriptors=(self.public_fd,)
        )

    def _internal(self) -> Program:
        return self._program(
            "internal",
            uvicorn("gshare_site.asgi_internal:application", self.internal_fd, lifespan="on"),
            descriptors=(self.internal_fd,),
            settings="gshare_site.settings.internal",
        )

    def _worker(self) -> Program:
        command = ["celery", "--quiet", "-A", "gshare_site", "worker", "--loglevel=WARNING", "--without-gossip"]
        command += ["--without-mingle", f"--concurrency={self.config.worker_concurrency}", "--hostname=embedded@%h"]
        return self._program("worker", [sys.executable, "-m", *command])

    def _beat(self) -> Program:
        command = ["celery", "--quiet", "-A", "gshare_site", "beat", "--loglevel=WARNING", "--pidfile="]
        command += ["--scheduler=celery.beat:Scheduler"]
        return self._program("beat", [sys.executable, "-m", *command])

    def _program(
        self,
        name: str,
        command: list[str],
        *,
        descriptors: tuple[int, ...] = (),
        settings: str = "gshare_site.settings",
    ) -> Program:
        return Program(
            name=name,
            command=lambda: dying_with_parent(command, SIGTERM),
            environment={**self.environment, "DJANGO_SETTINGS_MODULE": settings},
            tier=PLATFORM,
            descriptors=descriptors,
            folder=ROOT,
        )


def uvicorn(application: str, descriptor: int, *, lifespan: str = "off") -> list[str]:
    """A web process on an inherited socket; it ends connections it has within 5 s of being asked to end."""
    return [
        *(sys.executable, "-m", "uvicorn", application, "--fd", str(descriptor)),
        *("--http", "httptools", "--ws", "websockets-sansio", "--ws-per-message-deflate", "false"),
        *("--ws-ping-interval", "20", "--ws-ping-timeout", "20", "--timeout-graceful-shutdown", "5"),
        *(
            "--lifespan",
            lifespan,
            "--no-server-header",
            "--no-proxy-headers",
            "--no-access-log",
            "--log-level",
            "warning",
        ),
    ]


def operator_program(config: Config, places: Places) -> Program:
    """The local cluster's operator. SIGINT ends its sessions; when it dies they go on and are adopted."""
    environment = {
        **plain_environment(),
        "GSHARE_OPERATOR_STATE": str(places.operator),
        "GSHARE_OPERATOR_TOKEN_FILE": str(places.operator_token),
        "GSHARE_OPERATOR_SUBSTRATE": "local",
        **foreign_values("OPERATOR_"),
        "GSHARE_INTERNAL_URL": config.internal_url,
        **{name: str(path) for name, path in session_programs(config).items()},
    }
    return Program(
        name="operator",
        command=lambda: dying_with_parent([sys.executable, "-m", "cluster.operator"], SIGTERM),
        environment=environment,
        tier=OPERATOR,
        stop_signal=SIGINT,
        stop_seconds=OPERATOR_STOP_SECONDS,
        folder=ROOT,
    )


def plain_environment() -> dict[str, str]:
    """The few variables every program may see."""
    return {name: os.environ[name] for name in PLAIN_NAMES if name in os.environ}
