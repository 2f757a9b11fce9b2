"""The door of the ledger, and what the schema refuses to whoever goes round it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import IntegrityError, ProgrammingError, connection, transaction
from django.db.models import F

from billing import ledger
from billing import services as billing
from billing.ledger import Movement, Overdrawn
from billing.models import MINT_ID, REVENUE_ID, SYSTEM_ID, Account, BudgetAlert, Posting, Transfer, TransferKind
from gshare_core.errors import DomainError
from gshare_core.ids import uuid7
from gshare_core.kit import locks
from tests.apps.billing.stage import books_agree, ended, opened, running, t
from tests.builders import a_customer, cr

pytestmark = pytest.mark.django_db


def moves(debit: UUID, credit: UUID, amount: int, key: str = "one") -> Movement:
    return Movement(kind=TransferKind.ADJUST, debit=debit, credit=credit, amount=amount, key=key, at=t(0))


def move(movement: Movement) -> Transfer:
    with locks.ordered():
        return ledger.transfer(movement)


def check_now() -> None:
    """What happens at the commit, now."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


# The door ------------------------------------------------------------------------------------------------------------


def test_a_transfer_moves_credits_and_numbers_both_sides() -> None:
    alice, bob = a_customer(10), a_customer(1)
    done = move(moves(alice.wallet, bob.wallet, cr(4)))
    assert (done.debit_number, done.debit_balance) == (2, cr(6))
    assert (done.credit_number, done.credit_balance) == (2, cr(5))
    assert list(Account.objects.filter(pk__in=[alice.wallet]).values_list("balance", "entries")) == [(cr(6), 2)]
    check_now()


def test_the_same_key_moves_credits_once_and_answers_the_same_transfer() -> None:
    alice, bob = a_customer(10), a_customer()
    first = move(moves(alice.wallet, bob.wallet, cr(4)))
    assert move(moves(alice.wallet, bob.wallet, cr(4))) == first
    assert Account.objects.get(pk=alice.wallet).balance == cr(6)
    with pytest.raises(DomainError) as refused:
        move(moves(alice.wallet, bob.wallet, cr(5)))
    assert refused.value.code == "idempotency_mismatch"


def test_no_wallet_is_overdrawn_and_no_hold_is_spent_by_anothers_transfer() -> None:
    alice, bob = a_customer(20), a_customer()
    opened(alice)
    with pytest.raises(Overdrawn), transaction.atomic():
        move(moves(alice.wallet, bob.wallet, cr("7.500001")))
    move(moves(alice.wallet, bob.wallet, cr("7.5"), "two"))
    assert Account.objects.get(pk=alice.wallet).available == 0
    check_now()


@pytest.mark.parametrize("amount", [0, -1])
def test_a_transfer_moves_more_than_nothing(amount: int) -> None:
    with pytest.raises(ValueError):
        moves(MINT_ID, SYSTEM_ID, amount)


def test_a_transfer_needs_two_accounts() -> None:
    with pytest.raises(ValueError):
        moves(SYSTEM_ID, SYSTEM_ID, 1)


def test_the_door_refuses_to_write_outside_a_transaction_that_orders_its_locks() -> None:
    with pytest.raises(locks.LockOrderError):
        ledger.transfer(moves(MINT_ID, SYSTEM_ID, 1))


def test_mint_and_revenue_store_no_balance_and_are_no_hot_rows() -> None:
    alice = a_customer(100)
    ended(running(alice), at=30)
    stored = Account.objects.filter(pk__in=[MINT_ID, REVENUE_ID]).values_list("balance", "held", "entries")
    assert set(stored) == {(None, 0, 0)}


def test_the_running_balance_of_every_entry_is_kept_in_order() -> None:
    alice = a_customer(100)
    run = running(alice)
    ended(run, at=30)
    billing.adjust(wallet=alice.wallet, amount=-cr(3), reason="a mistake", by=None)
    rows = ledger.entries_of(alice.wallet).order_by("entry_number")
    assert [(row.kind, row.change, row.balance_after) for row in rows] == [
        ("allocate", cr(100), cr(100)),
        ("charge", -cr("6.25"), cr("93.75")),
        ("adjust", -cr(3), cr("90.75")),
    ]
    assert books_agree()


# Going round the door ------------------------------------------------------------------------------------------------


def test_a_balance_that_moves_without_a_transfer_fails_at_the_commit() -> None:
    alice = a_customer(10)
    Account.objects.filter(pk=alice.wallet).update(balance=F("balance") + 1)
    with pytest.raises(IntegrityError, match="its transfers say"):
        check_now()


def test_a_balance_that_moves_by_more_than_its_transfer_fails_even_beside_a_right_one() -> None:
    alice, bob = a_customer(10), a_customer()

    def cheat() -> None:
        with transaction.atomic():
            Account.objects.filter(pk=alice.wallet).update(balance=F("balance") + 5)
            move(moves(alice.wallet, bob.wallet, cr(4)))
            check_now()

    with pytest.raises(IntegrityError, match="its transfers say"):
        cheat()
    move(moves(alice.wallet, bob.wallet, cr(4)))
    check_now()


