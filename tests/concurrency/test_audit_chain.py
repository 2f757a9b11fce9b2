"""Trap 52: the audit trail is one unforked chain under concurrent writers and sealers, and no act waits for it."""

from __future__ import annotations

import threading

import pytest
from django.core.management import CommandError, call_command
from psycopg import sql

from accounts import audit, services
from accounts.models import AuditEntry, AuditSeal
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, lock_name, ordered
from tests.builders import an_organisation
from tests.concurrency.rivals import Held, together

pytestmark = pytest.mark.django_db(transaction=True)
WRITERS, ENTRIES = 6, 25


def write(count: int = ENTRIES) -> None:
    for n in range(count):
        audit.record(by=None, act="thing.change", target_kind="thing", after={"n": n}, at=clock.now())


def test_trap_52_many_writers_and_three_sealers_make_one_unforked_chain():
    done = threading.Event()

    def seal() -> int:
        total = 0
        while not done.is_set():
            total += audit.seal_entries()
        return total + audit.seal_entries()

    def write_all() -> None:
        together(*[write] * WRITERS)
        done.set()

    results = together(write_all, seal, seal, seal)
    audit.seal_entries()
    assert not [result for result in results if isinstance(result, Exception)]
    seqs = list(AuditSeal.objects.order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, WRITERS * ENTRIES + 1))
    found = audit.verify()
    assert (found.sealed, found.unsealed, found.faults) == (WRITERS * ENTRIES, 0, [])


def test_an_act_does_not_wait_for_a_sealer_that_takes_long():
    def seal(pause):
        with ordered():
            lock_name(Rank.AUDIT, "audit-seal")
            audit.seal_entries()
            pause()

    write(3)
    sealing = Held(seal)
    organisation = an_organisation()
    made = services.create_group(organisation_id=organisation.pk, name="lab", by=None)
    assert AuditEntry.objects.get(act="group.create").target_id == str(made.pk)
    sealing.release()
    assert audit.unsealed_count() == 1


def test_an_entry_that_commits_after_a_later_one_was_sealed_joins_the_chain():
    def late(pause):
        with ordered():
            write(1)
            pause()

    writing = Held(late)
    write(2)
    assert audit.seal_entries() == 2
    writing.release()
    assert audit.seal_entries() == 1
    assert audit.verify().is_sound


@pytest.mark.parametrize(
    "tampering",
    [
        "UPDATE accounts_auditentry SET act = 'nothing' WHERE id = (SELECT entry_id FROM accounts_auditseal WHERE seq = 2)",
        "UPDATE accounts_auditentry SET after = '{\"n\": 99}' WHERE id = (SELECT entry_id FROM accounts_auditseal WHERE seq = 2)",
        "UPDATE accounts_auditseal SET hash = repeat('0', 64) WHERE seq = 3",
        "DELETE FROM accounts_auditseal WHERE seq = 1",
        "UPDATE accounts_auditentry SET at = at + interval '1 microsecond' WHERE id = (SELECT entry_id FROM accounts_auditseal WHERE seq = 4)",
    ],
)
def test_verify_audit_exits_with_a_fault_after_any_tampering_by_the_owner(owner_connection, tampering):
    write(4)
    audit.seal_entries()
    call_command("verify_audit")
    owner_connection.execute(sql.SQL(tampering))
    with pytest.raises(CommandError) as fault:
        call_command("verify_audit")
    assert fault.value.returncode == 1


def test_a_cut_off_end_is_found_by_a_head_that_was_noted(owner_connection):
    write(3)
    audit.seal_entries()
    head = audit.verify().head
    call_command("verify_audit", head=head)
    owner_connection.execute(
        "WITH gone AS (DELETE FROM accounts_auditseal WHERE seq = 3 RETURNING entry_id) SELECT entry_id FROM gone"
    )
    owner_connection.execute(
        "DELETE FROM accounts_auditentry WHERE id NOT IN (SELECT entry_id FROM accounts_auditseal)"
    )
    call_command("verify_audit")
    with pytest.raises(CommandError, match="cut off"):
        call_command("verify_audit", head=head)


@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}"])
@pytest.mark.parametrize(("table", "column"), [("accounts_auditentry", "act"), ("accounts_auditseal", "hash")])
def test_the_trigger_refuses_a_rewrite_even_by_a_role_that_was_granted_it(
    owner_connection, app_connect, table, column, statement
):
    write(1)
    audit.seal_entries()
    owner_connection.execute(f"GRANT UPDATE, DELETE ON {table} TO gshare_app")
    try:
        with pytest.raises(Exception, match="its rows are never changed"):
            app_connect().execute(statement.format(table, column, column))
    finally:
        owner_connection.execute(f"REVOKE UPDATE, DELETE ON {table} FROM gshare_app")
