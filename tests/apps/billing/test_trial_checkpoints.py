"""A trial balance goes on from what the last one verified, reads only what came after, and is as exact as one of everything."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from django.db import DatabaseError, transaction

from billing import services as billing
from billing import trial
from billing.domain.budgets import Rule
from billing.models import Checkpoint, Meter, VerifiedMeter, VerifiedWallet
from gshare_core.clock import ManualClock
from gshare_core.kit import clock
from tests.apps.billing.stage import T0, at_time, ended, opened, running, t, tick
from tests.apps.billing.test_trial_balance import WRONG
from tests.builders import Customer, a_customer, a_group, cr, fund_group
from tests.dying import every_way_to_die

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def alice() -> Customer:
    """Somebody with a settled run, a running one, a budget; all of it verified."""
    alice = a_customer(200)
    scope = billing.BudgetScope("user", alice.user.pk)
    billing.create_budget(scope=scope, limit=cr(1000), mode="block", rule=Rule("UTC"), by=None)
    ended(running(alice), at=12)
    run = running(alice, at=20)
    tick(20 + 40, run)
    assert trial.check().is_full
    return alice


def more(alice: Customer) -> None:
    """What comes after: charges of the verified meter, a new run that ends, one that waits, credits given and taken back."""
    run = Meter.objects.open().order_by("opened_at").values_list("pk", flat=True)[0]
    tick(20 + 80, run)
    tick(20 + 120, run)
    ended(running(alice, at=200), at=240)
    opened(alice, at=250)
    group = fund_group(alice.group, 20)
    billing.allocate(source=group, to=alice.wallet, amount=cr(7), by=None)
    billing.reclaim(source=alice.wallet, to=group, amount=cr(2), by=None)


def test_only_what_came_after_is_read_and_everything_is_known(alice: Customer) -> None:
    first = Checkpoint.objects.get()
    assert trial.check().read == 0
    more(alice)
    found = trial.check()
    assert (found.is_full, found.differences, found.found) == (False, 0, [])
    assert 0 < found.read < 2 * found.transfers
    assert found.transfers > first.transfers
    assert (found.issued, found.earned, found.transfers) == (
        trial.totals().issued,
        trial.totals().earned,
        trial.totals().transfers,
    )
    assert trial.check(full=True).differences == 0
    assert trial.check().read == 0


@pytest.mark.parametrize("what", WRONG)
def test_every_kind_of_difference_is_found_in_what_came_after(
    what: str, alice: Customer, owner_connection: psycopg.Connection
) -> None:
    more(alice)
    with owner_connection.transaction():
        owner_connection.execute("ALTER TABLE billing_account DISABLE TRIGGER tripwire")
        owner_connection.execute(WRONG[what])
        owner_connection.execute("ALTER TABLE billing_account ENABLE TRIGGER tripwire")
    if what == "charge of meter by the formula":
        owner_connection.execute("UPDATE billing_meter SET charged = charged + 1 WHERE charged > 0")
    verified = sorted(VerifiedWallet.objects.values_list())
    found = trial.check()
    assert not found.is_full
    assert what in {row[0] for row in found.found}
    assert sorted(VerifiedWallet.objects.values_list()) == verified  # nothing new is called verified
    assert trial.check().differences > 0  # and it does not go away by looking again


def test_what_was_verified_is_judged_anew_by_the_full_check_only(
    alice: Customer, owner_connection: psycopg.Connection
) -> None:
    owner_connection.execute(WRONG["running balance of entry"])
    assert trial.check().agrees
    found = trial.check(full=True)
    assert "running balance of entry" in {row[0] for row in found.found}


def test_a_wrongly_kept_checkpoint_is_told_once_and_put_right_by_the_full_check(alice: Customer) -> None:
    VerifiedWallet.objects.filter(pk=alice.wallet).update(balance=1)
    assert "balance of wallet" in {row[0] for row in trial.check().found}
    assert [row[0] for row in trial.check(full=True).found] == ["checkpoint of wallet"]
    assert trial.check().agrees
    assert trial.check(full=True).agrees


def test_an_entry_beside_a_wallets_count_is_found(alice: Customer, owner_connection: psycopg.Connection) -> None:
    owner_connection.execute(
        "INSERT INTO billing_transfer (id, at, kind, debit_id, credit_id, amount, credit_number, credit_balance, label, note, key)"
        " SELECT gen_random_uuid(), at, 'adjust', (SELECT id FROM billing_account WHERE kind = 'mint'), %s, 1, 4000, 4000, '', '',"
        " 'beside' FROM billing_transfer LIMIT 1",
        [alice.wallet],
    )
    assert {"balance of wallet", "entries of wallet"} <= {row[0] for row in trial.check().found}


@pytest.mark.parametrize("number", ["NULL, NULL", "1, 1"])
def test_a_transfer_that_a_wallet_does_not_number_or_that_mint_numbers_cannot_be_written(
    number: str, alice: Customer, owner_connection: psycopg.Connection
) -> None:
    ends = "(SELECT id FROM billing_account WHERE kind = 'mint'), %s" if number == "NULL, NULL" else "%s, id"
    with pytest.raises(psycopg.errors.CheckViolation, match="transfer_numbered_by_its_wallets"):
        owner_connection.execute(
            "INSERT INTO billing_transfer (id, at, kind, debit_id, credit_id, amount, credit_number, credit_balance, label, note,"
            f" key) SELECT gen_random_uuid(), now(), 'adjust', {ends}, 1, {number}, '', '', 'x'"
            " FROM billing_account WHERE kind = 'revenue'",
            [alice.wallet],
        )


def test_a_period_and_a_wallet_that_are_new_to_the_check_are_computed_from_all_of_theirs(alice: Customer) -> None:
    ended(running(alice, at=300), at=310)
    trial.check()
    scope = billing.BudgetScope("group", alice.group.pk)
    with at_time(400):
        billing.create_budget(scope=scope, limit=cr(1000), mode="warn", rule=Rule("UTC"), by=None)
    bob = a_customer(50, group=alice.group)
    ended(running(bob, at=401), at=410)
    found = trial.check()
    assert (found.differences, found.found) == (0, [])


def test_meters_that_are_settled_are_kept_no_longer(alice: Customer) -> None:
    assert VerifiedMeter.objects.count() == 1
    run = Meter.objects.open().values_list("pk", flat=True)[0]
    ended(run, at=90)
    assert trial.check().agrees
    assert not VerifiedMeter.objects.exists()


def test_a_check_that_dies_anywhere_leaves_what_was_verified_whole(alice: Customer) -> None:
    more(alice)
    verified = sorted(VerifiedWallet.objects.values_list())
    checks = Checkpoint.objects.count()
    deaths = 0

    def check() -> None:
        nonlocal deaths
        if Checkpoint.objects.count() == checks:
            deaths += 1
            assert sorted(VerifiedWallet.objects.values_list()) == verified
        else:
            assert sorted(VerifiedWallet.objects.values_list()) != verified

    assert every_way_to_die(trial.check, check) == deaths > len(trial.KEEP)
    assert trial.check().read == 0
    assert trial.check(full=True).agrees


def test_what_a_check_found_cannot_be_changed_by_the_serving_role(alice: Customer) -> None:
    for act in (lambda: Checkpoint.objects.update(differences=0), lambda: Checkpoint.objects.all().delete()):
        with pytest.raises(DatabaseError), transaction.atomic():
            act()


def test_the_tick_reads_everything_seldom(alice: Customer, settings: object) -> None:
    group = fund_group(a_group(), 5)
    assert group
    manual = ManualClock(t(0))
    with clock.using(manual):
        Checkpoint.objects.create(number=2, at=T0, is_full=True, differences=0, issued=0, earned=0, transfers=0, read=0)
    with clock.using(ManualClock(T0 + timedelta(days=6))):
        trial.check(full=True)
        assert trial.watch() == 0
    with clock.using(ManualClock(T0 + timedelta(days=14))):
        assert trial.watch() > 0
        assert Checkpoint.objects.order_by("-number").first().is_full  # type: ignore[union-attr]
