"""People: when they come, what they ask for, what they do with it, and what they forget.

Guarantees: everything goes through the services that pages and API call, as the person himself or his administrator;
every refusal is a DomainError with a code, counted; anything else breaks the simulation. Days have hours: classes begin
together, nights and weekends are quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from accounts.domain.roles import Role
from accounts.models import Membership, User
from accounts.services import add_membership, deactivate_user, reactivate_user, remove_membership
from accounts.services.memberships import place_of
from billing import services as billing
from billing.queries import wallet_of
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from sessions_app.domain.facts import Ask
from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.services import (
    Asked,
    create_session,
    keep_alive,
    pause_session,
    restart_session,
    resume_session,
    set_priority,
    stay_paused,
    stop_session,
)
from tests.builders import cr
from tests.simulation.world import KilledError, World

# Refusals that a person may meet; any other code is a fault of the code or of this simulation.
EXPECTED = frozenset(
    {
        "budget_exceeded",
        "forbidden",
        "insufficient_credit",
        "insufficient_pool",
        "invalid_transition",
        "never_fits",
        "no_capacity",
        "not_found",
        "quota_exceeded",
    }
)
VERBS: dict[str, Callable[[Asked], Any]] = {
    "pause": pause_session,
    "resume": resume_session,
    "restart": restart_session,
    "stop": stop_session,
    "keep-alive": keep_alive,
    "stay-paused": stay_paused,
}


@dataclass(frozen=True)
class Habit:
    """What a kind of person asks for: sizes with weights, hours of work, how often on a weekday."""

    sizes: Sequence[tuple[str, int]]
    hours: float
    visits: float  # a weekday
    night: float = 0.1
    gives: Sequence[int] = (30,)  # credits that administrators give to one of them, each as likely


HABITS = {
    "student": Habit((("S", 4), ("M", 4), ("L", 2), ("cpu", 2)), hours=1.5, visits=0.1, gives=(3, 10, 30, 200, 400)),
    "researcher": Habit(
        (("L", 3), ("XL", 4), ("card", 3), ("cpu", 1)), hours=5.0, visits=0.3, night=0.3, gives=(30, 800, 2_000, 2_000)
    ),
    "heavy": Habit(
        (("card", 2), ("2 cards", 3), ("4 cards", 4), ("8 cards", 2)),
        hours=13.0,  # training goes on over night
        visits=0.3,
        night=0.3,
        gives=(500, 5_000, 10_000, 10_000),
    ),
    "analyst": Habit((("cpu", 6), ("S", 1)), hours=2.0, visits=0.15, gives=(3, 10, 200)),
}
KINDS = {"student": 6.0, "researcher": 2, "heavy": 2.5, "analyst": 2}  # how many there are of each
# Of the sessions on cards: who declares that he makes room, who is more urgent than those, who resumes by himself.
PREEMPTIBLE, HURRIED, AUTO_RESUME = 0.2, 0.08, 0.25
# How busy a working day is by its hours: nearly everybody comes in the morning or after lunch. About 9 in sum.
_HOURS = {8: 0.6, 9: 1.9, 10: 1.9, 11: 0.9, 12: 0.3, 13: 1.5, 14: 1.0, 15: 0.5, 16: 0.3, 17: 0.2}
_BUSIEST = max(_HOURS.values())


@dataclass
class Person:
    """Somebody with a habit; `generous` is what his administrator gives him when he asks."""

    user: User
    group: UUID
    habit: Habit
    generous: int
    asked: bool = False
    away: bool = False


@dataclass
class Shop:
    """What can be asked for: presets and offerings by name, an image for cards, one for CPU sessions."""

    presets: dict[str, UUID]
    offerings: Mapping[UUID, float]  # with how many ask for them
    image: UUID

    def offering(self, chance: Random) -> UUID:
        """One of them, those that more ask for more often."""
        return chance.choices(list(self.offerings), list(self.offerings.values()))[0]


@dataclass
class People:
    """Everybody, acting by the seed."""

    world: World
    shop: Shop
    everybody: Sequence[Person]
    administrator: User
    chance: Random
    refused: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Everybody's day, classes, and what administrators do."""
        for person in self.everybody:
            self._next_visit(person)
        self._morning()
        self.world.after(self.chance.uniform(1, 6) * 3600, self._administrate)

    # Days ------------------------------------------------------------------------------------------------------------

    def _next_visit(self, person: Person) -> None:
        """By the rates of the hours: a Poisson process whose rate is thinned at night and on weekends."""
        moment = self.world.now
        peak = person.habit.visits / 9.0 * _BUSIEST  # an hour, in the nine hours of a working day
        while True:
            moment += timedelta(hours=self.chance.expovariate(peak))
            if self.chance.random() * _BUSIEST < self._busy(moment, person.habit):
                break
        self.world.at(moment, lambda: self._visit(person))

    @staticmethod
    def _busy(moment: datetime, habit: Habit) -> float:
        rate = _HOURS.get(moment.hour, habit.night)
        return rate * (0.15 if moment.weekday() >= 5 else 1.0)

    def _morning(self) -> None:
        """Each weekday may have classes: a group's students come within three minutes and leave together."""
        self.world.after(86_400, self._morning)
        if self.world.now.weekday() >= 5:
            return
        groups = sorted({person.group for person in self.everybody if person.habit is HABITS["student"]})
        for hour in (9, 13, 15):
            if groups and self.chance.random() < 0.25:
                group, size = self.chance.choice(groups), self.chance.choice(["S", "M", "L"])
                begins = self.world.now.replace(hour=hour, minute=0)
                self.world.at(begins, lambda group=group, size=size: self._class(group, size))

    def _class(self, group: UUID, size: str) -> None:
        self.world.seen["classes"] += 1
        offering = self.shop.offering(self.chance)
        for person in self.everybody:
            if person.group == group and person.habit is HABITS["student"] and self.chance.random() < 0.8:
                delay = self.chance.uniform(0, 180)
                self.world.after(delay, lambda person=person: self._create(person, size, offering, 1.5))

    # One person ------------------------------------------------------------------------------------------------------

    def _visit(self, person: Person) -> None:
        self._next_visit(person)
        mine = list(Session.objects.live().filter(owner=person.user).order_by("id"))
        paused = [session for session in mine if session.life is State.PAUSED]
        if paused and self.chance.random() < 0.7:
            session = self.chance.choice(paused)
            if self._ask(person, "resume", session.pk):
                self._leave_later(person, session.pk, person.habit.hours)
            return
        if mine and self.chance.random() < 0.25:
            session = self.chance.choice(mine)
            verb = self.chance.choice(sorted(VERBS))
            if verb in session.allowed or self.chance.random() < 0.1:
                self._ask(person, verb, session.pk)
            return
        sizes, weights = zip(*person.habit.sizes, strict=True)
        size = self.chance.choices(sizes, weights)[0]
        offering = self.shop.offering(self.chance)
        self._create(person, size, offering, person.habit.hours)

    def _create(self, person: Person, size: str, offering: UUID, hours: float) -> None:
        ask = Ask(
            name=f"s-{uuid7().hex[-8:]}",
            group=person.group,
            image=self.shop.image,
            preset=self.shop.presets[size],
            offering=None if size == "cpu" else offering,
            **self._declared(size),
        )
        session = self._try("create", person, lambda: create_session(ask, by=person.user))
        if session is None:
            return
        self.world.seen[f"created {size}"] += 1
        self.world.seen[f"created and {session.state}"] += 1
        self._leave_later(person, session.pk, hours)
        if self.chance.random() < 0.03:  # asks again before anything has happened
            self.world.after(self.chance.uniform(0.1, 5), lambda: self._ask(person, "stop", session.pk))

    def _declared(self, size: str) -> dict[str, Any]:
        """What a session on cards declares: some make room for others, some do not wait for those, some resume by themselves."""
        if size == "cpu":
            return {}
        kind = self.chance.random()
        return {
            "preemptible": kind < PREEMPTIBLE,
            "priority": 1 if kind > 1 - HURRIED else 0,
            "auto_resume": self.chance.random() < AUTO_RESUME,
        }

    def _leave_later(self, person: Person, session_id: UUID, hours: float) -> None:
        spent = self.chance.lognormvariate(0, 0.8) * hours * 3600
        self.world.after(min(spent, 5 * 86_400), lambda: self._leave(person, session_id))

    def _leave(self, person: Person, session_id: UUID) -> None:
        """He is done: most stop, some pause, some forget; whoever still waits in line mostly goes on waiting."""
        session = Session.objects.filter(pk=session_id).first()
        if session is None or session.life in (State.STOPPED, State.FAILED):
            return
        if session.life is State.QUEUED and self.chance.random() < 0.7:
            self.world.after(self.chance.uniform(1, 4) * 3600, lambda: self._leave(person, session_id))
            return
        if session.resume_at is not None:  # paused, and goes on by itself; for credits he has to ask
            self._wait_for_it(person, session_id)
            return
        choice = self.chance.random()
        if choice < 0.10:
            self.world.seen["forgotten"] += 1
            self.world.after(self.chance.uniform(8, 24) * 3600, lambda: self._leave(person, session_id))
        elif choice < 0.30 and "pause" in session.allowed:
            self._ask(person, "pause", session_id)
            if self.chance.random() < 0.2:  # and changes his mind
                self.world.after(self.chance.uniform(0.5, 30), lambda: self._ask(person, "resume", session_id))
        elif choice < 0.35 and "restart" in session.allowed:
            self._ask(person, "restart", session_id)
            self._leave_later(person, session_id, 0.5)
        else:
            self._ask(person, "stop", session_id)
            if self.chance.random() < 0.1:
                self.world.after(self.chance.uniform(0.1, 2), lambda: self._ask(person, "stop", session_id))

    def _wait_for_it(self, person: Person, session_id: UUID) -> None:
        """Somebody whose session is to resume by itself: mostly he lets it, now and then he has no more use for it."""
        if self.chance.random() < 0.15:
            self._ask(person, self.chance.choice(["stop", "stay-paused"]), session_id)
            return
        self._beg(person)
        self.world.after(self.chance.uniform(1, 8) * 3600, lambda: self._leave(person, session_id))

    def _ask(self, person: Person, verb: str, session_id: UUID) -> bool:
        return self._try(verb, person, lambda: VERBS[verb](Asked(session_id, person.user))) is not None

    def _try(self, verb: str, person: Person | None, act: Callable[[], Any]) -> Any:
        try:
            done = self.world.serve(verb, act)
        except KilledError:
            return None
        except DomainError as refusal:
            if refusal.code not in EXPECTED:
                raise
            self.refused[f"{verb}: {refusal.code}"] = self.refused.get(f"{verb}: {refusal.code}", 0) + 1
            if refusal.code == "insufficient_credit" and person is not None:
                self._beg(person)
            return None
        self.world.seen[f"asked {verb}"] += 1
        return done

    # Administrators --------------------------------------------------------------------------------------------------

    def _beg(self, person: Person) -> None:
        if not person.asked and self.chance.random() < 0.8:
            person.asked = True
            self.world.after(self.chance.uniform(0.1, 20) * 3600, lambda: self._give(person))

    def _give(self, person: Person) -> None:
        if person.away:  # nobody gives credits to who may not use them; he is given them when he is back
            self.world.after(3600, lambda: self._give(person))
            return
        person.asked = False
        amount = int(self.chance.uniform(0.5, 1.5) * cr(person.generous))
        source = billing.ensure_wallet("group", person.group)
        wallet = billing.ensure_wallet("user", person.user.pk)
        give = partial(billing.allocate, source=source, to=wallet, amount=amount, by=self.administrator)
        self._try("allocate", None, give)

    def _administrate(self) -> None:
        """Now and then: take back, stop somebody's session, move somebody up, take a seat away and give it back."""
        self.world.after(self.chance.expovariate(1 / (4 * 3600)), self._administrate)
        person = self.chance.choice(self.everybody)
        self.chance.choice([self._reclaim, self._stop_one, self._move_up, self._unseat, self._deactivate])(person)

    def _reclaim(self, person: Person) -> None:
        source = billing.ensure_wallet("user", person.user.pk)
        to = billing.ensure_wallet("group", person.group)
        free = wallet_of(person.user.pk).available
        if free > cr(1):
            take = partial(billing.reclaim, source=source, to=to, amount=free // 2, by=self.administrator)
            self._try("reclaim", None, take)

    def _stop_one(self, person: Person) -> None:
        session = Session.objects.live().filter(owner=person.user).order_by("id").first()
        if session is not None:
            verb = self.chance.choice([name for name in session.allowed if name in ("stop", "pause")] or ["stop"])
            asked = Asked(session.pk, self.administrator, reason="the room is needed")
            self._try(f"{verb} by an administrator", None, lambda: VERBS[verb](asked))

    def _move_up(self, person: Person) -> None:
        session = Session.objects.filter(state=State.QUEUED).order_by("-id").first()
        if session is not None:
            asked = Asked(session.pk, self.administrator, reason="a deadline")
            self._try("set priority", None, lambda: set_priority(asked, 1))

    def _unseat(self, person: Person) -> None:
        seat = Membership.objects.filter(user=person.user, group=person.group).first()
        if seat is None or person.away:
            return
        person.away = True
        self._try("unseat", None, lambda: remove_membership(membership_id=seat.pk, by=self.administrator))
        self.world.after(self.chance.uniform(0.01, 30) * 3600, lambda: self._seat_again(person))

    def _seat_again(self, person: Person) -> None:
        person.away = False
        place = place_of(self.administrator, group_id=person.group)
        if Membership.objects.filter(user=person.user, group=person.group).exists():
            return
        seat = partial(add_membership, user_id=person.user.pk, place=place, role=Role.MEMBER, by=self.administrator)
        self._try("seat", None, seat)

    def _deactivate(self, person: Person) -> None:
        if person.away:
            return
        person.away = True
        self._try("deactivate", None, lambda: deactivate_user(user_id=person.user.pk, by=self.administrator))
        self.world.after(self.chance.uniform(0.01, 30) * 3600, lambda: self._reactivate(person))

    def _reactivate(self, person: Person) -> None:
        person.away = False
        if User.objects.filter(pk=person.user.pk, is_active=False).exists():
            self._try("reactivate", None, lambda: reactivate_user(user_id=person.user.pk, by=self.administrator))
