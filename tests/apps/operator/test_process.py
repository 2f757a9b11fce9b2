"""The operator as a process: killed, restarted, doubled, cut off; sessions and reports come through."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import pytest

from cluster.operator.state import Memory
from cluster.operator.substrates.local.cards import declared_nodes
from cluster.operator.substrates.local.record import PodFile
from gshare_core.contract import Activity, App, AppUse, Desired, GpuSource, GpuUse, Phase, Reason, session_name
from tests.apps.operator.conftest import ROOT, Site
from tests.unit.operator.build import SESSION, gpu, spec
from tests.waiting import until as until_within

pytestmark = pytest.mark.timeout(120)

until = partial(until_within, within=30)  # whole processes start and end, on a machine that does other things too
APPS = (App(name="terminal", port=7681),)
OTHER = UUID("0197f3c2-a1b2-7c4e-9d10-aabbccddee00")


def wanted(run: int = 1, generation: int = 1, desired: Desired = Desired.RUNNING):  # type: ignore[no-untyped-def]
    return spec(run, generation, desired, apps=APPS)


def test_a_session_runs_when_wanted_and_is_gone_with_all_its_processes_when_stopped(site: Site) -> None:
    site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    running = site.book.last(SESSION, "running")
    assert running is not None
    assert running.ready_at is not None
    assert running.node == "gpu-01"
    assert running.endpoints["terminal"].startswith(f"unix:{site.folder}/sockets/")
    site.book.want(wanted(1, 2, Desired.STOPPED))
    site.until_reported("gone")
    gone = site.book.last(SESSION, "gone")
    assert gone is not None
    assert (gone.reason, gone.generation, gone.ready_at) == (Reason.STOPPED, 2, running.ready_at)
    assert gone.last_alive_at is not None
    assert gone.last_alive_at >= running.ready_at
    assert site.pids() == []


def test_a_killed_operator_is_followed_by_one_that_adopts_and_restarts_nothing(site: Site) -> None:
    first = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    pids = site.pids()
    site.kill(first)
    assert site.pids() == pids
    site.operate()
    until(lambda: len(site.book.inventories) >= 2, what="the next operator's inventory")
    site.book.want(wanted(1, 2))
    until(
        lambda: (found := site.book.last(SESSION, "running")) and found.generation == 2,
        what="a report of the next generation",
    )
    assert site.pids() == pids
    assert [row.last_alive_at is not None for row in site.book.inventories[-1].sessions] == [True]


def test_a_session_that_ends_while_nobody_operates_is_reported_by_the_next_operator(site: Site) -> None:
    first = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    site.kill(first)
    for pid in site.pids():
        os.kill(pid, signal.SIGKILL)
    site.operate()
    site.until_reported("gone")
    gone = site.book.last(SESSION, "gone")
    assert gone is not None
    assert gone.reason is Reason.VANISHED
    assert gone.ready_at is not None
    site.book.want(wanted(2, 2))
    until(lambda: site.pids(2), what="the next run")
    assert site.pids(1) == []


def test_a_report_is_sent_until_it_is_answered_and_stamped_anew_at_each_try(site: Site) -> None:
    site.book.misbehaviour = ["refuse", "refuse", "lose the answer"]
    site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    first = [report for _, report in site.book.attempts if report.sequence == site.book.attempts[0][1].sequence]
    assert len({report.sent_at for report in first}) == len(first)
    assert {report.observed_at for report in first} == {first[0].observed_at}
    sequences = [report.sequence for _, report in site.book.accepted]
    assert sequences == sorted(sequences)


def test_a_gone_that_nobody_took_is_delivered_after_both_sides_were_restarted(site: Site) -> None:
    first = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    site.book.want(wanted(1, 2, Desired.STOPPED))
    site.book.misbehaviour = ["refuse"] * 1000
    until(lambda: not site.pids(), what="the end of the session")
    until(lambda: site.book.attempts[-1][1].phase is Phase.GONE, what="the first try of gone")
    site.plane.stop()
    site.kill(first)
    site.book.misbehaviour = []
    site.operate()
    until(lambda: "inventory: POST" in site.log, what="a try without a control plane")
    site.plane.start()
    site.until_reported("gone")
    tries = {report.sequence for _, report in site.book.attempts if report.phase is Phase.GONE}
    assert len(tries) == 1, "the same report was made twice"


def test_sigterm_leaves_the_sessions_running(site: Site) -> None:
    operator = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    pids = site.pids()
    operator.send_signal(signal.SIGTERM)
    assert operator.wait(10) == 0
    assert site.pids() == pids


def test_sigint_ends_the_cluster_and_reports_it_as_stopped(site: Site) -> None:
    operator = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    operator.send_signal(signal.SIGINT)
    assert operator.wait(20) == 0
    assert site.pids() == []
    gone = site.book.last(SESSION, "gone")
    assert gone is not None
    assert gone.reason is Reason.CLUSTER_STOPPED


def test_the_end_of_the_cluster_is_reported_at_the_next_start_when_nobody_listened(site: Site) -> None:
    operator = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    site.plane.stop()
    operator.send_signal(signal.SIGINT)
    assert operator.wait(40) == 0
    assert site.pids() == []
    site.plane.start()
    site.operate()
    site.until_reported("gone")
    gone = site.book.last(SESSION, "gone")
    assert gone is not None
    assert gone.reason is Reason.CLUSTER_STOPPED
    assert site.pids() == [], "the document still says Running, but the run is over"


def test_of_two_operators_one_leads_and_the_other_waits_until_the_first_is_dead(site: Site) -> None:
    first = site.operate()
    until(lambda: site.log.count("operator leads, state") == 1, what="the first operator")
    site.operate()
    until(lambda: "another operator leads" in site.log, what="the second operator waiting")
    site.book.want(wanted())
    site.until_reported("running")
    pids = site.pids()
    assert site.log.count("operator leads, state") == 1
    site.kill(first)
    until(lambda: site.log.count("operator leads, state") == 2, what="the second operator leading")
    site.book.want(wanted(1, 2))
    until(
        lambda: (found := site.book.last(SESSION, "running")) and found.generation == 2,
        what="a report of the next generation",
    )
    assert site.pids() == pids


def test_a_token_file_that_is_replaced_counts_at_the_next_try(site: Site) -> None:
    site.give_token("stale")
    site.operate()
    until(lambda: site.book.unauthorised, what="a refused try")
    site.give_token("first")
    site.book.want(wanted())
    site.until_reported("running")


def test_an_operator_waits_for_its_token_file(site: Site) -> None:
    (site.folder / "token.json").unlink()
    site.operate()
    until(lambda: "token file" in site.log, what="a word about the missing file")
    site.give_token("first")
    site.book.want(wanted())
    site.until_reported("running")


def test_what_an_empty_feed_does_not_name_goes_on(site: Site) -> None:
    first = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    pids = site.pids()
    site.kill(first)
    site.book.documents.clear()
    site.book.seq = 0
    before = len(site.book.inventories)
    site.operate()
    until(lambda: len(site.book.inventories) > before and site.book.asked_after[-1] == 0, what="a reading of nothing")
    until(lambda: site.book.inventories[-1].sessions, what="the session in the inventory")
    assert site.pids() == pids


def test_a_tombstone_ends_the_session_and_the_operator_forgets_it(site: Site) -> None:
    site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    site.book.bury(SESSION, 1, 2)
    site.until_reported("gone")
    until(lambda: not list((site.folder / "memory").glob("s-*.json")), what="forgetting")
    assert list((site.folder / "pods").iterdir()) == []


def test_a_restart_makes_the_next_run_only_after_the_one_before_is_gone(site: Site) -> None:
    site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    site.book.want(wanted(2, 3))
    until(lambda: site.pids(2), what="the next run")
    assert site.pids(1) == []
    until(lambda: (found := site.book.last(SESSION, "running")) and found.run == 2, what="the next run's report")
    phases = [(report.run, report.phase.value) for _, report in site.book.accepted]
    assert (1, "gone") in phases


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments_there_is_always_one_run_and_in_the_end_it_is_as_wanted(site: Site, seed: int) -> None:
    chance = random.Random(seed)
    pause = threading.Event()
    run = generation = 1
    operator = site.operate()
    site.book.want(wanted())
    for _ in range(6):
        pause.wait(chance.uniform(0, 1.2))
        site.kill(operator)
        generation += 1
        if chance.random() < 0.4:
            run += 1
        site.book.want(wanted(run, generation, chance.choice([Desired.RUNNING, Desired.RUNNING, Desired.PAUSED])))
        alive = [number for number in range(1, run + 1) if site.pids(number)]
        assert len(alive) <= 1, f"runs {alive} at once"
        operator = site.operate()
    site.book.want(wanted(run + 1, generation + 1))
    until(
        lambda: (found := site.book.last(SESSION, "running")) and found.run == run + 1,
        what=f"the last run, {site.log[-2000:]}",
    )
    assert [number for number in range(1, run + 2) if site.pids(number)] == [run + 1]
    until(
        lambda: {pod.suffix for pod in (site.folder / "pods").iterdir()} == {f".{run + 1}"},
        what="that nothing is left of earlier runs",
    )


@pytest.mark.parametrize("done", ["decided", "written down"])
def test_an_end_that_its_asker_did_not_live_to_ask_for_is_asked_for_by_the_next_operator(site: Site, done: str) -> None:
    """Killed after the decision was remembered, or after the pod says that it ends, but before any signal."""
    first = site.operate()
    site.book.want(wanted())
    site.until_reported("running")
    site.kill(first)
    [path] = (site.folder / "memory").glob("s-*.json")
    memory = Memory.model_validate_json(path.read_bytes())
    [record] = memory.records
    ending = record.model_copy(update={"ending": Reason.STOPPED, "generation": 2})
    path.write_text(memory.model_copy(update={"records": (ending,)}).model_dump_json())
    if done == "written down":
        file = PodFile.of(site.folder / "pods", SESSION, 1)
        pod = file.load()
        assert pod is not None
        pod.stopping_since = datetime.now(UTC)
        file.save(pod)
    site.book.want(wanted(2, 3))
    site.operate()
    until(lambda: not site.pids(1), within=20, what="the end, before its grace is over")
    until(lambda: (found := site.book.last(SESSION, "running")) and found.run == 2, what="the next run")


def test_a_start_without_or_with_an_unknown_variable_says_its_name(site: Site) -> None:
    for change, word in (
        ({"GSHARE_INTERNAL_URL": ""}, "GSHARE_INTERNAL_URL is missing"),
        ({"GSHARE_INTERNAL_URL": "control-plane"}, "GSHARE_INTERNAL_URL"),
        ({"GSHARE_OPERATOR_STATE": "relative"}, "GSHARE_OPERATOR_STATE"),
        ({"GSHARE_OPERATOR_TYPO": "1"}, "GSHARE_OPERATOR_TYPO"),
        ({"GSHARE_TTYD": "/nowhere/ttyd"}, "GSHARE_TTYD"),
        ({"GSHARE_OPERATOR_SESSION_USERS": "maybe"}, "GSHARE_OPERATOR_SESSION_USERS"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "cluster.operator"],
            cwd=ROOT,
            env={**site.environment(), **change},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 2
        assert word in done.stderr


def test_the_operator_imports_neither_django_nor_any_application_but_its_own(site: Site) -> None:
    code = (
        "import sys, cluster.operator.main\n"
        "bad = {'django', 'kubernetes', 'accounts', 'billing', 'catalog', 'sessions_app', 'gshare_site'} & set(sys.modules)\n"
        "assert not bad, bad\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=20).returncode == 0


def test_the_beat_says_what_a_session_does_and_what_was_declared_of_its_gpu(site: Site) -> None:
    site.book.want(wanted())
    first = site.operate()
    site.until_reported("running")
    site.kill(first)
    (site.folder / "gpu").mkdir()
    card = declared_nodes(None)[0].cards[0].uuid
    with_card = spec(session=OTHER, apps=APPS, gpu=gpu(cards=(card,)))
    site.book.want(with_card)
    (site.folder / "gpu" / f"{session_name(OTHER)}.json").write_text('{"use_percent": 61}')
    second = site.operate()
    until(lambda: site.book.last(OTHER, "running"), what="the session with a card")
    site.kill(second)
    site.operate()  # whose first beat comes at once

    def told() -> dict[object, Activity]:
        rows = site.book.inventories[-1].sessions if site.book.inventories else ()
        return {row.id: row.activity for row in rows if row.activity is not None}

    until(lambda: told().keys() == {SESSION, OTHER}, what="a beat with what both do")
    plain, shared = told()[SESSION], told()[OTHER]
    assert plain.gpu is None
    assert shared.gpu == GpuUse(source=GpuSource.DECLARED, healthy=True, present=True, use_percent=61)
    assert plain.apps == (AppUse(app="terminal"),)
    assert plain.cpu_usec is not None
    assert plain.cpu_usec > 0
