"""What real applications are seen to do: a busy kernel, an open tab that polls, typing, output, a neighbour."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets.asyncio.client import ClientConnection, unix_connect

from cluster.operator.state import Pod
from gshare_core.contract import Activity, App, AppUse
from tests.unit.operator.build import SESSION, spec
from tests.unit.operator.local import Cluster, now, token_of
from tests.unit.operator.test_real_applications import lab, real, socket_of
from tests.waiting import until_async

__all__ = ["real"]

pytestmark = pytest.mark.timeout(120)

LAB, TERMINAL = App(name="lab", port=8888), App(name="terminal", port=7681)


async def sample(cluster: Cluster) -> Activity:
    return (await cluster.substrate.activity(now()))[SESSION, 1]


async def use_of(cluster: Cluster, app: str) -> AppUse:
    return next(row for row in (await sample(cluster)).apps if row.app == app)


async def until_seen(
    cluster: Cluster,
    app: str,
    condition: Callable[[AppUse], Any],
    *,
    what: str,
    prod: Callable[[], Awaitable[Any]] | None = None,
) -> AppUse:
    seen: list[AppUse] = []

    async def so() -> bool:
        if prod is not None:
            await prod()
        row = await use_of(cluster, app)
        if condition(row):
            seen.append(row)
        return bool(seen)

    await until_async(so, within=40, what=what)
    return seen[-1]


@asynccontextmanager
async def channels(pod: Pod, kernel: str) -> AsyncIterator[ClientConnection]:
    """A kernel's websocket, as an open notebook holds it."""
    async with unix_connect(
        socket_of(pod, "lab"),
        f"ws://session.localhost/lab/api/kernels/{kernel}/channels",
        additional_headers={"Authorization": f"token {token_of(pod.session, pod.run)}"},
    ) as socket:
        yield socket


