"""Who is alive, and which processes belong to a pod."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from uuid import uuid4

from cluster.operator.substrates.local.processes import (
    MARK,
    MARK_APP,
    Process,
    host_life,
    is_alive,
    process_of,
    processes_of,
    send,
)
from tests.waiting import until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
ORPHAN = (
    "import os, subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], env={}, start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "import time; time.sleep(60)\n"
)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(SLEEP)
    process = process_of(child.pid)
    assert process is not None
    child.kill()
    until(lambda: not is_alive(process), what="death")
    os.kill(child.pid, 0)  # the pid is still taken: nobody has reaped it
    assert process_of(child.pid) is None
    child.wait()


def test_a_reused_pid_is_another_process_and_gets_no_signal() -> None:
    child = subprocess.Popen(SLEEP)
    found = process_of(child.pid)
    assert found is not None
    send([Process(found.pid, found.started - 1)], signal.SIGKILL)
    assert is_alive(found)
    send([found], signal.SIGKILL)
    assert child.wait(5) == -signal.SIGKILL


def test_a_pods_processes_are_found_by_their_mark_and_by_descent() -> None:
    mark = uuid4().hex
    environment = {MARK: mark, MARK_APP: "lab", "PATH": os.environ["PATH"]}
    with subprocess.Popen([sys.executable, "-c", ORPHAN], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        unmarked = int(parent.stdout.readline())
        assert {process.pid for process in processes_of(mark)} == {parent.pid, unmarked}
        assert {process.pid for process in processes_of(mark, app="lab")} == {parent.pid, unmarked}
        assert processes_of(mark, app="terminal") == []
        assert processes_of(mark + "0") == []
        send(processes_of(mark), signal.SIGKILL)


def test_the_life_of_the_machine_has_one_name() -> None:
    assert host_life() == host_life()
