"""The console's live socket, with real listeners and a real Valkey: who gets in, who hears what, how often, how long."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.sessions.models import Session as ConsoleSession
from django.db import transaction
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from accounts.models import Membership, User
from cluster.services import cordon_node
from gshare_core.kit.live import poke
from tests.builders import a_cluster, a_group, a_node, a_running_session, a_super_admin, a_user, an_org_admin
from tests.door.fixtures import Listeners, SignedIn

pytestmark = pytest.mark.django_db(transaction=True)

NOBODY = "00000000-0000-7000-8000-000000000000"


class Page:
    """An open page: what it says and what it hears, pings apart."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def hear(self, within: float = 5) -> dict[str, Any]:
        """The next message that is no ping."""
        async with asyncio.timeout(within):
            while True:
                message = json.loads(await self.socket.recv())
                if "ping" not in message:
                    return dict(message)

    async def hears_nothing(self, during: float) -> None:
        with pytest.raises(TimeoutError):
            await self.hear(within=during)

    async def follow(self, *topics: str) -> list[dict[str, Any]]:
        """Subscribe; the answers after the acknowledgement."""
        await self.say(subscribe=list(topics))
        first = await self.hear()
        assert "subscribed" in first, first
        answered = [topic for topic in topics if topic not in first["subscribed"] or topic.startswith("session:")]
        return [await self.hear() for _ in answered]


@asynccontextmanager
async def page(listeners: Listeners, cookie: str, **headers: str) -> AsyncIterator[Page]:
    given = {"Origin": listeners.console, "Cookie": cookie, **headers}
    async with listeners.dial(f"localhost:{listeners.web.port}", "/ws/live/", given) as socket:
        yield Page(socket)


on_rows = sync_to_async


@sync_to_async
def poked(topic: str, version: int | None = None) -> None:
    with transaction.atomic():
        poke(topic, version)


async def refused(listeners: Listeners, cookie: str, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as caught:
        async with page(listeners, cookie, **headers):
            pass
    return caught.value.response.status_code


# Who gets in ----------------------------------------------------------------------------------------------------------


async def test_a_page_hears_what_changed_and_never_what_it_is(listeners: Listeners, sign_in: SignedIn) -> None:
    alice = await on_rows(a_user)(await on_rows(a_group)())
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        assert await alices.follow("wallet", "queue", "notifications", "sessions") == []
        for topic in ("wallet", "queue", "notifications", "sessions"):
            await poked(f"{topic}:{alice.pk}", 7)
            assert await alices.hear() == {"topic": topic, "version": 7}


async def test_only_the_consoles_own_origin_gets_in(listeners: Listeners, sign_in: SignedIn) -> None:
    cookie = await on_rows(sign_in)(await on_rows(a_user)())
    console = listeners.console
    for origin in (
        f"http://{NOBODY}.localhost:{listeners.web.port}",
        "null",
        "",
        console + "/",
        console.upper(),
        console.replace("http", "https"),
        "http://localhost",
        f"http://127.0.0.1:{listeners.web.port}",
        f"{console}.evil.example",
        f"{console}, {console}",
    ):
        assert await refused(listeners, cookie, Origin=origin) == 403, origin
    assert await refused(listeners, cookie, **{"Sec-Fetch-Site": "same-site"}) == 403
    async with page(listeners, cookie, **{"Sec-Fetch-Site": "same-origin"}):
        pass


async def test_a_handshake_without_origin_is_refused(listeners: Listeners, sign_in: SignedIn) -> None:
    cookie = await on_rows(sign_in)(await on_rows(a_user)())
    with pytest.raises(InvalidStatus):
        await listeners.dial(f"localhost:{listeners.web.port}", "/ws/live/", {"Cookie": cookie})


async def test_nobody_gets_in_who_is_not_signed_in(listeners: Listeners, sign_in: SignedIn) -> None:
    for cookie in ("", "__Host-sessionid=made-up", "sessionid=x"):
        assert await refused(listeners, cookie) == 403
    inactive = await on_rows(a_user)(is_active=False)
    assert await refused(listeners, await on_rows(sign_in)(inactive)) == 403
    must_change = await on_rows(a_user)(must_change_password=True)
    assert await refused(listeners, await on_rows(sign_in)(must_change)) == 403


async def test_there_is_one_websocket_and_no_other(listeners: Listeners, sign_in: SignedIn) -> None:
    cookie = await on_rows(sign_in)(await on_rows(a_user)())
    headers = {"Origin": listeners.console, "Cookie": cookie}
    for path in ("/ws/", "/ws/live", "/ws/live/x", "/", "/ws/other/"):
        with pytest.raises(InvalidStatus):
            await listeners.dial(f"localhost:{listeners.web.port}", path, headers)


# Who hears what -------------------------------------------------------------------------------------------------------


async def test_a_followed_session_answers_with_its_version_at_once(listeners: Listeners, sign_in: SignedIn) -> None:
    """What changed between the page's rendering and its subscription is not lost."""
    group = await on_rows(a_group)()
    alice = await on_rows(a_user)(group)
    session = await on_rows(a_running_session)(alice, group, version=17)
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        topic = f"session:{session.pk}"
        assert await alices.follow(topic) == [{"topic": topic, "version": 17}]
        await poked(topic, 18)
        assert await alices.hear() == {"topic": topic, "version": 18}


async def test_what_is_not_yours_and_what_does_not_exist_are_refused_alike(
    listeners: Listeners, sign_in: SignedIn
) -> None:
    group = await on_rows(a_group)()
    alice, stranger = await on_rows(a_user)(group), await on_rows(a_user)(await on_rows(a_group)())
    session = await on_rows(a_running_session)(alice, group)
    cluster = await on_rows(a_cluster)()
    async with page(listeners, await on_rows(sign_in)(stranger)) as strangers:
        topics = [f"session:{session.pk}", f"session:{NOBODY}", f"fleet:{cluster.pk}"]
        answers = await strangers.follow(*topics)
        assert answers == [{"topic": topic, "refused": "not_found"} for topic in topics]
        for topic in topics:
            await poked(topic, 5)
        await strangers.hears_nothing(0.5)


async def test_streams_never_cross_people(listeners: Listeners, sign_in: SignedIn) -> None:
    alice, bob = await on_rows(a_user)(), await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        async with page(listeners, await on_rows(sign_in)(bob)) as bobs:
            await alices.follow("wallet", "sessions")
            await bobs.follow("wallet", "sessions")
            await poked(f"wallet:{alice.pk}", 3)
            assert await alices.hear() == {"topic": "wallet", "version": 3}
            await bobs.hears_nothing(0.4)


async def test_nobody_chooses_whose_stream_it_is(listeners: Listeners, sign_in: SignedIn) -> None:
    alice, bob = await on_rows(a_user)(), await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(bob)) as bobs:
        for topic in (
            f"wallet:{alice.pk}",
            f"rights:{alice.pk}",
            f"sessions:{alice.pk}",
            "session:",
            "session:x",
            "",
            "fleet",
        ):
            assert await bobs.follow(topic) == [{"topic": topic, "refused": "invalid"}]
        await poked(f"wallet:{alice.pk}", 3)
        await bobs.hears_nothing(0.4)


