"""The local substrate with real processes: they start, answer, crash, outlive the operator, and really end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from cluster.operator.state import Unavailable
from cluster.operator.substrates.local.record import PodFile
from gshare_core.contract import App, Mount, Reason
from tests.unit.operator.build import SESSION, gpu, spec
from tests.unit.operator.local import Cluster, StandIn, now, order, tell_and_lose
from tests.waiting import until

CARD = "GPU-6b47182f-0cb2-5a90-bd45-dc05e952edca"
HOME = Mount(claim="vol-home", mount_path="/home/work", size_gib=5)


def file_of(cluster: Cluster, run: int = 1) -> PodFile:
    return PodFile.of(cluster.folder / "pods", SESSION, run)


def shim_of(cluster: Cluster, app: int = 0) -> int:
    record = file_of(cluster).load()
    assert record is not None
    pid = record.apps[app].pid
    assert pid is not None
    return pid


async def test_an_application_is_ready_when_it_answers_with_the_runs_own_token(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    assert order(pod, "lab").status_code == 200
    assert order(pod, "lab", token="of another run").status_code == 401
    assert pod.endpoints["lab"].startswith("unix:")


async def test_a_session_gets_a_clean_environment_with_its_cards_and_limits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSHARE_SECRET_KEY", "of the control plane")
    pod = await cluster.ready(spec(gpu=gpu("gpu-02", (CARD,))))
    facts = json.loads(order(pod, "lab", "env").text)
    given = facts["env"]
    assert "GSHARE_SECRET_KEY" not in given
    assert (given["GSHARE_CARDS"], given["CUDA_VISIBLE_DEVICES"]) == (CARD, CARD)
    assert given["MEM_LIMIT"] == str(4096 * 1024 * 1024)
    assert given["HOME"] == facts["cwd"]
    assert facts["cwd"].endswith("/root/home/work")
    assert set(facts["fds"]) <= {"0", "1", "2", "3", "4", "5"}, "a file of the operator was inherited"


async def test_a_cpu_session_sees_no_card(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    given = json.loads(order(pod, "lab", "env").text)["env"]
    assert given["CUDA_VISIBLE_DEVICES"] == ""


async def test_a_session_is_ready_only_when_all_its_applications_are_and_an_optional_one_may_be_missing(
    cluster: Cluster,
) -> None:
    apps = (App(name="lab", port=1), App(name="code", port=2), App(name="terminal", port=3))
    pod = await cluster.ready(spec(apps=apps))
    assert set(pod.endpoints) == {"lab", "terminal"}


async def test_stopping_ends_the_applications_and_what_they_left_behind(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    escaped = int(order(pod, "lab", "escape").text)
    assert escaped in cluster.processes()
    await cluster.end()
    assert cluster.processes() == []
    assert await cluster.pods() == []
    assert not (cluster.folder / "data" / "sessions" / pod.name).exists()


async def test_a_pod_is_not_removed_while_something_of_it_is_alive(cluster: Cluster) -> None:
    await cluster.ready(spec())
    await cluster.substrate.remove(SESSION, 1)
    assert await cluster.pod() is not None


async def test_an_application_that_ignores_the_request_to_end_is_killed(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    order(pod, "lab", "deaf")
    await cluster.substrate.stop(SESSION, 1, now())
    still = await cluster.pod()
    assert still is not None
    assert still.alive
    assert still.stopping_since is not None
    await cluster.substrate.kill(SESSION, 1)
    await cluster.until(lambda pod: not pod.alive, what="the end")


async def test_who_was_killed_before_its_signal_has_still_asked_for_the_end(cluster: Cluster) -> None:
    await cluster.ready(spec())
    record = file_of(cluster).load()
    assert record is not None
    record.stopping_since = now()  # all that an operator leaves that is killed between writing it down and the signal
    file_of(cluster).save(record)
    cluster.restart()
    await cluster.until(lambda pod: not pod.alive, within=15, what="the end, long before its grace is over")


async def test_a_crashed_application_comes_back_and_its_last_words_are_kept(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    tell_and_lose(pod, "lab", "crash")
    crashed = await cluster.until(lambda pod: pod.crashed_at, what="the crash")
    assert not crashed.ready
    assert "status 3" in crashed.words
    assert "my own last words" in crashed.words
    again = await cluster.until(lambda pod: pod.ready, what="readiness after the restart")
    assert len(again.crashed_at) == 1
    assert order(again, "lab").status_code == 200


async def test_a_program_that_ends_without_an_error_has_exited_and_is_not_restarted(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    tell_and_lose(pod, "lab", "exit")
    exited = await cluster.until(lambda pod: pod.exited, what="the exit")
    assert not exited.crashed_at
    assert exited.alive_at is not None


async def test_a_terminal_that_ends_beside_the_lab_is_restarted(cluster: Cluster) -> None:
    pod = await cluster.ready(spec(apps=(App(name="lab", port=1), App(name="terminal", port=2))))
    tell_and_lose(pod, "terminal", "exit")
    await cluster.until(lambda pod: pod.crashed_at and pod.ready, what="the terminal's return")


async def test_a_killed_shim_is_a_vanished_pod(cluster: Cluster) -> None:
    await cluster.ready(spec())
    for pid in cluster.processes():
        os.kill(pid, signal.SIGKILL)
    lost = await cluster.until(lambda pod: pod.lost, what="the loss")
    assert lost.lost is Reason.VANISHED
    await cluster.until(lambda pod: not pod.alive, what="its end")


async def test_the_next_operator_adopts_what_runs_and_restarts_nothing(cluster: Cluster) -> None:
    await cluster.ready(spec())
    before = cluster.processes()
    cluster.restart()
    adopted = await cluster.pod()
    assert adopted is not None
    assert adopted.ready
    assert order(adopted, "lab").status_code == 200
    await cluster.start(spec())
    assert cluster.processes() == before


async def test_the_next_operator_learns_how_a_program_ended_while_nobody_looked(cluster: Cluster) -> None:
    pod = await cluster.ready(spec())
    tell_and_lose(pod, "lab", "exit")
    until(lambda: file_of(cluster).exit_of("lab"), what="the exit status")
    at = now()
    cluster.restart()
    adopted = await cluster.pod()
    assert adopted is not None
    assert adopted.exited
    assert adopted.alive_at is not None
    assert adopted.alive_at < at


async def test_a_start_that_was_never_written_down_is_not_doubled(cluster: Cluster) -> None:
    await cluster.ready(spec())
    first = set(cluster.processes())
    record = file_of(cluster).load()
    assert record is not None
    record.apps[0].pid, record.apps[0].answered = None, False
    file_of(cluster).save(record)
    cluster.restart()
    await cluster.until(lambda pod: pod.ready, what="readiness")
    assert not first & set(cluster.processes())
    assert len(cluster.processes()) == len(first)


async def test_a_restart_of_the_machine_means_that_the_cluster_was_stopped(cluster: Cluster) -> None:
    await cluster.ready(spec())
    record = file_of(cluster).load()
    assert record is not None
    record.host_life = "before the restart"
    file_of(cluster).save(record)
    cluster.restart()
    pod = await cluster.pod()
    assert pod is not None
    assert (pod.alive, pod.lost) == (False, Reason.CLUSTER_STOPPED)


@pytest.mark.parametrize(
    ("share", "words"),
    [(gpu("gpu-09", (CARD,)), "no node gpu-09"), (gpu("gpu-02", ("GPU-other",)), "no card GPU-other")],
)
async def test_a_card_or_node_that_does_not_exist_is_a_claim_mismatch(
    cluster: Cluster, share: object, words: str
) -> None:
    await cluster.start(spec(gpu=share))
    pod = await cluster.pod()
    assert pod is not None
    assert pod.trouble is not None
    assert (pod.trouble.reason, pod.alive) == (Reason.CLAIM_MISMATCH, False)
    assert words in pod.trouble.message


async def test_a_needed_program_that_is_missing_is_named(folder: Path) -> None:
    cluster = Cluster(folder, {"lab": StandIn(folder / "none", why_missing="GSHARE_SESSION_PYTHON is not set")})
    await cluster.start(spec())
    pod = await cluster.pod()
    assert pod is not None
    assert pod.trouble is not None
    assert pod.trouble.reason is Reason.IMAGE_PULL_FAILED
    assert "GSHARE_SESSION_PYTHON" in pod.trouble.message


async def test_a_pod_whose_record_cannot_be_read_still_exists(cluster: Cluster) -> None:
    await cluster.ready(spec())
    (file_of(cluster).folder / "pod.json").write_text("{")
    cluster.restart()
    pod = await cluster.pod()
    assert pod is not None
    assert (pod.alive, pod.lost) == (True, Reason.VANISHED)
    await cluster.substrate.stop(SESSION, 1, now())
    assert (await cluster.pods())[0].stopping_since is not None
    await cluster.end()
    assert await cluster.pods() == []


async def test_a_volume_keeps_its_files_for_the_next_run_and_scratch_does_not(cluster: Cluster) -> None:
    data = Mount(claim="vol-data", mount_path="/data/set", size_gib=7)
    pod = await cluster.ready(spec(volumes=(HOME, data)))
    given = json.loads(order(pod, "lab", "env").text)["env"]
    root = Path(given["GSHARE_SESSION_ROOT"])
    (Path(given["HOME"]) / "notebook.ipynb").write_text("kept")
    (root / "data/set/rows.csv").write_text("kept too")
    (root / "scratch.txt").write_text("gone")
    await cluster.end()
    again = await cluster.ready(spec(2, 2, volumes=(HOME, data)))
    given = json.loads(order(again, "lab", "env").text)["env"]
    root = Path(given["GSHARE_SESSION_ROOT"])
    assert (Path(given["HOME"]) / "notebook.ipynb").read_text() == "kept"
    assert (root / "data/set/rows.csv").read_text() == "kept too"
    assert not (root / "scratch.txt").exists()
    assert {row.claim: row.size_gib for row in await cluster.substrate.volumes()} == {"vol-home": 5, "vol-data": 7}


async def test_a_missing_key_makes_nothing_and_blinds_nobody(cluster: Cluster) -> None:
    def no_key(session: object, run: int) -> str:
        raise Unavailable("the token file cannot be read")

    pod = await cluster.ready(spec())
    tell_and_lose(pod, "lab", "crash")
    cluster.substrate._tokens = no_key
    crashed = await cluster.until(lambda pod: pod.crashed_at, what="the crash")
    assert not crashed.ready
    with pytest.raises(Unavailable):
        await cluster.start(spec(2, 2))
    assert [pod.run for pod in await cluster.pods()] == [1]


async def test_mounts_inside_one_another_are_refused_before_anything_is_made(cluster: Cluster) -> None:
    inside = Mount(claim="vol-b", mount_path="/home/work/inside", size_gib=1)
    await cluster.start(spec(volumes=(HOME, inside)))
    pod = await cluster.pod()
    assert pod is not None
    assert pod.trouble is not None
    assert "/home/work/inside" in pod.trouble.message


async def test_the_inventory_shows_what_pods_hold_of_the_cards(cluster: Cluster) -> None:
    await cluster.ready(spec(gpu=gpu("gpu-02", (CARD,))))
    bound = {card.uuid: card.bound for node in await cluster.substrate.nodes(now()) for card in node.cards}
    assert [(share.session, share.vram_mib, share.core_percent) for share in bound.pop(CARD)] == [(SESSION, 20389, 25)]
    assert not any(bound.values())


async def test_a_socket_path_that_is_too_long_becomes_a_loopback_port(folder: Path, cluster: Cluster) -> None:
    deep = folder / ("x" * 90)
    deep.mkdir()
    far = Cluster(deep, cluster.recipes)
    try:
        pod = await far.ready(spec())
        assert pod.endpoints["lab"].startswith("127.0.0.1:")
        assert order(pod, "lab").status_code == 200
    finally:
        await far.end()
