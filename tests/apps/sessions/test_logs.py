"""A session's logs: for whom the session is, from where its run is, in words where they cannot be had."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from cluster import tokens
from cluster.domain.logs import LogLine
from cluster.models import Cluster
from gshare_core.contract import app_token, session_name
from gshare_core.errors import DomainError
from sessions_app.logs import Said, look
from sessions_app.models import Session
from sessions_app.services import Asked, pause_session, resume_session
from tests.api.sessions.test_sessions_api import client_of
from tests.apps.sessions.world import World, fresh
from tests.builders import a_user

pytestmark = pytest.mark.django_db


class Folder:
    """The local operator's folder of pods."""

    def __init__(self, pods: Path) -> None:
        self._pods = pods

    def write(self, session: Session, text: str, *, app: str = "lab", run: int = 1) -> None:
        folder = self._pods / f"{session_name(session.pk)}.{run}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{app}.log").write_bytes(text.encode())


@pytest.fixture
def folder() -> Folder:
    return Folder(settings.GSHARE.home / "operator" / "pods")


def read(client: Client, session: Session, query: str = "") -> tuple[int, dict[str, object]]:
    answer = client.get(f"/api/v1/sessions/{session.pk}/logs{query}")
    return answer.status_code, answer.json()


def page(client: Client, session: Session) -> str:
    answer = client.get(f"/sessions/{session.pk}/logs/")
    assert answer.status_code == 200
    return " ".join(str(answer.content.decode()).split())


def test_the_owner_reads_the_last_lines_on_a_page_and_over_rest(world: World, folder: Folder) -> None:
    session, alice = world.run("L"), client_of(world.alice.user)
    folder.write(session, "".join(f"line {number}\n" for number in range(300)))
    folder.write(session, "hello\n", app="terminal")
    status, said = read(alice, session, "?lines=2")
    expected = [("lab", "line 298"), ("lab", "line 299"), ("terminal", "hello")]
    assert (status, said) == (200, {"run": 1, "lines": [{"source": who, "text": text} for who, text in expected]})
    shown = page(alice, session)
    assert "<p>line 299</p>" in shown
    assert "<p>line 100</p>" in shown
    assert "<p>line 99</p>" not in shown, "two hundred of each"
    assert 'data-live-every="5"' in shown
    assert f'href="/sessions/{session.pk}/logs/"' in str(alice.get(f"/sessions/{session.pk}/").content.decode())


def test_what_a_program_wrote_is_text_and_nothing_else(world: World, folder: Folder) -> None:
    session, alice = world.run("L"), client_of(world.alice.user)
    folder.write(session, "\x1b[31m<script>alert(1)</script>\x1b[0m\r\n10 %\r20 %\n\u202eevil\n")
    shown = page(alice, session)
    assert "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>" in shown
    assert "<p>20 %</p><p>evil</p>" in shown
    _status, said = read(alice, session)
    assert [line["text"] for line in said["lines"]] == ["<script>alert(1)</script>", "20 %", "evil"]  # type: ignore[index,attr-defined]


def test_the_runs_own_credentials_are_shown_to_nobody(world: World, folder: Folder) -> None:
    session = world.run("L")
    token = app_token(tokens.cluster_key(world.cluster.pk), session.pk, 1)
    basic = base64.b64encode(f"gshare:{token}".encode()).decode()
    folder.write(session, f"http://s:8888/lab?token={token}\nttyd -c {basic}\n")
    assert look(session).lines == (LogLine("lab", "http://s:8888/lab?token=…"), LogLine("lab", "ttyd -c …"))


def test_who_may_not_see_the_session_may_not_see_its_logs(world: World, folder: Folder) -> None:
    session = world.run("L")
    folder.write(session, "secret\n")
    for nobody in (a_user(), a_user(world.alice.group), a_user(role="org_admin")):
        stranger = client_of(nobody)
        assert read(stranger, session)[0] == 404
        assert stranger.get(f"/sessions/{session.pk}/logs/").status_code == 404
    admin = client_of(a_user(world.alice.group, "group_admin"))
    assert read(admin, session)[0] == 200
    assert "<p>secret</p>" in page(admin, session)


def test_logs_are_those_of_the_run_that_is_named(world: World, folder: Folder) -> None:
    session, alice = world.run("L"), client_of(world.alice.user)
    folder.write(session, "first\n")
    pause_session(Asked(session.pk, world.alice.user))
    world.gone(session)
    resume_session(Asked(session.pk, world.alice.user))
    folder.write(session, "second\n", run=2)
    assert [line.text for line in look(fresh(session)).lines] == ["second"]
    assert [line.text for line in look(fresh(session), run=1).lines] == ["first"]
    assert read(alice, session, "?run=3")[0] == 404
    for bad in ("?run=0", "?run=x", "?lines=0", "?lines=501", f"?run={2**40}"):
        assert read(alice, session, bad)[0] == 400, bad


def test_before_and_after_a_run_it_is_said_why_there_is_nothing_and_nobody_asks_again(
    world: World, folder: Folder
) -> None:
    session, alice = world.create("L"), client_of(world.alice.user)
    assert look(session).said is Said.NOT_YET
    assert "No logs yet" in page(alice, session)
    folder.write(session, "")
    assert look(session).said is Said.QUIET
    other = world.run("L")
    pause_session(Asked(other.pk, world.alice.user))
    world.gone(other)
    assert look(fresh(other)).said is Said.GONE
    shown = page(alice, other)
    assert "These logs are gone" in shown
    assert "data-live-every" not in shown
    assert read(alice, other) == (200, {"run": 1, "lines": []})


def test_who_waits_in_line_has_no_logs_yet(world: World) -> None:
    for _ in range(4):
        world.create("L")
    waiting = world.create("L")
    assert waiting.state == "queued"
    assert look(waiting).said is Said.NOT_YET
    assert read(client_of(world.alice.user), waiting)[0] == 200


def test_a_cluster_that_does_not_answer_or_refuses_is_said_in_words_and_not_why(world: World) -> None:
    session, alice = world.run("L"), client_of(world.alice.user)
    Cluster.objects.filter(pk=world.cluster.pk).update(kind="kube", kubeconfig="nowhere")
    assert look(session).said is Said.REFUSED
    shown = page(alice, session)
    assert "The cluster does not show its logs." in shown
    status, said = read(alice, session)
    assert (status, said["code"]) == (503, "unavailable")
    assert "nowhere" not in shown + str(said)


def test_a_cluster_that_was_removed_has_no_logs(world: World) -> None:
    session = world.run("L")
    Cluster.objects.filter(pk=world.cluster.pk).update(removed_at=world.time.now())
    assert look(session).said is Said.NOT_YET


def test_a_run_that_never_was_is_not_found(world: World) -> None:
    with pytest.raises(DomainError, match="not_found"):
        look(world.run("L"), run=7)