@pytest.mark.parametrize("role", ["group_admin", "org_admin"])
async def test_administrators_hear_their_places_lists_and_no_others(
    listeners: Listeners, sign_in: SignedIn, role: str
) -> None:
    group = await on_rows(a_group)()
    admin = await on_rows(
        lambda: an_org_admin(group.organisation) if role == "org_admin" else a_user(group, role=role)
    )()
    elsewhere = await on_rows(a_group)()
    cluster = await on_rows(a_cluster)()
    async with page(listeners, await on_rows(sign_in)(admin)) as admins:
        assert await admins.follow("sessions", f"fleet:{cluster.pk}") == []
        await poked(f"sessions:organisation:{elsewhere.organisation_id}", 4)
        await poked("sessions:all", 4)
        await admins.hears_nothing(0.4)
        await poked(f"sessions:organisation:{group.organisation_id}", 5)
        assert await admins.hear() == {"topic": "sessions", "version": 5}
        await poked(f"fleet:{cluster.pk}", 6)
        assert await admins.hear() == {"topic": f"fleet:{cluster.pk}", "version": 6}
    async with page(listeners, await on_rows(sign_in)(await on_rows(a_super_admin)())) as supers:
        await supers.follow("sessions")
        await poked("sessions:all", 9)
        assert await supers.hear() == {"topic": "sessions", "version": 9}


async def test_an_administrators_page_hears_when_a_node_is_closed(listeners: Listeners, sign_in: SignedIn) -> None:
    group = await on_rows(a_group)()
    admin, root = await on_rows(a_user)(group, role="group_admin"), await on_rows(a_super_admin)()
    cluster = await on_rows(a_cluster)()
    node = await on_rows(a_node)(cluster)
    topic = f"fleet:{cluster.pk}"
    async with page(listeners, await on_rows(sign_in)(admin)) as admins:
        assert await admins.follow(topic) == []
        await on_rows(cordon_node)(by=root, node_id=node.pk, cordoned=True)
        assert (await admins.hear())["topic"] == topic
        await on_rows(cordon_node)(by=root, node_id=node.pk, cordoned=True)
        await admins.hears_nothing(0.4)  # it was so already


async def test_unsubscribed_topics_fall_silent(listeners: Listeners, sign_in: SignedIn) -> None:
    alice = await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        await alices.follow("wallet", "queue")
        await alices.say(unsubscribe=["wallet", "never followed"])
        await alices.follow("notifications")  # answered after the unsubscription was taken in
        await poked(f"wallet:{alice.pk}", 1)
        await poked(f"queue:{alice.pk}", 2)
        assert await alices.hear() == {"topic": "queue", "version": 2}
        await alices.hears_nothing(0.4)


