"""Admission under real concurrency: signed-in people, real connections, two web processes, one database.

Whoever asks at the same instant never gets the same credit, card, slot, limit or membership twice.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from threading import Event
from typing import Any

import pytest

from accounts.models import DrainIntent, Membership
from accounts.services import remove_membership
from billing.models import Account, Transfer
from cluster.models import Card
from gshare_core.kit.clock import DatabaseClock
from sessions_app import draining
from sessions_app.models import Session
from tests.apps.sessions.world import World, a_world, limit
from tests.builders import Customer, a_customer, a_user, cr, fund_group
from tests.concurrency.front import Call, TwoWebs, a_create, outcomes, rush
from tests.concurrency.reporting import report
from tests.concurrency.rivals import together
from tests.recount import everything_agrees

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]
RIVALS = 8
HOLD = cr("12.5")  # a quarter of a card at 50 credits an hour, for an hour


def a_place(**fields: Any) -> World:
    """A world on the database's clock, which all processes share."""
    return a_world(DatabaseClock(), **fields)  # type: ignore[arg-type]  # -- both tell the time


def members(world: World, number: int, funds: int = 100) -> list[Customer]:
    """People of alice's group, each with credits."""
    return [a_customer(funds, group=world.alice.group) for _number in range(number)]


def test_credit_for_seven_of_twenty_creates_admits_exactly_seven(webs: TwoWebs) -> None:
    world = a_place(cards=8, funds="99.999999")  # seven holds, nearly eight
    alice = world.alice
    limit("user", "max_sessions", 100, target=alice.user)
    answers = rush(webs, [a_create(world, alice.user, alice.group.pk) for _number in range(20)])
    assert outcomes(answers) == {"placed": 7, "insufficient_credit": 13}
    refused = next(answer for answer in answers if answer.status >= 400)
    assert (refused.status, refused.body["gate"]) == (402, 6)
    assert refused.body["remedy"]
    wallet = Account.objects.get(pk=alice.wallet)
    assert (wallet.balance, wallet.held) == (cr("99.999999"), 7 * HOLD)
    assert Session.objects.count() == 7
    assert everything_agrees()


def test_the_last_quarter_of_a_card_goes_to_one_and_the_others_queue(webs: TwoWebs) -> None:
    world = a_place()
    for _number in range(3):
        world.create("L")
    calls = [a_create(world, person.user, person.group.pk) for person in members(world, RIVALS)]
    assert outcomes(rush(webs, calls)) == {"placed": 1, "queued": RIVALS - 1}
    card = Card.objects.get()
    assert card.used_milli == card.core_milli
    assert everything_agrees()


def test_the_last_slot_of_a_card_goes_to_one_and_the_others_queue(webs: TwoWebs) -> None:
    world = a_place(slots=4)
    for _number in range(3):
        world.create("S")
    calls = [a_create(world, person.user, person.group.pk, "S") for person in members(world, RIVALS)]
    assert outcomes(rush(webs, calls)) == {"placed": 1, "queued": RIVALS - 1}
    assert Card.objects.get().used_slots == 4
    assert everything_agrees()


def test_max_sessions_holds_however_many_ask_at_once(webs: TwoWebs) -> None:
    world = a_place(cards=8)
    alice = world.alice
    limit("user", "max_sessions", 3, target=alice.user)
    answers = rush(webs, [a_create(world, alice.user, alice.group.pk) for _number in range(RIVALS)])
    assert outcomes(answers) == {"placed": 3, "quota_exceeded": RIVALS - 3}
    refused = next(answer.body for answer in answers if answer.status >= 400)
    assert (refused["gate"], refused["facts"]["field"], refused["facts"]["limit"]) == (4, "max_sessions", 3)
    assert everything_agrees()


