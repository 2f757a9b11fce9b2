"""What the session proxy carries, between real servers: bodies of any size, both ways, and websockets."""

import asyncio
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.door import http
from tests.door.echo import CHUNK
from tests.door.processes import Served, echo_app, free_port, serving
from tests.waiting import until, until_async

MIB = 2**20


@pytest.fixture(scope="module")
def app_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("a") / "lab.sock"
    with echo_app(path):
        yield path


def front(endpoint: str, *, guard_seconds: float = 3600) -> dict[str, str]:
    return {**os.environ, "FRONT_ENDPOINT": endpoint, "FRONT_GUARD_SECONDS": str(guard_seconds)}


@pytest.fixture(scope="module")
def proxy(app_socket: Path) -> Iterator[Served]:
    with serving("tests.door.front:application", port=free_port(), env=front(f"unix:{app_socket}")) as served:
        yield served


@pytest.fixture(scope="module")
def impatient(app_socket: Path) -> Iterator[Served]:
    """A proxy whose visitors lose their right after a second."""
    env = front(f"unix:{app_socket}", guard_seconds=1)
    with serving("tests.door.front:application", port=free_port(), env=env) as served:
        yield served


def url(served: Served, path: str) -> str:
    return f"http://127.0.0.1:{served.port}{path}"


def facts(served: Served) -> dict[str, Any]:
    return dict(http.get(url(served, "/lab/facts")).json())


