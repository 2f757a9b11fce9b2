"""The accounts that exist once: mint, revenue, and the system's wallet, under ids that the code knows."""

from uuid import UUID

from django.db import migrations

ACCOUNTS = (
    (UUID("00000000-0000-7000-8000-000000000001"), "mint", None),
    (UUID("00000000-0000-7000-8000-000000000002"), "revenue", None),
    (UUID("00000000-0000-7000-8000-000000000003"), "system", 0),
)


def make(apps, schema_editor):
    account = apps.get_model("billing", "Account")
    rows = [account(id=key, kind=kind, balance=balance) for key, kind, balance in ACCOUNTS]
    account.objects.using(schema_editor.connection.alias).bulk_create(rows, ignore_conflicts=True)


class Migration(migrations.Migration):
    dependencies = [("billing", "0001_ledger_meters_budgets")]

    operations = [migrations.RunPython(make, migrations.RunPython.noop)]
