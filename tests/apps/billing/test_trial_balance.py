"""The trial balance finds what does not agree, whatever it is, and says so with exit code 1."""

from __future__ import annotations

import io

import psycopg
import pytest
from django.core.management import CommandError, call_command

from billing import services as billing
from billing.domain.budgets import Rule
from billing.trial import Totals, differences, totals
from tests.apps.billing.stage import HOLD, ended, opened, running, tick
from tests.builders import a_customer, cr

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def books() -> None:
    """A wallet with a settled run, a running one that was topped up, a waiting one, and a budget."""
    alice = a_customer(100)
    scope = billing.BudgetScope("user", alice.user.pk)
    billing.create_budget(scope=scope, limit=cr(1000), mode="block", rule=Rule("UTC"), by=None)
    ended(running(alice), at=12)
    run = running(alice, at=20)
    tick(20 + 48, run)
    opened(alice, at=70)


def test_books_that_agree_say_so_to_the_micro_credit(books: None) -> None:
    assert differences() == []
    out = io.StringIO()
    call_command("trial_balance", stdout=out)
    assert "agree to the micro-credit" in out.getvalue()
    assert totals() == Totals(issued=cr(100), earned=cr("12.5"), in_wallets=cr("87.5"), held=2 * HOLD, transfers=6)


WRONG = {
    "balance of wallet": "UPDATE billing_account SET balance = balance + 1 WHERE kind = 'user'",
    "entries of wallet": "UPDATE billing_account SET entries = entries + 1 WHERE kind = 'user'",
    "running balance of entry": "UPDATE billing_transfer SET debit_balance = debit_balance + 1 WHERE kind = 'charge'",
    "held of wallet": "UPDATE billing_account SET held = held - 1 WHERE kind = 'user'",
    "net allocated": "UPDATE billing_allocation SET net = net + 1",
    "charged by meter": "UPDATE billing_meter SET charged = charged + 1 WHERE charged > 0",
    "charge of meter by the formula": "UPDATE billing_transfer SET amount = amount + 1 WHERE kind = 'charge'",
    "charges without a posting": "DELETE FROM billing_posting",
    "closed microseconds of meter": "UPDATE billing_meter SET closed_us = closed_us + 1 WHERE closed_us > 0",
    "postings that overlap": "UPDATE billing_posting SET billed_to = billed_to + interval '1 day'",
    "held on budget": "UPDATE billing_budget SET held = held + 1",
    "spent in period of budget": "UPDATE billing_budgetperiod SET spent = spent + 1",
    "issued": "UPDATE billing_transfer SET amount = amount + 1 WHERE kind = 'issue'",
}


@pytest.mark.parametrize("what", WRONG)
def test_every_kind_of_difference_is_found(what: str, books: None, owner_connection: psycopg.Connection) -> None:
    with owner_connection.transaction():
        owner_connection.execute("ALTER TABLE billing_account DISABLE TRIGGER tripwire")
        owner_connection.execute(WRONG[what])
        owner_connection.execute("ALTER TABLE billing_account ENABLE TRIGGER tripwire")
    if what == "charge of meter by the formula":
        owner_connection.execute("UPDATE billing_meter SET charged = charged + 1 WHERE charged > 0")
    if what == "postings that overlap":
        owner_connection.execute(
            "INSERT INTO billing_posting (transfer_id, meter_id, billed_from, billed_to)"
            " SELECT (SELECT id FROM billing_transfer WHERE kind = 'issue'), meter_id, billed_from + interval '1 second',"
            " billed_to FROM billing_posting LIMIT 1"
        )
    assert what in {difference.what for difference in differences()}
    err = io.StringIO()
    with pytest.raises(CommandError, match="do not agree"):
        call_command("trial_balance", stderr=err)
    assert what in err.getvalue()