def test_a_total_of_the_group_binds_different_people_at_once(webs: TwoWebs) -> None:
    world = a_place(cards=8)
    limit("group", "max_sessions", 5, kind="total", target=world.alice.group)
    calls = [a_create(world, person.user, person.group.pk, "cpu") for person in members(world, RIVALS)]
    assert outcomes(rush(webs, calls)) == {"placed": 5, "quota_exceeded": RIVALS - 5}
    assert everything_agrees()


def test_the_same_key_gives_one_session_and_all_get_the_same_answer(webs: TwoWebs) -> None:
    world = a_place(cards=8)
    alice = world.alice
    answers = rush(webs, [a_create(world, alice.user, alice.group.pk, key="once")] * RIVALS)
    assert outcomes(answers) == {"placed": RIVALS}
    assert all(answer == answers[0] for answer in answers)
    assert Session.objects.count() == 1
    assert Account.objects.get(pk=alice.wallet).held == HOLD
    assert everything_agrees()


def test_two_allocations_of_the_last_credit_move_it_once(webs: TwoWebs) -> None:
    alice = a_customer()
    admin = a_user(alice.group, "group_admin")
    source = fund_group(alice.group, 1)
    body = {"to": str(alice.wallet), "amount": "1.000000", "note": ""}
    calls = [Call(admin, "POST", f"/api/v1/wallets/{source}/allocate", body) for _number in range(RIVALS)]
    found = outcomes(rush(webs, calls))
    assert found["insufficient_pool"] == RIVALS - 1, found
    assert Account.objects.get(pk=alice.wallet).balance == cr(1)
    assert Account.objects.get(pk=source).balance == 0
    assert Transfer.objects.filter(kind="allocate", credit=alice.wallet).count() == 1
    assert everything_agrees()


def test_a_membership_removed_during_creates_leaves_no_live_session(webs: TwoWebs, gshare: Any) -> None:
    world = a_place(cards=8)
    leaver = a_customer(1_000, group=world.alice.group)
    limit("user", "max_sessions", 100, target=leaver.user)
    seat = Membership.objects.get(user=leaver.user, group=leaver.group)
    sent = Event()

    def ask() -> list[Any]:
        calls = [a_create(world, leaver.user, leaver.group.pk, "S") for _number in range(2 * RIVALS)]
        sent.set()
        return rush(webs, calls)

    def remove() -> None:
        sent.wait(60)
        remove_membership(membership_id=seat.pk, by=None)

    answers, _none = together(ask, remove)
    found = outcomes(answers)
    assert set(found) <= {"placed", "queued", "forbidden", "not_found"}, found
    gshare(intent_settle=timedelta(0))
    mine = Session.objects.filter(owner=leaver.user)
    for _pass in range(3):
        draining.drain()
        for session in mine.filter(state="stopping"):
            report(session, "gone", "stopped")
    assert not mine.live().exists()
    assert not DrainIntent.objects.filter(closed_at=None).exists()
    assert set(mine.values_list("reason", flat=True)) <= {"access_revoked"}
    late = rush(webs, [a_create(world, leaver.user, leaver.group.pk, "S") for _number in range(2)])
    assert set(outcomes(late)) <= {"forbidden", "not_found"}
    assert Account.objects.get(pk=leaver.wallet).held == 0
    assert everything_agrees()


def test_a_session_is_stopped_once_however_many_ask(webs: TwoWebs) -> None:
    world = a_place()
    session = world.create("L")
    path = f"/api/v1/sessions/{session.pk}/stop"
    answers = rush(webs, [Call(world.alice.user, "POST", path, {}) for _number in range(RIVALS)])
    assert {answer.status for answer in answers} == {202}
    session.refresh_from_db()
    assert session.timeline.filter(to_state="stopping", from_state="starting").count() == 1
    together(*[partial(report, session, "gone", "stopped")] * RIVALS)
    assert session.timeline.filter(to_state="stopped").count() == 1
    assert Card.objects.get().used_slots == 0
    assert everything_agrees()
