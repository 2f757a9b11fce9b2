"""Starts processes in order, restarts those that die, ends all of them.

Guarantees: a child that ends by itself is started again (at once, then with back-off while it keeps failing) after whatever
it left in its process group has been killed; at the end children are stopped tier by tier, last tier first, each with its own
signal and time, then killed; when the supervisor itself is killed the kernel ends the children (their commands carry a
parent-death signal). Knows nothing of what it runs.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

FIRST_BACKOFF_SECONDS = 0.1
LONGEST_BACKOFF_SECONDS = 10.0
STEADY_SECONDS = 20.0
LOG_BYTES_MAX = 20_000_000
LAST_WORDS_BYTES = 2000


@dataclass(frozen=True)
class Program:
    """What to run: command and environment, the signal that ends it, how long it may take."""

    name: str
    command: Callable[[], list[str]]
    environment: Mapping[str, str]
    tier: int
    stop_signal: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10.0
    before_start: Callable[[], None] | None = None
    descriptors: tuple[int, ...] = ()
    folder: Path = Path("/")


@dataclass
class Child:
    """One program's present process and its record of failures."""

    program: Program
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    backoff: float = 0.0
    due_at: float = 0.0
    restarts: int = 0

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None


def describe_end(code: int) -> str:
    """A return code in words."""
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


@dataclass
class Supervisor:
    """Runs programs until `stop` is asked for (SIGINT, SIGTERM). Times are monotonic seconds."""

    logs: Path
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201 -- its voice
    after_death: Callable[[int], None] = lambda pid: None  # noqa: ARG005 -- nothing to do by default
    children: dict[str, Child] = field(default_factory=dict)
    stopping: bool = False
    impatient: bool = False
    _wakeup: tuple[int, int] | None = None

    def install_signals(self) -> None:
        """SIGINT and SIGTERM ask for the end (a second one hurries it); a child's death wakes the loop."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        self._wakeup = (reader, writer)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._ask_to_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _ask_to_stop(self, *_: object) -> None:
        self.impatient = self.stopping
        self.stopping = True

    def start(self, program: Program) -> Child:
        """Start a program and keep it running from now on."""
        child = Child(program)
        self.children[program.name] = child
        self._launch(child)
        return child

    def _launch(self, child: Child) -> None:
        program = child.program
        if program.before_start is not None:
            program.before_start()
        path = self.logs / f"{program.name}.log"
        if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
            path.replace(path.with_suffix(".log.1"))
        with path.open("ab") as log:
            child.process = subprocess.Popen(
                program.command(),
                env=dict(program.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=program.folder,
                pass_fds=program.descriptors,
                start_new_session=True,
            )
        child.started_at = time.monotonic()

    def watch(self, until: Callable[[], bool] | None = None, tick: Callable[[], None] | None = None) -> None:
        """Restart what dies, until the end is asked for or `until()` holds."""
        while not self.stopping and not (until is not None and until()):
            self._wait(0.2 if until is None else 0.05)
            self._restart_the_dead()
            if tick is not None:
                tick()

    def _wait(self, seconds: float) -> None:
        if self._wakeup is None:
            time.sleep(seconds)
            return
        ready, _, _ = select.select([self._wakeup[0]], [], [], seconds)
        if ready:
            with suppress(BlockingIOError):
                os.read(self._wakeup[0], 4096)

    def _restart_the_dead(self) -> None:
        now = time.monotonic()
        for child in self.children.values():
            if child.process is None:
                if now >= child.due_at:
                    self._try_again(child)
                continue
            code = child.process.poll()
            if code is None:
                continue
            self._bury(child)
            steady = now - child.started_at >= STEADY_SECONDS
            child.backoff = (
                0.0 if steady else min(LONGEST_BACKOFF_SECONDS, (child.backoff or FIRST_BACKOFF_SECONDS / 2) * 2)
            )
            child.due_at = now + child.backoff
            wait = f" in {child.backoff:.1f} s" if child.backoff else ""
            self.say(
                f"{child.program.name} {describe_end(code)}{self._last_words(child, code)}; starting it again{wait}"
            )

    def _last_words(self, child: Child, code: int) -> str:
        """The last line of the log of a program that ended by itself: usually the reason."""
        if code <= 0:
            return ""
        with (self.logs / f"{child.program.name}.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - LAST_WORDS_BYTES))
            lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        return f" ({lines[-1]})" if lines else ""

    def _try_again(self, child: Child) -> None:
        child.restarts += 1
        try:
            self._launch(child)
        except Exception as error:  # noqa: BLE001 -- one program's failing start must not end the others' supervision
            child.backoff = min(LONGEST_BACKOFF_SECONDS, max(child.backoff, FIRST_BACKOFF_SECONDS) * 2)
            child.due_at = time.monotonic() + child.backoff
            self.say(f"{child.program.name} cannot start: {error}")

    def _bury(self, child: Child) -> None:
        """Kill what the dead process left in its group, and forget it."""
        process = child.process
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self.after_death(process.pid)
        child.process = None

    def stop_all(self) -> None:
        """End every child, last tier first."""
        self.stopping = True
        for tier in sorted({child.program.tier for child in self.children.values()}, reverse=True):
            self._stop([child for child in self.children.values() if child.program.tier == tier])

    def _stop(self, children: list[Child]) -> None:
        started = time.monotonic()
        for child in children:
            self._send(child, child.program.stop_signal)
        waiting = [child for child in children if child.process is not None]
        while waiting:
            for child in list(waiting):
                if child.alive() and time.monotonic() - started > (
                    1.0 if self.impatient else child.program.stop_seconds
                ):
                    self.say(f"{child.program.name} does not end, killing it")
                    self._send(child, signal.SIGKILL, wait=True)
                if not child.alive():
                    self._bury(child)
                    waiting.remove(child)
            if waiting:
                self._wait(0.05)

    @staticmethod
    def _send(child: Child, number: signal.Signals, *, wait: bool = False) -> None:
        if child.process is not None and child.alive():
            with suppress(ProcessLookupError):
                child.process.send_signal(number)
            if wait:
                child.process.wait()
