"""One seeded run: somebody works, another waits in line behind him, while processes are killed at random moments."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from datetime import datetime

from tests.chaos.console import BOUND, Console
from tests.chaos.processes import VICTIMS, kill
from tests.e2e.running import Demo

PLOTS = (
    ("stop",),
    ("pause", "resume", "stop"),
    ("wait", "pause", "served", "resume_in_line", "release", "runs", "stop"),
    ("restart", "stop"),
    ("wait", "leave", "restart", "stop"),
    ("pause", "stop"),
    ("wait", "restart", "still_waits", "stop", "served", "release"),
    ("pause", "resume", "pause", "stop"),
)
LATEST_KILL = 2.5  # seconds after the one before


@dataclass(frozen=True)
class Cast:
    """Who acts, with what: the worker has a volume that a single session may mount."""

    worker: Console
    waiter: Console
    image: str
    volume: str


@dataclass(frozen=True)
class Plan:
    """What a seed means: the size, the plot, and who is killed after how many seconds."""

    seed: int
    tier: str
    verbs: tuple[str, ...]
    kills: tuple[tuple[float, str], ...]

    @classmethod
    def of(cls, seed: int) -> Plan:
        """The same for the same seed. Plots and first victims go round, so that each has its turn."""
        rng = random.Random(seed)
        verbs = PLOTS[seed % len(PLOTS)]
        tier = "pair" if "wait" in verbs else rng.choice(("L", "L", "L", "cpu"))
        count = rng.randint(2, 4)
        victims = [VICTIMS[seed % len(VICTIMS)], *(rng.choice(VICTIMS) for _number in range(count - 1))]
        return cls(seed, tier, verbs, tuple((rng.uniform(0.0, LATEST_KILL), victim) for victim in victims))


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


@dataclass
class Story:
    """A plan being lived through. Every wait is bounded."""

    cast: Cast
    plan: Plan
    session_id: str = ""
    waiting_id: str = ""

    @classmethod
    def tell(cls, cast: Cast, plan: Plan) -> Story:
        """From the create to the end of both sessions."""
        story = cls(cast, plan)
        with Killer(cast.worker.demo, plan) as killer:
            story.session_id = story._create(cast.worker, "chaos", volumes=[story._mount()])
            _runs(cast.worker, story.session_id)
            for verb in plan.verbs:
                getattr(story, f"_{verb}")()
            killer.finish()
        return story

    @property
    def sessions(self) -> list[str]:
        return [found for found in (self.session_id, self.waiting_id) if found]

    def _create(self, who: Console, name: str, **fields: object) -> str:
        key = f"{name}-{self.plan.seed}-{who.demo.port}"
        return who.create(f"{name}-{self.plan.seed}", self.plan.tier, self.cast.image, key=key, **fields)

    def _mount(self) -> dict[str, str]:
        return {"volume": self.cast.volume, "path": "/data/chaos", "mode": "rw"}

    def _pause(self) -> None:
        self.cast.worker.ask("pause", self.session_id)
        self.cast.worker.reaches(self.session_id, "paused", within=BOUND)

    def _stop(self) -> None:
        self.cast.worker.ask("stop", self.session_id)
        self.cast.worker.reaches(self.session_id, "stopped", within=BOUND)

    def _resume(self) -> None:
        self.cast.worker.ask("resume", self.session_id)
        self._runs()

    def _restart(self) -> None:
        self.cast.worker.ask("restart", self.session_id)
        self._runs()

    def _runs(self) -> None:
        _runs(self.cast.worker, self.session_id)

    def _resume_in_line(self) -> None:
        """The one who waited has the cards: who resumes waits now, at the end of the line."""
        self.cast.worker.ask("resume", self.session_id)
        self.cast.worker.reaches(self.session_id, "queued", within=BOUND)

    def _wait(self) -> None:
        """Somebody wants the cards that the worker has."""
        self.waiting_id = self._create(self.cast.waiter, "waits", auto_resume=True)
        self._still_waits()

    def _still_waits(self) -> None:
        """A restart keeps its cards: nobody in line gets them meanwhile."""
        seen = self.cast.waiter.see(self.waiting_id)
        assert seen["state"] == "queued", self.cast.waiter.told(self.waiting_id)
        assert seen["queue"]["reason"], seen["queue"]

    def _served(self) -> None:
        """Whoever is in line starts by himself once the cards are free."""
        _runs(self.cast.waiter, self.waiting_id)

    def _release(self) -> None:
        self.cast.waiter.ask("stop", self.waiting_id)
        self.cast.waiter.reaches(self.waiting_id, "stopped", within=BOUND)

    def _leave(self) -> None:
        """Who gives up his place in line is gone at once, and was never billed."""
        self._release()
        assert self.cast.waiter.see(self.waiting_id)["cost"]["charged"] == "0.000000"


def _runs(who: Console, session_id: str) -> None:
    """Wait until it runs. What the infrastructure ended is paused, has a way out, and is resumed as a person would."""
    seen = who.reaches(session_id, "running", "paused", within=BOUND)
    if seen["state"] == "paused":
        who.ask("resume", session_id)
        who.reaches(session_id, "running", within=BOUND)


def microseconds(start: str, end: str) -> int:
    """Between two moments."""
    span = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds
