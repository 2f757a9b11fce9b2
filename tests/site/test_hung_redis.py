"""A Redis that accepts connections and never answers delays a request by a moment, not for ever."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ASK = """
import time, django
from redis.exceptions import RedisError
django.setup()
import gshare_site.celery
from django.core.cache import cache
from gshare_core.kit import wake

begun = time.monotonic()
try:
    cache.get("anything")
except RedisError:
    pass
else:
    raise SystemExit("somebody answered")
looked = time.monotonic()
for _ in range(20):
    wake._send("sessions.drain_queue")
print(looked - begun, time.monotonic() - looked)
"""


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A socket that accepts and says nothing."""
    place = tmp_path / "s.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen(50)
        yield f"unix://{place}"


def test_a_hung_redis_costs_one_short_wait_and_not_one_for_each_hint(
    silent: str, service_environment: dict[str, str]
) -> None:
    env = service_environment | {"GSHARE_REDIS_URL": silent, "GSHARE_LOG_LEVEL": "ERROR"}
    done = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    looked, hinted = map(float, done.stdout.split()[-2:])
    assert looked < 2
    assert hinted < 4, "twenty hints waited for one time-out"
