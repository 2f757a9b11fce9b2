"""Monthly grants, and what became of them each month; the latter is history that nobody changes."""

import django.db.models.deletion
import django.db.models.expressions
from django.db import migrations, models

import gshare_core.ids
import gshare_core.kit.fields

TRIGGERS = """
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON billing_grantrefill
    FOR EACH ROW EXECUTE FUNCTION gshare_refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON billing_grantrefill
    FOR EACH STATEMENT EXECUTE FUNCTION gshare_refuse_change();
"""
NO_TRIGGERS = """
DROP TRIGGER refuse_change ON billing_grantrefill;
DROP TRIGGER refuse_truncate ON billing_grantrefill;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0004_tripwire"),
    ]

    operations = [
        migrations.CreateModel(
            name="GrantRefill",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("month", models.DateField(verbose_name="month")),
                ("amount", gshare_core.kit.fields.MicroField(verbose_name="grant")),
                ("moved", gshare_core.kit.fields.MicroField(verbose_name="moved")),
                ("shortfall", gshare_core.kit.fields.MicroField(verbose_name="shortfall")),
                ("at", models.DateTimeField(verbose_name="at")),
                (
                    "parent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="refills_given",
                        to="billing.account",
                        verbose_name="parent",
                    ),
                ),
                (
                    "transfer",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="billing.transfer",
                        verbose_name="transfer",
                    ),
                ),
                (
                    "wallet",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="refills",
                        to="billing.account",
                        verbose_name="wallet",
                    ),
                ),
            ],
            options={
                "verbose_name": "grant refill",
                "verbose_name_plural": "grant refills",
                "indexes": [models.Index(fields=["parent", "month"], name="refill_of_parent")],
                "constraints": [
                    models.UniqueConstraint(fields=("wallet", "parent", "month"), name="refill_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "amount__gte",
                                django.db.models.expressions.CombinedExpression(
                                    models.F("moved"), "+", models.F("shortfall")
                                ),
                            ),
                            ("moved__gte", 0),
                            ("shortfall__gte", 0),
                        ),
                        name="refill_within_grant",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("moved", 0), ("transfer", None)),
                            models.Q(("moved__gt", 0), ("transfer__isnull", False)),
                            _connector="OR",
                        ),
                        name="refill_moved_by_transfer",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MonthlyGrant",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("amount", gshare_core.kit.fields.MicroField(verbose_name="amount")),
                ("since", models.DateField(verbose_name="first month")),
                (
                    "parent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants_given",
                        to="billing.account",
                        verbose_name="parent",
                    ),
                ),
                (
                    "wallet",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="billing.account",
                        verbose_name="wallet",
                    ),
                ),
            ],
            options={
                "verbose_name": "monthly grant",
                "verbose_name_plural": "monthly grants",
                "constraints": [
                    models.UniqueConstraint(fields=("wallet", "parent"), name="grant_once"),
                    models.CheckConstraint(condition=models.Q(("amount__gt", 0)), name="grant_positive"),
                    models.CheckConstraint(
                        condition=models.Q(("wallet", models.F("parent")), _negated=True), name="grant_between_two"
                    ),
                    models.CheckConstraint(condition=models.Q(("since__day", 1)), name="grant_since_first_of_month"),
                ],
            },
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
