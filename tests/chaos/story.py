"""One seeded run: somebody creates, works, pauses, resumes, restarts, stops, while processes are killed at random moments."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from datetime import datetime

from tests.chaos.console import Console
from tests.chaos.processes import VICTIMS, Process, kill
from tests.e2e.conftest import Demo

BOUND = 150  # seconds: a start after several killed processes with their back-offs, on a loaded machine
ENDINGS = (("stop",), ("pause", "resume", "stop"), ("restart", "stop"), ("pause", "stop"), ("pause", "resume", "pause"))


@dataclass(frozen=True)
class Bystander:
    """Somebody's session that was running before, and what ran for it."""

    console: Console
    session_id: str
    processes: list[Process]


@dataclass(frozen=True)
class Plan:
    """What a seed means: the size, the verbs, and who is killed after how many seconds."""

    seed: int
    tier: str
    verbs: tuple[str, ...]
    kills: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The same for the same seed. The first victim goes round, so that every process has its turn."""
        rng = random.Random(seed)
        tier = rng.choice(("L", "L", "L", "cpu"))
        verbs = ENDINGS[seed % len(ENDINGS)]
        count = rng.randint(2, 4)
        victims = [VICTIMS[seed % len(VICTIMS)], *(rng.choice(VICTIMS) for _number in range(count - 1))]
        return cls(seed, tier, verbs, tuple((rng.uniform(0.0, 4.0), victim) for victim in victims))


@dataclass
class Killer:
    """Kills by the plan, each after its delay, in a thread of its own."""

    demo: Demo
    plan: Plan
    done: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Killer:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for delay, victim in self.plan.kills:
            if self._stop.wait(delay):
                return
            if kill(self.demo, victim):
                self.done.append(victim)

    def finish(self) -> None:
        """Let the rest of the plan happen."""
        self._thread.join()


def tell(alice: Console, plan: Plan, image: str) -> str:
    """Live the plan through; answers the session's id. Every wait is bounded."""
    with Killer(alice.demo, plan) as killer:
        session_id = alice.create(f"chaos-{plan.seed}", plan.tier, image, key=f"chaos-{plan.seed}-{alice.demo.port}")
        _runs(alice, session_id)
        for verb in plan.verbs:
            alice.ask(verb, session_id)
            if verb in {"resume", "restart"}:
                _runs(alice, session_id)
            else:
                alice.reaches(session_id, "paused" if verb == "pause" else "stopped", within=BOUND)
        killer.finish()
    if plan.verbs[-1] != "stop":
        alice.ask("stop", session_id)
    alice.reaches(session_id, "stopped", within=BOUND)
    return session_id


def _runs(alice: Console, session_id: str) -> None:
    """Wait until it runs. What the infrastructure ended is paused, has a way out, and is resumed as a person would."""
    seen = alice.reaches(session_id, "running", "paused", within=BOUND)
    if seen["state"] == "paused":
        alice.ask("resume", session_id)
        alice.reaches(session_id, "running", within=BOUND)


def microseconds(start: str, end: str) -> int:
    """Between two moments."""
    span = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
