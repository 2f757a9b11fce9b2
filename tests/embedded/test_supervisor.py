"""The supervisor keeps its programs alive and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gshare_site.embedded.supervisor import Program, Supervisor
from tests.waiting import until

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(tmp_path: Path, said: list[str]) -> Iterator[Supervisor]:
    """One that is turned by hand: signals stay the test runner's."""
    supervisor = Supervisor(logs=tmp_path, say=said.append)
    yield supervisor
    supervisor.impatient = True
    supervisor.stop_all()


def _program(name: str, command: list[str], **options: object) -> Program:
    return Program(name=name, command=lambda: command, environment=dict(os.environ), tier=0, **options)


def _turn(supervisor: Supervisor, condition: object, what: str) -> None:
    deadline = threading.Event()
    timer = threading.Timer(15, deadline.set)
    timer.start()
    supervisor.watch(until=lambda: deadline.is_set() or bool(condition()))
    timer.cancel()
    assert not deadline.is_set(), what


def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_killed_program_is_started_again_and_the_supervisor_says_so(supervisor: Supervisor, said: list[str]) -> None:
    child = supervisor.start(_program("web", SLEEPER))
    first = child.process.pid
    os.kill(first, signal.SIGKILL)
    _turn(supervisor, lambda: child.alive() and child.process.pid != first, "the program came back")
    assert any("web was killed by SIGKILL" in line for line in said)


def test_what_a_dead_program_left_in_its_group_is_killed_before_it_starts_again(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    pid_file = tmp_path / "grandchild"
    code = (
        "import pathlib, signal, subprocess, sys;"
        "p = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']);"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(p.pid)); signal.pause()"
    )
    child = supervisor.start(_program("worker", [sys.executable, "-c", code]))
    until(lambda: pid_file.exists() and pid_file.read_text(), what="a grandchild")
    grandchild, first = int(pid_file.read_text()), child.process.pid
    os.kill(first, signal.SIGKILL)
    _turn(supervisor, lambda: child.alive() and child.process.pid != first, "the program came back")
    assert until(lambda: _gone(grandchild), what="the grandchild's end")


def test_a_program_that_keeps_failing_is_started_ever_more_slowly(supervisor: Supervisor, said: list[str]) -> None:
    command = [sys.executable, "-c", "import sys; print('no such setting'); sys.exit(3)"]
    child = supervisor.start(_program("beat", command))
    _turn(supervisor, lambda: child.restarts >= 3, "three restarts")
    waits = [float(line.rsplit(" in ", 1)[1].removesuffix(" s")) for line in said if " in " in line]
    assert waits[:3] == sorted(waits[:3])
    assert waits[1] > waits[0]
    assert any("beat ended with code 3 (no such setting)" in line for line in said)


def test_one_program_that_cannot_start_again_does_not_end_the_others(supervisor: Supervisor, said: list[str]) -> None:
    steady = supervisor.start(_program("web", SLEEPER))
    commands = iter([SLEEPER, ["/nonexistent/program"]])
    child = supervisor.start(
        Program(name="odd", command=lambda: next(commands, SLEEPER), environment=dict(os.environ), tier=0)
    )
    os.kill(child.process.pid, signal.SIGKILL)
    _turn(supervisor, lambda: child.alive() and child.restarts >= 2, "the second try")
    assert steady.alive()
    assert any("odd cannot start" in line for line in said)


def test_the_end_stops_tiers_from_the_last_to_the_first_each_with_its_own_signal(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    log = tmp_path / "order"
    code = (
        "import pathlib, signal, sys, time\n"
        "name, path = sys.argv[1:]\n"
        "def end(number, frame):\n"
        "    with open(path, 'a') as file: file.write(f'{name}:{signal.Signals(number).name}\\n')\n"
        "    raise SystemExit(0)\n"
        "signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end)\n"
        "open(path + name, 'w').close()\n"
        "while True: signal.pause()\n"
    )
    for name, tier, number in (
        ("postgres", 0, signal.SIGINT),
        ("web", 1, signal.SIGTERM),
        ("operator", 2, signal.SIGINT),
    ):
        supervisor.start(
            Program(
                name=name,
                command=lambda name=name: [sys.executable, "-c", code, name, str(log)],
                environment=dict(os.environ),
                tier=tier,
                stop_signal=number,
            )
        )
    until(lambda: all(Path(f"{log}{name}").exists() for name in ("postgres", "web", "operator")), what="all ready")
    supervisor.stop_all()
    assert log.read_text().split() == ["operator:SIGINT", "web:SIGTERM", "postgres:SIGINT"]


def test_a_program_that_ignores_its_signal_is_killed_after_its_time(supervisor: Supervisor, said: list[str]) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"
    child = supervisor.start(_program("stubborn", [sys.executable, "-c", code], stop_seconds=0.3))
    log = supervisor.logs / "stubborn.log"
    until(lambda: log.exists() and "ready" in log.read_text(), what="the handler")
    process = child.process
    supervisor.stop_all()
    assert process.poll() == -signal.SIGKILL
    assert any("does not end, killing it" in line for line in said)


def test_children_end_when_the_supervisor_itself_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from gshare_site.embedded.supervisor import Program, Supervisor\n"
        "from gshare_site.embedded.privileges import dying_with_parent\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "s = Supervisor(logs=folder)\n"
        "s.install_signals()\n"
        "command = dying_with_parent([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "c = s.start(Program(name='web', command=lambda: command, environment=dict(os.environ), tier=0))\n"
        "(folder / 'pid').write_text(str(c.process.pid))\n"
        "s.watch()\n"
    )
    root = Path(__file__).resolve().parent.parent.parent
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root)
    pid_file = tmp_path / "pid"
    until(lambda: pid_file.exists() and pid_file.read_text(), within=20, what="the child's pid")
    pid = int(pid_file.read_text())
    until(lambda: "signal.pause" in " ".join(psutil.Process(pid).cmdline()) and not _is_setpriv(pid), what="its start")
    process.kill()
    process.wait(10)
    assert until(lambda: _gone(pid), what="the child's end")


def _is_setpriv(pid: int) -> bool:
    return psutil.Process(pid).name() == "setpriv"