async def execute(socket: ClientConnection, code: str) -> None:
    header = {"msg_id": uuid4().hex, "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"}
    content = {"code": code, "silent": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await socket.send(json.dumps(message))


async def test_a_kernel_that_executes_is_busy_although_no_browser_is_open(real: Cluster) -> None:
    await real.start(spec(apps=(LAB,)))
    pod = await real.until(lambda pod: pod.ready, within=60, what="JupyterLab")
    assert await use_of(real, "lab") == AppUse(app="lab"), "nobody has done anything yet"
    kernel = lab(pod, "POST", "kernels", json={}).json()["id"]
    await until_seen(real, "lab", lambda row: row.last_activity_at and not row.busy, what="the kernel")
    async with channels(pod, kernel) as socket:
        await execute(socket, "import time; time.sleep(600)")
        await until_seen(real, "lab", lambda row: row.busy, what="the cell")
    row = await use_of(real, "lab")
    assert row.busy, "the browser is closed, the kernel works"
    lab(pod, "POST", f"kernels/{kernel}/interrupt")
    await until_seen(real, "lab", lambda row: not row.busy, what="the end of the cell")


async def test_an_open_tab_that_polls_is_no_use_although_jupyter_itself_takes_it_for_some(real: Cluster) -> None:
    await real.start(spec(apps=(LAB,)))
    pod = await real.until(lambda pod: pod.ready, within=60, what="JupyterLab")
    kernel = lab(pod, "POST", "kernels", json={}).json()["id"]
    row = await until_seen(real, "lab", lambda row: row.last_activity_at and not row.busy, what="the kernel")
    async with channels(pod, kernel):
        own_word = datetime.fromisoformat(lab(pod, "GET", "status").json()["last_activity"])
        settled = await until_seen(real, "lab", lambda row: not row.busy, what="rest")
        for path in ("kernels", "sessions", "terminals", "contents", "kernelspecs", "status") * 2:
            assert lab(pod, "GET", path).status_code == 200
        polled = datetime.fromisoformat(lab(pod, "GET", "status").json()["last_activity"])
        after = await use_of(real, "lab")
    assert polled > own_word, "Jupyter's own figure moves with every poll: it cannot be used"
    assert after.last_activity_at == settled.last_activity_at
    assert row.last_activity_at is not None
    before_questions = datetime.fromisoformat(lab(pod, "GET", "status").json()["last_activity"])
    await sample(real)
    assert datetime.fromisoformat(lab(pod, "GET", "status").json()["last_activity"]) == before_questions, (
        "our question is no use either"
    )


async def test_a_jupyter_that_does_not_answer_is_unknown_and_hides_nothing_else(real: Cluster) -> None:
    await real.start(spec(apps=(LAB, TERMINAL)))
    pod = await real.until(lambda pod: pod.ready, within=60, what="JupyterLab and ttyd")
    os.unlink(socket_of(pod, "lab"))  # noqa: PTH108 (one call, in a test)
    found = await sample(real)
    assert {row.app: row.known for row in found.apps} == {"lab": False, "terminal": True}
    assert found.cpu_usec is not None
    assert found.cpu_usec > 100_000, "JupyterLab's start"
    assert found.memory_bytes is not None
    assert found.memory_bytes > 10 * 1024**2


@asynccontextmanager
async def terminal(pod: Pod) -> AsyncIterator[ClientConnection]:
    """A tab with ttyd."""
    credential = base64.b64encode(f"gshare:{token_of(pod.session, pod.run)}".encode()).decode()
    async with unix_connect(
        socket_of(pod, "terminal"),
        "ws://session.localhost/terminal/ws",
        subprotocols=["tty"],
        origin="http://session.localhost",
        additional_headers={"Authorization": f"Basic {credential}"},
    ) as socket:
        await socket.send(json.dumps({"AuthToken": credential, "columns": 80, "rows": 24}).encode())
        screen = asyncio.create_task(_draw(socket))
        try:
            yield socket
        finally:
            screen.cancel()


async def _draw(socket: ClientConnection) -> None:
    """Take what the terminal shows, as a tab does: ttyd waits for whoever does not."""
    async for _ in socket:
        pass


def _link(path: Path) -> str | None:
    """Where it points; a process that ends, or becomes another program at this moment, tells nobody."""
    try:
        return str(path.readlink())
    except OSError:
        return None


def terminals_of(cluster: Cluster) -> list[os.stat_result]:
    """The ptys on which the session's shells run, as another program than ours finds them."""
    inputs = [Path(f"/proc/{pid}/fd/0") for pid in cluster.processes()]
    names = {name for path in inputs if (name := _link(path))}
    return [Path(name).stat() for name in names if name.startswith("/dev/pts/")]


async def test_typing_in_the_terminal_is_use_an_open_tab_and_output_are_not(real: Cluster) -> None:
    await real.start(spec(apps=(TERMINAL,)))
    pod = await real.until(lambda pod: pod.ready, within=20, what="ttyd")
    assert (await use_of(real, "terminal")) == AppUse(app="terminal")
    async with terminal(pod) as socket:
        await until_async(_yes(lambda: terminals_of(real)), within=10, what="a shell on a pty")
        assert (await use_of(real, "terminal")).last_activity_at is None, "a tab was opened, nobody typed"

        async def type_something() -> None:
            await socket.send(b"0true\n")

        # The kernel moves a terminal's times in steps of eight seconds: whoever types is seen in the next step.
        typed = await until_seen(
            real, "terminal", lambda row: row.last_activity_at is not None, what="input", prod=type_something
        )
        await socket.send(b"0while sleep 0.1; do echo progress; done\n")
        await until_async(
            _yes(lambda: [one for one in terminals_of(real) if one.st_mtime - one.st_atime >= 8]),
            within=40,
            what="output that is newer than the input",
        )
        after = await use_of(real, "terminal")
    assert typed.last_activity_at is not None
    assert after.last_activity_at is not None
    assert (after.last_activity_at - typed.last_activity_at).total_seconds() < 9, "the command itself, not its output"


def _yes(condition: Callable[[], Any]) -> Callable[[], Awaitable[bool]]:
    async def so() -> bool:
        return bool(condition())

    return so


async def test_an_edit_that_vs_code_saved_is_use(cluster: Cluster) -> None:
    code = App(name="code", port=8080)
    cluster.recipes = {**cluster.recipes, "code": cluster.recipes["lab"]}
    cluster.restart()
    await cluster.ready(spec(apps=(code,)))
    assert (await use_of(cluster, "code")).last_activity_at is None
    home = next(cluster.folder.glob("data/sessions/*/root/home/work"))
    (home / ".local/share/code-server/User/History/4f2a").mkdir(parents=True)
    assert (await use_of(cluster, "code")).last_activity_at is not None


async def test_the_counter_goes_on_under_the_next_operator(cluster: Cluster) -> None:
    await cluster.ready(spec(apps=(TERMINAL,)))
    before = (await sample(cluster)).cpu_usec
    cluster.restart()
    await cluster.pods()
    after = (await sample(cluster)).cpu_usec
    assert before is not None
    assert after is not None
    assert before <= after < before + 5_000_000