# How often ------------------------------------------------------------------------------------------------------------


async def test_a_burst_is_one_push_at_once_and_one_a_second_later_with_the_newest_version(
    listeners: Listeners, sign_in: SignedIn
) -> None:
    alice = await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        await alices.follow("wallet")
        clock = asyncio.get_running_loop().time
        await poked(f"wallet:{alice.pk}", 1)
        first, at = await alices.hear(), clock()
        for version in range(2, 31):  # apart from the first: what waits is sent together, the latest only
            await poked(f"wallet:{alice.pk}", version)
        second, later = await alices.hear(), clock()
        assert first["version"] == 1
        assert second == {"topic": "wallet", "version": 30}
        assert later - at > 0.8
        await alices.hears_nothing(1.2)


async def test_silence_is_broken_by_a_ping(listeners: Listeners, sign_in: SignedIn) -> None:
    """Trap 47: the period is short here and 20 s by default."""
    from django.conf import settings

    assert settings.GSHARE.live_ping_period.total_seconds() == 20
    alice = await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        async with asyncio.timeout(5):
            for _ in range(3):
                assert "ping" in json.loads(await alices.socket.recv())


async def test_a_pages_own_ping_is_answered(listeners: Listeners, sign_in: SignedIn) -> None:
    async with page(listeners, await on_rows(sign_in)(await on_rows(a_user)())) as somebodys:
        await somebodys.say(ping=5)
        assert await somebodys.hear() == {"pong": 5}


# How long -------------------------------------------------------------------------------------------------------------


def _sign_out_everywhere(alice: User, sign_in: SignedIn) -> None:
    User.objects.filter(pk=alice.pk).update(sign_in_epoch=5)


def _sign_out_here(alice: User, sign_in: SignedIn) -> None:
    ConsoleSession.objects.filter(pk=sign_in.made[-1]).delete()


def _deactivate(alice: User, sign_in: SignedIn) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)


@pytest.mark.parametrize("end", [_sign_out_everywhere, _sign_out_here, _deactivate])
async def test_a_socket_closes_when_the_sign_in_ends(
    listeners: Listeners, sign_in: SignedIn, end: Callable[[User, SignedIn], None]
) -> None:
    alice = await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        await alices.follow("wallet")
        await on_rows(end)(alice, sign_in)
        with pytest.raises(ConnectionClosed):
            await alices.hear(within=4)
        assert alices.socket.close_code == 4401


async def test_a_lost_membership_takes_the_sessions_topic_within_the_period(
    listeners: Listeners, sign_in: SignedIn
) -> None:
    """Trap 53."""
    group = await on_rows(a_group)()
    owner, admin = await on_rows(a_user)(group), await on_rows(a_user)(group, role="group_admin")
    session = await on_rows(a_running_session)(owner, group)
    topic = f"session:{session.pk}"
    async with page(listeners, await on_rows(sign_in)(admin)) as admins:
        await admins.follow(topic)
        await on_rows(Membership.objects.filter(user=admin).delete)()
        assert await admins.hear(within=4) == {"topic": topic, "refused": "not_found"}
        await poked(topic, 99)
        await admins.hears_nothing(0.4)


async def test_a_poke_of_the_rights_makes_a_socket_ask_again_at_once(listeners: Listeners, sign_in: SignedIn) -> None:
    alice = await on_rows(a_user)()
    async with page(listeners, await on_rows(sign_in)(alice)) as alices:
        await alices.follow("wallet")
        await on_rows(_sign_out_everywhere)(alice, sign_in)
        await poked(f"rights:{alice.pk}")
        with pytest.raises(ConnectionClosed):
            await alices.hear(within=0.8)
        assert alices.socket.close_code == 4401


# Nonsense -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        "1",
        '"x"',
        "null",
        '{"subscribe": "wallet"}',
        '{"subscribe": [1]}',
        '{"unsubscribe": {}}',
        "[" * 2000,
        '{"subscribe": [' + ",".join(f'"t{i}"' for i in range(101)) + "]}",
        '{"subscribe": ["' + "x" * 20_000 + '"]}',
    ],
)
async def test_nonsense_ends_the_conversation_and_nothing_else(
    listeners: Listeners, sign_in: SignedIn, text: str
) -> None:
    alice = await on_rows(a_user)()
    cookie = await on_rows(sign_in)(alice)
    async with page(listeners, cookie) as somebodys:
        await somebodys.socket.send(text)
        with pytest.raises(ConnectionClosed):
            await somebodys.hear()
        assert somebodys.socket.close_code == 4408
    async with page(listeners, cookie) as again:
        assert await again.follow("wallet") == []


async def test_bytes_are_no_message(listeners: Listeners, sign_in: SignedIn) -> None:
    async with page(listeners, await on_rows(sign_in)(await on_rows(a_user)())) as somebodys:
        await somebodys.socket.send(b'{"subscribe": ["wallet"]}')
        with pytest.raises(ConnectionClosed):
            await somebodys.hear()