def test_the_target_arrives_byte_for_byte_and_the_host_is_kept(proxy: Served) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as raw:
        raw.sendall(
            b"GET /lab/a%2Fb;v=1/%5B%5D/~x?q=%20+&r=[1]&s=%ED%95%9C HTTP/1.1\r\nHost: S.localhost:8000\r\n"
            b"Connection: close, x-gone\r\nX-Gone: 1\r\nX-Kept: a\r\nX-Kept: b\r\nAuthorization: mine\r\n\r\n"
        )
        head, _, body = b"".join(iter(lambda: raw.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    seen = json.loads(body)
    assert seen["path"] == "/lab/a%2Fb;v=1/%5B%5D/~x"
    assert seen["query"] == "q=%20+&r=[1]&s=%ED%95%9C"
    headers = seen["headers"]
    assert [value for name, value in headers if name == "x-kept"] == ["a", "b"]
    assert ["host", "S.localhost:8000"] in headers
    assert [value for name, value in headers if name == "authorization"] == ["token t"]
    assert "x-gone" not in dict(headers)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_every_method_passes(proxy: Served, method: str) -> None:
    response = http.request(method, url(proxy, "/lab/echo"))
    assert response.status_code == 200
    if method != "HEAD":
        assert response.json()["method"] == method
        assert response.json()["size"] == 0


def test_a_measured_and_a_chunked_upload_arrive_whole(proxy: Served) -> None:
    body = os.urandom(3 * MIB + 17)
    measured = http.request("PUT", url(proxy, "/lab/echo"), content=body).json()
    chunked = http.post(url(proxy, "/lab/echo"), content=iter([body[:1000], body[1000:]])).json()
    for seen in (measured, chunked):
        assert seen["sha256"] == hashlib.sha256(body).hexdigest()
    assert dict(measured["headers"])["content-length"] == str(len(body))
    assert "content-length" not in dict(chunked["headers"])


def test_a_large_upload_is_streamed_and_never_held(proxy: Served) -> None:
    before, size = proxy.memory_mib, 300
    seen = http.post(url(proxy, "/lab/echo"), content=(b"x" * MIB for _ in range(size)), timeout=120).json()
    assert seen["size"] == size * MIB
    assert seen["parts"] > 100
    assert proxy.memory_mib - before < 40


def stands_still(served: Served) -> Callable[[], bool]:
    """Whether the app has stopped sending: the same count ten times in a row."""
    counts: list[int] = []

    def still() -> bool:
        counts.append(facts(served)["sent"])
        return len(counts) >= 10 and len(set(counts[-10:])) == 1

    return still


def test_a_large_download_waits_for_a_slow_reader_instead_of_filling_memory(proxy: Served) -> None:
    size, before, sent = 400 * MIB, proxy.memory_mib, facts(proxy)["sent"]
    got, digest, expected = 0, hashlib.sha256(), hashlib.sha256()
    with httpx.stream("GET", url(proxy, f"/lab/big?n={size}"), timeout=120) as response:
        for part in response.iter_raw():
            if not got:
                until(stands_still(proxy), within=20, what="the app stops sending while nobody reads")
                assert facts(proxy)["sent"] - sent < 32 * MIB
            got += len(part)
            digest.update(part)
    for _ in range(size // len(CHUNK)):
        expected.update(CHUNK)
    assert (got, digest.hexdigest()) == (size, expected.hexdigest())
    assert proxy.memory_mib - before < 40


def test_a_browser_that_leaves_ends_the_apps_work(proxy: Served) -> None:
    before = facts(proxy)["broken_off"]
    with httpx.stream("GET", url(proxy, "/lab/endless")) as response:
        next(response.iter_raw())
    until(lambda: facts(proxy)["broken_off"] == before + 1, what="the app notices a reader that left")
    with pytest.raises(httpx.ReadTimeout):
        http.get(url(proxy, "/lab/silent"), timeout=0.3)
    until(lambda: facts(proxy)["broken_off"] == before + 2, what="the app notices who did not wait for an answer")


def test_an_open_answer_ends_when_the_right_does(impatient: Served) -> None:
    with pytest.raises(httpx.RemoteProtocolError), httpx.stream("GET", url(impatient, "/lab/endless")) as response:
        for _ in response.iter_raw():
            pass
    assert http.get(url(impatient, "/lab/silent"), timeout=10).text == "Ended"


def test_an_answer_that_the_app_breaks_off_is_not_taken_for_whole(proxy: Served) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        http.get(url(proxy, "/lab/cut"))


def test_cookies_for_others_are_refused_and_redirects_are_the_browsers(proxy: Served) -> None:
    cookies = http.get(url(proxy, "/lab/cookies")).headers.get_list("set-cookie")
    assert cookies == ["own=1; Path=/lab/"]
    response = http.get(url(proxy, "/lab/redirect"))
    assert (response.status_code, response.headers["location"]) == (302, "elsewhere?x=1")


def test_an_app_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    for endpoint in (f"127.0.0.1:{free_port()}", f"unix:{tmp_path}/nobody.sock"):
        with serving("tests.door.front:application", port=free_port(), env=front(endpoint)) as served:
            assert http.get(url(served, "/lab/x")).text == "Unreachable"


def test_an_app_on_a_port_is_reached_like_one_on_a_socket() -> None:
    port = free_port()
    with (
        echo_app(port),
        serving("tests.door.front:application", port=free_port(), env=front(f"127.0.0.1:{port}")) as served,
    ):
        assert http.get(url(served, "/lab/echo")).json()["method"] == "GET"


def test_many_requests_run_side_by_side(proxy: Served) -> None:
    async def ask() -> list[int]:
        async with httpx.AsyncClient() as client:
            answers = await asyncio.gather(*[client.get(url(proxy, f"/lab/echo?i={i}")) for i in range(80)])
            return [response.status_code for response in answers]

    assert asyncio.run(ask()) == [200] * 80


# Websockets -----------------------------------------------------------------------------------------------------------


def ws(served: Served, path: str = "/lab/ws") -> str:
    return f"ws://127.0.0.1:{served.port}{path}"


async def test_text_and_bytes_pass_both_ways_in_their_order(proxy: Served) -> None:
    async with connect(ws(proxy)) as socket_:
        for message in ("hello", b"\x00\xff", "", b"", "한글", "x" * 200_000, os.urandom(300_000)):
            await socket_.send(message)
            assert await socket_.recv() == message


async def test_the_handshake_carries_path_host_origin_and_the_apps_credential(proxy: Served) -> None:
    headers = {
        "Origin": "http://s.localhost:8000",
        "Cookie": "a=1; __Host-gshare-access=secret",
        "Authorization": "mine",
    }
    async with connect(ws(proxy, "/lab/api/a%2Fb?x=%20"), additional_headers=headers) as socket_:
        await socket_.send("headers")
        seen = json.loads(await socket_.recv())
    assert seen["path"] == "/lab/api/a%2Fb?x=%20"
    assert seen["host"] == "s.localhost:8000"
    assert seen["origin"] == "http://s.localhost:8000"
    assert seen["cookie"] == "a=1"
    assert seen["authorization"] == "token t"


async def test_the_app_chooses_among_the_browsers_subprotocols(proxy: Served) -> None:
    async with connect(ws(proxy), subprotocols=["v1.kernel", "tty"]) as socket_:  # type: ignore[list-item]
        assert socket_.subprotocol == "tty"
    async with connect(ws(proxy)) as socket_:
        assert socket_.subprotocol is None


@pytest.mark.parametrize(
    ("code", "reason"), [(1000, ""), (1001, "bye"), (1011, "broke"), (4001, "own words"), (3000, "한글")]
)
async def test_the_apps_close_code_reaches_the_browser(proxy: Served, code: int, reason: str) -> None:
    async with connect(ws(proxy)) as socket_:
        await socket_.send(f"close {code} {reason}")
        with pytest.raises(ConnectionClosed):
            await socket_.recv()
        assert (socket_.close_code, socket_.close_reason) == (code, reason)


@pytest.mark.parametrize("code", [1000, 1001, 4321])
async def test_the_browsers_close_code_reaches_the_app(proxy: Served, code: int) -> None:
    async with connect(ws(proxy)) as socket_:
        await socket_.send("x")
        await socket_.recv()
        await socket_.close(code, "bye")

    async def told() -> bool:
        async with httpx.AsyncClient() as client:
            seen = (await client.get(url(proxy, "/lab/facts"))).json()
        return bool(seen.get("closed") == code and seen["open_sockets"] == 0)

    await until_async(told, what="the app hears how the browser closed")


async def test_an_app_that_dies_under_a_socket_closes_it_and_nothing_stays_open(proxy: Served) -> None:
    async with connect(ws(proxy)) as socket_:
        await socket_.send("drop")
        with pytest.raises(ConnectionClosed):
            await socket_.recv()
        assert socket_.close_code in (1011, 1014)


async def test_a_browser_that_vanishes_frees_the_apps_socket(proxy: Served) -> None:
    socket_ = await connect(ws(proxy))
    await socket_.send("x")
    await socket_.recv()
    socket_.transport.abort()

    async def freed() -> bool:
        async with httpx.AsyncClient() as client:
            return bool((await client.get(url(proxy, "/lab/facts"))).json()["open_sockets"] == 0)

    await until_async(freed, what="the app's side is closed")


async def test_a_handshake_that_the_app_refuses_or_redirects_is_refused(proxy: Served) -> None:
    for path in ("/lab/closed", "/lab/away"):
        with pytest.raises(InvalidStatus) as caught:
            await connect(ws(proxy, path))
        assert caught.value.response.status_code == 403


async def test_a_socket_ends_with_a_policy_code_when_the_right_does(impatient: Served) -> None:
    async with connect(ws(impatient)) as socket_:
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket_.recv(), 4)
        assert socket_.close_code == 1008


async def test_a_socket_ends_in_time_though_the_browser_reads_nothing(impatient: Served) -> None:
    async with connect(ws(impatient), max_queue=1) as socket_:
        await socket_.send("flood 2000")

        async def freed() -> bool:
            async with httpx.AsyncClient() as client:
                return bool((await client.get(url(impatient, "/lab/facts"))).json()["open_sockets"] == 0)

        await until_async(freed, within=3, what="the app's side is closed though nobody read")
        socket_.transport.abort()


async def test_a_flood_waits_for_a_slow_browser_instead_of_filling_memory(proxy: Served) -> None:
    before, sent, count = proxy.memory_mib, facts(proxy)["sent"], 4000  # 250 MiB
    async with connect(ws(proxy), max_queue=1, max_size=None, compression=None) as socket_:
        await socket_.send(f"flood {count}")
        got = len(await socket_.recv())
        await asyncio.to_thread(until, stands_still(proxy), within=20, what="the app stops sending while nobody reads")
        assert facts(proxy)["sent"] - sent < 32 * MIB
        for _ in range(count - 1):
            got += len(await socket_.recv())
    assert got == count * len(CHUNK)
    assert proxy.memory_mib - before < 40


async def test_the_apps_pings_keep_a_silent_socket_open(proxy: Served) -> None:
    """The echo application pings every half second and would close a socket whose pong is missing."""
    async with connect(ws(proxy), ping_interval=None) as socket_:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket_.recv(), 2)
        await socket_.send("still here")
        assert await socket_.recv() == "still here"
