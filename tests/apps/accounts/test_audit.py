"""The trail: written with its act, sealed into one chain, unchangeable by the serving role."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import Error, connection, transaction

from accounts import audit
from accounts.models import AuditEntry, AuditSeal
from gshare_core.kit import clock
from tests.builders import LONG_AGO, a_group, a_user

pytestmark = pytest.mark.django_db


def entry(act: str = "thing.change", **fields):
    return audit.record(by=None, act=act, target_kind="thing", at=fields.pop("at", clock.now()), **fields)


def verified() -> str:
    out = StringIO()
    call_command("verify_audit", stdout=out)
    return out.getvalue()


def test_an_entry_carries_actor_labels_address_and_both_sides():
    group = a_group()
    user = a_user(group)
    with audit.acting_from("192.0.2.7"):
        made = audit.record(
            by=user,
            act="thing.change",
            target_kind="thing",
            target_id=7,
            group_id=group.pk,
            before={"a": 1},
            after={"a": 2},
            reason="why",
            at=LONG_AGO,
        )
    made.refresh_from_db()
    assert (made.actor_id, made.actor_label, made.address) == (user.pk, user.email, "192.0.2.7")
    assert (made.group_label, made.organisation_id) == (group.name, group.organisation_id)
    assert (made.before, made.after, made.reason) == ({"a": 1}, {"a": 2}, "why")
    assert entry().actor_label == "system"


@pytest.mark.parametrize("address", ["unix:", "", "999.1.1.1", None])
def test_what_is_no_address_is_left_out(address):
    with audit.acting_from(address):
        assert entry().address is None


def test_secrets_are_refused_wherever_they_stand():
    for side in ({"password": "x"}, {"nested": {"app_token": "x"}}, {"kubeconfig": "x"}):
        with pytest.raises(ValueError, match="does not belong"):
            entry(after=side)
    entry(after={"must_change_password": True})


def test_entries_are_sealed_in_one_chain_and_verify():
    made = [entry(after={"n": n}) for n in range(5)]
    assert audit.unsealed_count() == 5
    assert audit.seal_entries() == 5
    assert audit.seal_entries() == 0
    assert list(AuditSeal.objects.order_by("seq").values_list("seq", "entry_id")) == [
        (n + 1, row.pk) for n, row in enumerate(made)
    ]
    entry()
    found = audit.verify()
    assert (found.sealed, found.unsealed, found.late, found.faults) == (5, 1, 0, [])
    assert "5 sealed, 1 not sealed yet" in verified()


def test_batches_continue_the_chain(monkeypatch):
    monkeypatch.setattr(audit, "BATCH", 2)
    for n in range(5):
        entry(after={"n": n})
    assert audit.seal_entries() == 5
    assert audit.verify().is_sound


def test_an_entry_that_commits_much_later_is_found_by_the_thorough_pass():
    entry()
    audit.seal_entries()
    late = entry(at=clock.now() - timedelta(hours=3))
    assert audit.seal_entries() == 0
    assert audit.verify().late == 1
    with pytest.raises(CommandError):
        verified()
    assert audit.seal_stragglers() == 1
    assert late.seal.seq == 2
    assert "2 sealed" in verified()


@pytest.mark.parametrize("table", ["accounts_auditentry", "accounts_auditseal"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_the_serving_role_cannot_rewrite_history(table, statement):
    entry()
    audit.seal_entries()
    column = "act" if table.endswith("entry") else "hash"
    with pytest.raises(Error, match="permission denied"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table, column, column))


def test_a_seal_covers_every_column_of_an_entry():
    assert set(audit.SEALED_FIELDS) == {field.attname for field in AuditEntry._meta.concrete_fields}
