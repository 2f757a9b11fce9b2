"""The operator's calls of the control plane: token, feed, reports that hold each other up in nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cluster.operator.client import ControlPlane, Refused, TokenFile
from cluster.operator.feed import Follower, Wishes
from cluster.operator.pace import BackOff
from cluster.operator.reporter import Reporter
from cluster.operator.state import Memory, RunRecord, Unavailable
from cluster.operator.store import Store, write_atomically
from cluster.operator.substrates.kubernetes.connections import Connections
from gshare_core.clock import ManualClock
from gshare_core.contract import BadRow, Desired, DesiredFeed, Phase, StatusReport
from tests.unit.operator.build import NOW, SESSION, after, wants
from tests.waiting import until_async

KEY = "ab" * 32


def jwt(issued_at: datetime, hours: int = 24) -> str:
    claims = {"iat": int(issued_at.timestamp()), "exp": int((issued_at + timedelta(hours=hours)).timestamp())}
    return "e30." + base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=") + ".c2ln"


@pytest.fixture
def token_file(tmp_path: Path) -> TokenFile:
    path = tmp_path / "token.json"
    path.write_text(json.dumps({"token": jwt(NOW), "cluster": str(uuid4()), "cluster_key": KEY}))
    return TokenFile(path)


class Answers:
    """An HTTP control plane as a function; remembers the requests."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def called(tokens: TokenFile, answers: Callable[[httpx.Request], httpx.Response], call: Any) -> Any:
    """What a call of the control plane gives when it answers so."""
    async with ControlPlane("http://control", tokens, httpx.MockTransport(answers)) as plane:
        return await call(plane)


async def test_a_token_is_renewed_in_the_second_half_of_its_life_and_written_back(token_file: TokenFile) -> None:
    fresh = jwt(after(13 * 3600))
    answers = Answers(httpx.Response(200, json={"token": fresh, "expires_at": "…"}))
    assert not await called(token_file, answers, lambda found: found.renew_when_due(after(11 * 3600)))
    assert await called(token_file, answers, lambda found: found.renew_when_due(after(13 * 3600)))
    kept = token_file.read()
    assert (kept.token, kept.cluster_key) == (fresh, KEY)
    assert token_file.path.stat().st_mode & 0o777 == 0o600


async def test_a_token_file_that_cannot_be_written_is_named_and_ends_nothing(token_file: TokenFile) -> None:
    answers = Answers(httpx.Response(200, json={"token": jwt(after(13 * 3600))}))
    token_file.path.with_name(f".token.json.{os.getpid()}").mkdir()  # where its draft would be
    with pytest.raises(Unavailable, match="cannot be written"):
        await called(token_file, answers, lambda found: found.renew_when_due(after(13 * 3600)))


async def test_a_renewal_never_overwrites_a_token_that_was_issued_meanwhile(token_file: TokenFile) -> None:
    newer = {"token": "issued meanwhile", "cluster": str(uuid4()), "cluster_key": KEY}

    def replaced(request: httpx.Request) -> httpx.Response:
        token_file.path.write_text(json.dumps(newer))
        return httpx.Response(200, json={"token": jwt(NOW)})

    await called(token_file, replaced, lambda found: found.renew_when_due(after(23 * 3600)))
    assert token_file.read().token == "issued meanwhile"


def test_a_token_file_is_read_again_when_it_was_replaced_and_only_then(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    later = TokenFile(path, lambda: time.time() + 10)
    contents = [json.dumps({"token": token, "cluster": str(uuid4()), "cluster_key": KEY}) for token in ("one", "two")]
    write_atomically(path, contents[0])
    first = later.read()
    assert first.token == "one" and later.read() is first
    write_atomically(path, contents[1])
    assert later.read().token == "two"
    path.unlink()
    with pytest.raises(Unavailable, match="cannot be read"):
        later.read()


def test_a_token_file_that_was_written_a_moment_ago_is_read_each_time(token_file: TokenFile) -> None:
    assert token_file.read() is not token_file.read()


class LooksFor:
    """A finder of modules that finds none, and notes what was looked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        self.names.append(name)


async def test_a_report_looks_for_no_module(token_file: TokenFile, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = LooksFor()

    async def taken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(taken, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ControlPlane(f"http://127.0.0.1:{port}", token_file) as plane:
            await plane.report(SESSION, report(sequence=1))  # the first one may still load what it needs
            monkeypatch.setattr(sys, "meta_path", [looks, *sys.meta_path])
            await plane.report(SESSION, report(sequence=2))
    assert looks.names == []


async def test_an_answer_that_is_not_2xx_is_a_refusal_and_silence_is_unavailability(token_file: TokenFile) -> None:
    answers = Answers(httpx.Response(403, text="another cluster's session"), httpx.ConnectError("refused"))
    with pytest.raises(Refused, match="403"):
        await called(token_file, answers, lambda found: found.report(SESSION, report()))
    with pytest.raises(Unavailable):
        await called(token_file, answers, lambda found: found.report(SESSION, report()))


WAYS = {"httpx": lambda: None, "kept connections": Connections}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
async def served(request: pytest.FixtureRequest, token_file: TokenFile) -> AsyncIterator[Served]:
    """A control plane behind real HTTP, called as on each substrate."""
    found = Served()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    async with TestServer(application) as server:
        async with ControlPlane(str(server.make_url("/")), token_file, request.param()) as plane:
            found.plane, found.server = plane, server
            yield found


class Served:
    """Answers what it is told to; `asked` is what came."""

    plane: ControlPlane
    server: TestServer

    def __init__(self) -> None:
        self.answers: list[web.Response] = []
        self.asked: list[tuple[str, str, bytes, str]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        signed = request.headers.get("Authorization", "")
        self.asked.append((request.method, request.path_qs, await request.read(), signed))
        return self.answers.pop(0)


async def test_over_the_wire_a_call_is_what_it_says_and_a_connection_serves_many(served: Served) -> None:
    feed = web.json_response({"seq": 3, "documents": [], "removed_volumes": []})
    feed.enable_compression(web.ContentCoding.gzip)  # a proxy that asks nobody
    served.answers = [web.Response(status=204), web.Response(headers={"X-GShare-Stale": "true"}), feed]
    assert await served.plane.report(SESSION, report()) is True
    assert await served.plane.report(SESSION, report(sequence=2)) is False
    assert (await served.plane.desired(2, 0))[0].seq == 3
    path = f"/internal/v1/sessions/{SESSION}/status"
    signed = f"Bearer {jwt(NOW)}"
    assert [(method, path, by) for method, path, _body, by in served.asked] == [
        ("POST", path, signed),
        ("POST", path, signed),
        ("GET", "/internal/v1/desired?after=2&wait=0", signed),
    ]
    assert StatusReport.model_validate_json(served.asked[1][2]) == report(sequence=2)


async def test_over_the_wire_a_redirect_is_a_refusal_and_a_token_goes_nowhere_else(served: Served) -> None:
    served.answers = [web.Response(status=307, headers={"Location": str(served.server.make_url("/elsewhere"))})]
    with pytest.raises(Refused, match="307"):
        await served.plane.report(SESSION, report())
    assert len(served.asked) == 1


async def test_over_the_wire_nobody_there_is_unavailability(served: Served) -> None:
    await served.server.close()
    with pytest.raises(Unavailable):
        await served.plane.report(SESSION, report())


async def test_a_stale_report_is_acknowledged_all_the_same(token_file: TokenFile) -> None:
    answers = Answers(httpx.Response(204), httpx.Response(200, headers={"X-GShare-Stale": "true"}))
    assert await called(token_file, answers, lambda found: found.report(SESSION, report())) is True
    assert await called(token_file, answers, lambda found: found.report(SESSION, report())) is False
    assert answers.requests[0].url.path == f"/internal/v1/sessions/{SESSION}/status"
    assert answers.requests[0].headers["Authorization"] == f"Bearer {jwt(NOW)}"


@pytest.mark.parametrize("content", ["", "{}", '{"token": "t", "cluster": "x", "cluster_key": "secret-of-mine"}'])
def test_a_broken_token_file_is_named_without_its_content(tmp_path: Path, content: str) -> None:
    (tmp_path / "token.json").write_text(content)
    with pytest.raises(Unavailable, match=r"token\.json") as refusal:
        TokenFile(tmp_path / "token.json").read()
    assert "secret-of-mine" not in str(refusal.value)


class Source:
    """Documents as the control plane answers them, one answer after the other, then silence."""

    def __init__(self, *answers: tuple[DesiredFeed, tuple[BadRow, ...]] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[int, int]] = []

    async def desired(self, after: int, wait_seconds: int) -> tuple[DesiredFeed, tuple[BadRow, ...]]:
        self.asked.append((after, wait_seconds))
        if not self.answers:
            await asyncio.Event().wait()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def followed(
    *answers: tuple[DesiredFeed, tuple[BadRow, ...]] | Exception, reread_seconds: float = 300
) -> tuple[Wishes, Source]:
    """The wishes after all answers were taken."""
    wishes, source = Wishes(), Source(*answers)
    task = asyncio.create_task(Follower(source, wishes, lambda _everything: None, reread_seconds).run())

    async def taken() -> bool:
        return len(source.asked) > len(answers)

    await until_async(taken, what="every answer")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return wishes, source


async def test_everything_is_read_first_and_then_what_changed() -> None:
    first = DesiredFeed(seq=4, documents=(wants(seq=4),))
    second = DesiredFeed(seq=5, documents=(wants(1, 2, Desired.STOPPED, seq=5),))
    wishes, source = await followed((first, ()), (second, ()))
    assert source.asked == [(0, 0), (4, 20), (5, 20)]
    assert wishes.documents[SESSION].spec == second.documents[0].spec


async def test_everything_is_read_again_after_a_while_and_what_is_missing_then_is_no_wish_any_more() -> None:
    first = DesiredFeed(seq=4, documents=(wants(seq=4),))
    wishes, source = await followed((first, ()), (DesiredFeed(seq=4), ()), reread_seconds=0)
    assert source.asked == [(0, 0)] * 3
    assert wishes.documents == {}


async def test_a_control_plane_that_cannot_answer_is_asked_again() -> None:
    feed = DesiredFeed(seq=1, documents=(wants(seq=1),))
    wishes, source = await followed(Unavailable("down"), Refused(503, "not ready"), (feed, ()))
    assert source.asked[:3] == [(0, 0)] * 3
    assert wishes.complete


async def test_a_row_that_cannot_be_read_leaves_the_document_before_it_in_force() -> None:
    good = DesiredFeed(seq=4, documents=(wants(seq=4),))
    wishes, _ = await followed((good, ()), (DesiredFeed(seq=2), (BadRow("documents[0]", "image is missing"),)))
    assert wishes.documents == {SESSION: good.documents[0]}


async def test_numbers_that_went_back_mean_that_what_is_there_now_is_everything() -> None:
    other = uuid4()
    old = DesiredFeed(seq=40, documents=(wants(seq=40),))
    restored = DesiredFeed(seq=7, documents=(wants(session=other, seq=7),))
    wishes, source = await followed((old, ()), (restored, ()))
    assert set(wishes.documents) == {other}
    assert source.asked[-1] == (7, 20)


def report(run: int = 1, sequence: int = 1, phase: Phase = Phase.RUNNING) -> StatusReport:
    return StatusReport(run=run, generation=1, sequence=sequence, phase=phase, observed_at=NOW, sent_at=NOW)


class Desk:
    """Takes reports; refuses those of the sessions it was told to."""

    def __init__(self) -> None:
        self.refused: set[UUID] = set()
        self.taken: list[tuple[UUID, StatusReport]] = []
        self.tries = 0

    async def report(self, session: UUID, report: StatusReport) -> bool:
        self.tries += 1
        if session in self.refused:
            raise Refused(500, "no")
        self.taken.append((session, report))
        return True


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "memory")


def remember(store: Store, session: UUID, latest: StatusReport) -> None:
    store.put(Memory(session=session, records=(RunRecord(run=latest.run, generation=1, report=latest),)))


async def test_one_report_that_is_refused_holds_up_no_other(store: Store) -> None:
    desk, stuck = Desk(), [uuid4() for _ in range(20)]
    desk.refused |= set(stuck)
    for session in stuck:
        remember(store, session, report())
    remember(store, SESSION, report())
    clock = ManualClock(after(60))
    reporter = Reporter(desk, store, clock, back_off=lambda: BackOff(first=0.01, longest=0.05))
    task = asyncio.create_task(reporter.run())

    async def delivered() -> bool:
        return bool(desk.taken) and desk.tries > 60

    await until_async(delivered, what="the report of the other session")
    assert [(session, taken.sent_at) for session, taken in desk.taken] == [(SESSION, after(60))]
    assert {session for session, _ in store.pending()} == set(stuck)
    desk.refused.clear()

    async def all_taken() -> bool:
        return not store.pending()

    await until_async(all_taken, what="every report")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len(desk.taken) == 21


async def test_only_the_latest_report_of_a_run_is_sent(store: Store) -> None:
    desk = Desk()
    remember(store, SESSION, report(sequence=1))
    remember(store, SESSION, report(sequence=2, phase=Phase.STARTING))
    task = asyncio.create_task(Reporter(desk, store, ManualClock(NOW)).run())

    async def all_taken() -> bool:
        return not store.pending()

    await until_async(all_taken, what="delivery")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [taken.sequence for _, taken in desk.taken] == [2]


def test_waits_grow_to_a_bound_and_never_reach_zero() -> None:
    back_off = BackOff(first=1, longest=8)
    waits = [back_off.next_seconds() for _ in range(50)]
    assert all(0.1 <= wait <= 8 for wait in waits)
    assert waits[0] <= 1
    back_off.reset()
    assert back_off.next_seconds() <= 1


def test_the_store_survives_a_restart_and_puts_aside_what_it_cannot_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    remember(store, SESSION, report(sequence=9))
    store.acknowledge(SESSION, 1, 8)
    (tmp_path / f"s-{'0' * 32}.json").write_text("{half")
    again = Store(tmp_path)
    assert [record.report and record.report.sequence for _, record in again.pending()] == [9]
    assert (tmp_path / f"s-{'0' * 32}.unreadable").exists()
    again.acknowledge(SESSION, 1, 9)
    assert Store(tmp_path).pending() == []


def test_proof_of_life_reaches_the_disk_at_the_next_flush(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(Memory(session=SESSION, records=(RunRecord(run=1, generation=1, last_alive_at=NOW),)))
    store.put(Memory(session=SESSION, records=(RunRecord(run=1, generation=1, last_alive_at=after(5)),)))
    assert store.get(SESSION).records[0].last_alive_at == after(5)
    assert Store(tmp_path).get(SESSION).records[0].last_alive_at == NOW
    store.flush()
    assert Store(tmp_path).get(SESSION).records[0].last_alive_at == after(5)