@pytest.mark.django_db(transaction=True)
def test_the_tripwire_undoes_the_whole_transaction() -> None:
    alice = a_customer(10)

    def forget_the_ledger() -> None:
        with locks.ordered():
            opened(alice, hold=cr(1))
            Account.objects.filter(pk=alice.wallet).update(balance=F("balance") + 1)

    with pytest.raises(IntegrityError, match="its transfers say"):
        forget_the_ledger()
    assert Account.objects.values_list("balance", "held").get(pk=alice.wallet) == (cr(10), 0)


def test_entries_that_are_counted_without_a_transfer_fail_too() -> None:
    alice = a_customer(10)
    Account.objects.filter(pk=alice.wallet).update(entries=F("entries") + 1)
    with pytest.raises(IntegrityError, match="its transfers say"):
        check_now()


def test_a_wallet_cannot_start_with_credits() -> None:
    alice = a_customer()
    Account.objects.filter(pk=alice.wallet).delete()
    with pytest.raises(IntegrityError, match="does not start empty"):
        Account.objects.create(kind="user", user=alice.user, balance=1)


def test_a_wallet_changed_under_the_doors_lock_is_noticed() -> None:
    alice, bob = a_customer(10), a_customer()

    def go_round() -> None:
        with locks.ordered(), transaction.atomic():
            purses = ledger.lock_purses([alice.wallet, bob.wallet])
            Account.objects.filter(pk=alice.wallet).update(entries=7)
            ledger.post([moves(alice.wallet, bob.wallet, 1)], purses)

    with pytest.raises(RuntimeError, match="round the door"):
        go_round()


@pytest.mark.parametrize(("balance", "held"), [(-1, 0), (cr(10), cr(10) + 1), (cr(10), -1)])
def test_held_lies_between_nothing_and_the_balance(balance: int, held: int) -> None:
    alice = a_customer(10)
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.filter(pk=alice.wallet).update(balance=balance, held=held)


@pytest.mark.parametrize("model", [Transfer, Posting, BudgetAlert])
@pytest.mark.parametrize("verb", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_what_was_written_cannot_be_changed_by_the_serving_role(model: Any, verb: str) -> None:
    ended(running(a_customer(100)), at=30)
    table = model._meta.db_table
    key = model._meta.pk.column
    with pytest.raises(ProgrammingError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(verb.format(table, key, key))


@pytest.mark.django_db(transaction=True)
def test_the_triggers_refuse_whoever_is_not_the_owner_even_with_the_right(
    owner_connection: psycopg.Connection, app_connect: Callable[[], psycopg.Connection]
) -> None:
    alice = a_customer(10)
    owner_connection.execute("GRANT UPDATE, DELETE ON billing_transfer TO gshare_app")
    try:
        for statement in ("UPDATE billing_transfer SET amount = amount + 1", "DELETE FROM billing_transfer"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="its rows are never changed"):
                app_connect().execute(statement)
    finally:
        owner_connection.execute("REVOKE UPDATE, DELETE ON billing_transfer FROM gshare_app")
    assert Account.objects.get(pk=alice.wallet).balance == cr(10)


def test_a_transfer_without_an_amount_between_the_same_account_or_unnumbered_is_refused_by_the_schema() -> None:
    alice = a_customer(10)
    base: dict[str, Any] = {"kind": "adjust", "at": t(0), "debit_id": MINT_ID, "credit_id": alice.wallet, "amount": 1}
    wrongs: tuple[dict[str, Any], ...] = (
        {"amount": 0},
        {"debit_id": alice.wallet},
        {"kind": "gift"},
        {"credit_number": 0, "credit_balance": 1},
    )
    for number, wrong in enumerate(wrongs):
        with pytest.raises(IntegrityError), transaction.atomic():
            Transfer.objects.create(key=f"wrong {number}", **base | wrong)


def test_a_charge_is_posted_once_for_a_stretch() -> None:
    alice = a_customer(100)
    run = running(alice)
    ended(run, at=30)
    known = Posting.objects.get(meter_id=run)
    other = Transfer.objects.get(kind="allocate", credit_id=alice.wallet)
    with pytest.raises(IntegrityError), transaction.atomic():
        Posting.objects.create(transfer=other, meter_id=run, billed_from=known.billed_from, billed_to=t(40))


def test_one_owner_has_one_wallet_and_there_is_one_mint() -> None:
    alice = a_customer()
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.create(kind="user", user=alice.user, balance=0)
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.create(kind="mint")
    with pytest.raises(IntegrityError), transaction.atomic():
        Account.objects.create(kind="group", user=a_customer().user, balance=0)
    assert billing.ensure_wallet("user", alice.user.pk) == alice.wallet


def test_a_key_of_its_own_belongs_to_every_charge() -> None:
    alice = a_customer(100)
    run = running(alice)
    ended(run, at=30)
    key = Transfer.objects.get(kind="charge").key
    assert key == f"charge/{run}/{t(0).isoformat()}"
    with pytest.raises(IntegrityError), transaction.atomic():
        Transfer.objects.create(
            key=key, kind="charge", at=t(0), debit_id=MINT_ID, credit_id=REVENUE_ID, amount=1, reference=uuid7()
        )
