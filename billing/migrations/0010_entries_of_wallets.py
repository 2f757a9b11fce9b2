"""Each wallet's side of a transfer as rows of a view, which both indexes on wallet and number answer in order."""

from django.db import migrations, models

import gshare_core.kit.fields

CREATE = """
CREATE VIEW billing_entry WITH (security_invoker = true) AS
    SELECT id, debit_id AS wallet_id, debit_number AS entry_number, debit_balance AS balance_after, -amount AS change,
        at, kind, debit_id, credit_id, amount, reference, label, note, actor_id, key, id AS posting_id
    FROM billing_transfer WHERE debit_number IS NOT NULL
    UNION ALL
    SELECT id, credit_id, credit_number, credit_balance, amount,
        at, kind, debit_id, credit_id, amount, reference, label, note, actor_id, key, id
    FROM billing_transfer WHERE credit_number IS NOT NULL
"""
DROP = "DROP VIEW billing_entry"


class Migration(migrations.Migration):
    dependencies = [("billing", "0009_trial_balances_are_insert_only")]

    operations = [
        migrations.CreateModel(
            name="Entry",
            fields=[
                ("id", models.UUIDField(primary_key=True, serialize=False)),
                ("entry_number", models.BigIntegerField()),
                ("balance_after", gshare_core.kit.fields.MicroField()),
                ("change", gshare_core.kit.fields.MicroField()),
                ("at", models.DateTimeField(verbose_name="at")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("issue", "issue"),
                            ("allocate", "allocate"),
                            ("reclaim", "reclaim"),
                            ("charge", "charge"),
                            ("grant", "grant"),
                            ("adjust", "adjust"),
                        ],
                        max_length=8,
                        verbose_name="kind",
                    ),
                ),
                ("amount", gshare_core.kit.fields.MicroField(verbose_name="amount")),
                ("reference", models.UUIDField(null=True, verbose_name="reference")),
                ("label", models.CharField(blank=True, max_length=120, verbose_name="label")),
                ("note", models.CharField(blank=True, max_length=500, verbose_name="note")),
                ("key", models.CharField(max_length=200, verbose_name="key")),
            ],
            options={
                "verbose_name": "entry",
                "verbose_name_plural": "entries",
                "db_table": "billing_entry",
                "managed": False,
            },
        ),
        migrations.RunSQL(CREATE, DROP),
    ]
