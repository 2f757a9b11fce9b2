"""Sessions that live through all runs while processes die around them.

The bystander may not be touched: the same processes after every run. The limited one is paused by its maximal runtime, the
sleeper by the idle rule, the hungry one when its credits are gone; it resumes by itself when they are back. Whatever is
paused may be so for its own reason only, and is brought back, so that each rule has work in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from tests.chaos.console import BOUND, Console
from tests.chaos.processes import Process, belongings

MINUTE = 60
LEFT = Decimal("0.01")  # six seconds of its rate: what is topped up while we look is not asked for


@dataclass(frozen=True)
class Companion:
    """Somebody's session, and the only reason for which it may be paused."""

    console: Console
    session_id: str
    reason: str = ""

    def bring_back(self) -> None:
        """Resume it when its rule has paused it."""
        seen = self.console.see(self.session_id)
        if seen["state"] == "paused":
            assert seen["reason"] == self.reason, self.told()
            self.console.ask("resume", self.session_id)

    def told(self) -> str:
        return self.console.told(self.session_id)


@dataclass(frozen=True)
class Companions:
    """All of them, and what ran for the bystander at the beginning."""

    admin: Console
    bystander: Companion
    processes: list[Process]
    limited: Companion
    sleeper: Companion
    hungry: Companion

    @classmethod
    def start(
        cls, admin: Console, bystander: Console, limited: Console, sleeper: Console, hungry: Console, *, image: str
    ) -> Companions:
        """Start them; the bystander runs at the end of this."""
        lasting = Companion(bystander, bystander.create("bystander", "M", image, key="bystander"))
        ended = [
            Companion(limited, limited.create("limited", "cpu", image, key="limited"), "max_runtime"),
            Companion(sleeper, sleeper.create("sleeper", "cpu", image, key="sleeper"), "idle"),
            Companion(hungry, hungry.create("hungry", "M", image, key="hungry", auto_resume=True), "credit_exhausted"),
        ]
        for companion in (lasting, *ended):
            companion.console.reaches(companion.session_id, "running", within=BOUND)
        return cls(admin, lasting, belongings(lasting.session_id), *ended)

    @property
    def sessions(self) -> list[str]:
        return [one.session_id for one in (self.bystander, self.limited, self.sleeper, self.hungry)]

    def before(self) -> bool:
        """Make work for every rule; answers whether the hungry one has its credits back and must resume by itself."""
        self.limited.bring_back()
        self.sleeper.bring_back()
        return self._feed() if self._is_starved() else self._starve()

    def after(self, *, fed: bool) -> None:
        """Nobody touched the bystander, nobody runs past a limit, who has credits again runs again."""
        bystander, limited = (one.console.see(one.session_id) for one in (self.bystander, self.limited))
        assert bystander["state"] == "running", self.bystander.told()
        assert belongings(self.bystander.session_id) == self.processes
        if limited["state"] == "running":
            stretch = self.limited.console.seconds_in_state(self.limited.session_id)
            assert stretch < MINUTE + BOUND, self.limited.told()
        if fed:
            self.hungry.console.reaches(self.hungry.session_id, "running", within=BOUND)

    def _is_starved(self) -> bool:
        seen = self.hungry.console.see(self.hungry.session_id)
        assert seen["state"] != "paused" or seen["reason"] == self.hungry.reason, self.hungry.told()
        return bool(seen["state"] == "paused")

    def _starve(self) -> bool:
        """Take what is free but a little; the hold runs out and the session is paused, in this run or the next."""
        wallet = self.hungry.console.wallet()
        spare = Decimal(wallet["available"]) - LEFT
        if spare > 0:
            self._move("reclaim", wallet["id"], self._parent(), str(spare))
        return False

    def _feed(self) -> bool:
        self._move("allocate", self._parent(), self.hungry.console.wallet()["id"], "5")
        return True

    def _move(self, what: str, of: str, to: str, amount: str) -> None:
        """What was accrued meanwhile is not free any more: then the rest is left to the hold."""
        answer = self.admin.call(
            "POST", f"/wallets/{of}/{what}", {"to": to, "amount": amount, "note": "chaos"}, key=self.admin.fresh_key()
        )
        refused = answer.status_code in {402, 409} and what == "reclaim"
        assert answer.status_code == 201 or refused, answer.text

    def _parent(self) -> str:
        group = self.hungry.console.call("GET", "/me").json()["groups"][0]["id"]
        wallets = self.admin.call("GET", "/wallets").json()["results"]
        return next(str(row["id"]) for row in wallets if row["kind"] == "group" and row["owner"] == group)

    def end(self) -> None:
        for one in (self.bystander, self.limited, self.sleeper, self.hungry):
            one.console.ask("stop", one.session_id)
        for one in (self.bystander, self.limited, self.sleeper, self.hungry):
            one.console.reaches(one.session_id, "stopped", within=BOUND)


def limit(admin: Console, person: Console, **fields: int) -> None:
    """A policy of one person."""
    user = person.call("GET", "/me").json()["user"]["id"]
    answer = admin.call("POST", "/policies", {"scope": f"user:{user}", "per_user": fields})
    assert answer.status_code in {200, 201}, answer.text
