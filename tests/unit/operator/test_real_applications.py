"""JupyterLab and ttyd themselves under the local substrate: a cell is executed, the terminal echoes, the end is real."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import unix_connect

from cluster.operator.state import Pod
from cluster.operator.substrates.local.recipes import recipes_of
from gshare_core.contract import App, Mount, UnixEndpoint, parse_endpoint
from gshare_site.embedded.places import session_venv
from tests.door.talking import executed, terminal_credential, typed
from tests.unit.operator.build import SESSION, spec
from tests.unit.operator.local import Cluster, token_of

pytestmark = pytest.mark.timeout(120)

BOTH = (App(name="lab", port=8888), App(name="terminal", port=7681))
HOME = Mount(claim="vol-home", mount_path="/home/work", size_gib=5)


@pytest.fixture
def real(folder: Path) -> Cluster:
    """A local cluster with the session environment that `make setup` makes."""
    programs = session_venv() / "bin"
    if not (programs / "ttyd").exists():
        if os.environ.get("CI"):
            pytest.fail(f"no session environment in {programs}: run `make setup`")
        pytest.skip(f"NOT TESTED: no session environment in {programs}: run `make setup`")
    recipes = recipes_of(python=programs / "python", ttyd=programs / "ttyd", code_server=None)
    return Cluster(folder, recipes, separate_users=os.geteuid() == 0)


def socket_of(pod: Pod, app: str) -> str:
    endpoint = parse_endpoint(pod.endpoints[app])
    assert isinstance(endpoint, UnixEndpoint)
    return endpoint.path


def lab(pod: Pod, method: str, path: str, **arguments: Any) -> httpx.Response:
    """A call of Jupyter's API with the app token."""
    headers = {"Authorization": f"token {token_of(pod.session, pod.run)}"}
    with httpx.Client(transport=httpx.HTTPTransport(uds=socket_of(pod, "lab")), timeout=20) as client:
        return client.request(method, f"http://session.localhost/lab/api/{path}", headers=headers, **arguments)


async def executed_in(pod: Pod, kernel: str, code: str) -> str:
    """What a cell prints."""
    async with unix_connect(
        socket_of(pod, "lab"),
        f"ws://session.localhost/lab/api/kernels/{kernel}/channels",
        additional_headers={"Authorization": f"token {token_of(pod.session, pod.run)}"},
    ) as socket:
        return await executed(socket, code)


async def test_a_cell_is_executed_in_the_home_that_is_a_volume_and_a_user_of_its_own_runs_it(real: Cluster) -> None:
    await real.start(spec(apps=BOTH, volumes=(HOME,)))
    pod = await real.until(lambda pod: pod.ready, within=60, what="JupyterLab and ttyd")
    words = "".join(path.read_text() for path in (real.folder / "pods").glob("*/*.log"))
    assert token_of(pod.session, pod.run) not in words
    kernel = lab(pod, "POST", "kernels", json={"path": "home/work"}).json()["id"]
    printed = await executed_in(pod, kernel, "import os; open('out.txt', 'w').write('42'); print(os.getuid(), 6 * 7)")
    uid, answer = printed.split()
    assert answer == "42"
    assert (int(uid) != os.geteuid()) is (os.geteuid() == 0)
    assert (real.folder / "data/volumes/vol-home/out.txt").read_text() == "42"
    listed = lab(pod, "GET", "contents/home/work").json()["content"]
    assert [entry["name"] for entry in listed] == ["out.txt"]
    await real.end()
    assert real.processes() == [], "a kernel outlived its session"
    assert (real.folder / "data/volumes/vol-home/out.txt").read_text() == "42"
    assert SESSION.hex not in "".join(path.name for path in (real.folder / "data/sessions").iterdir())


async def test_the_terminal_echoes_over_its_websocket_and_demands_the_credential(real: Cluster) -> None:
    await real.start(spec(apps=BOTH[1:]))
    pod = await real.until(lambda pod: pod.ready, within=20, what="ttyd")
    credential = terminal_credential(token_of(pod.session, pod.run))
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=socket_of(pod, "terminal"))) as client:
        assert (await client.get("http://session.localhost/terminal/")).status_code == 401
    async with unix_connect(
        socket_of(pod, "terminal"),
        "ws://session.localhost/terminal/ws",
        subprotocols=["tty"],
        origin="http://session.localhost",
        additional_headers={"Authorization": f"Basic {credential}"},
    ) as socket:
        seen = await typed(socket, credential, "echo $GSHARE_RUN-$((6 * 7))-$PWD", "1-42-")
    assert "1-42-" in seen
    words = "".join(path.read_text() for path in (real.folder / "pods").glob("*/*.log"))
    assert credential not in words
    assert token_of(pod.session, pod.run) not in words
    await real.end()
    assert real.processes() == []


async def test_jupyterlab_runs_in_a_home_that_it_may_only_read(real: Cluster) -> None:
    read_only = HOME.model_copy(update={"read_only": True})
    await real.start(spec(apps=BOTH[:1], volumes=(read_only,)))
    pod = await real.until(lambda pod: pod.ready, within=60, what="JupyterLab")
    kernel = lab(pod, "POST", "kernels", json={"path": "home/work"}).json()["id"]
    attempt = "try:\n open('out.txt', 'w')\nexcept OSError as error:\n print(error.strerror)"
    assert await executed_in(pod, kernel, attempt) == "Read-only file system\n"
    assert list((real.folder / "data/volumes/vol-home").iterdir()) == []
    await real.end()
    assert real.processes() == []
