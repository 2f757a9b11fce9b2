"""Trial balances, how far each figure was verified, and transfers that every wallet they move numbers."""

import uuid

from django.conf import settings
from django.db import migrations, models

import gshare_core.ids
import gshare_core.kit.fields


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0007_low_balance"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="number")),
                ("at", models.DateTimeField(verbose_name="at")),
                ("is_full", models.BooleanField(verbose_name="everything was read")),
                ("differences", models.PositiveIntegerField(verbose_name="differences")),
                (
                    "found",
                    models.JSONField(
                        default=list,
                        help_text="What, of which row, stored, computed.",
                        verbose_name="first differences",
                    ),
                ),
                ("issued", gshare_core.kit.fields.MicroField(verbose_name="issued")),
                ("earned", gshare_core.kit.fields.MicroField(verbose_name="earned")),
                ("transfers", models.BigIntegerField(verbose_name="transfers")),
                ("read", models.BigIntegerField(verbose_name="entries read")),
            ],
            options={
                "verbose_name": "trial balance",
                "verbose_name_plural": "trial balances",
            },
        ),
        migrations.CreateModel(
            name="VerifiedAllocation",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("wallet_id", models.UUIDField(verbose_name="wallet")),
                ("parent_id", models.UUIDField(verbose_name="parent")),
                ("net", gshare_core.kit.fields.MicroField(verbose_name="net")),
            ],
            options={
                "verbose_name": "verified allocation",
                "verbose_name_plural": "verified allocations",
            },
        ),
        migrations.CreateModel(
            name="VerifiedMeter",
            fields=[
                ("run_id", models.UUIDField(primary_key=True, serialize=False, verbose_name="run")),
                ("charged", gshare_core.kit.fields.MicroField(verbose_name="charged")),
            ],
            options={
                "verbose_name": "verified meter",
                "verbose_name_plural": "verified meters",
            },
        ),
        migrations.CreateModel(
            name="VerifiedPeriod",
            fields=[
                ("period_id", models.UUIDField(primary_key=True, serialize=False, verbose_name="period")),
                ("spent", gshare_core.kit.fields.MicroField(verbose_name="spent")),
            ],
            options={
                "verbose_name": "verified period",
                "verbose_name_plural": "verified periods",
            },
        ),
        migrations.CreateModel(
            name="VerifiedWallet",
            fields=[
                ("wallet_id", models.UUIDField(primary_key=True, serialize=False, verbose_name="wallet")),
                ("entries", models.BigIntegerField(verbose_name="entries")),
                ("balance", gshare_core.kit.fields.MicroField(verbose_name="balance")),
            ],
            options={
                "verbose_name": "verified wallet",
                "verbose_name_plural": "verified wallets",
            },
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        models.Q(
                            (
                                "debit__in",
                                [
                                    uuid.UUID("00000000-0000-7000-8000-000000000001"),
                                    uuid.UUID("00000000-0000-7000-8000-000000000002"),
                                ],
                            ),
                            ("debit_number", None),
                        ),
                        models.Q(
                            models.Q(
                                (
                                    "debit__in",
                                    [
                                        uuid.UUID("00000000-0000-7000-8000-000000000001"),
                                        uuid.UUID("00000000-0000-7000-8000-000000000002"),
                                    ],
                                ),
                                _negated=True,
                            ),
                            ("debit_number__isnull", False),
                        ),
                        _connector="OR",
                    ),
                    models.Q(
                        models.Q(
                            (
                                "credit__in",
                                [
                                    uuid.UUID("00000000-0000-7000-8000-000000000001"),
                                    uuid.UUID("00000000-0000-7000-8000-000000000002"),
                                ],
                            ),
                            ("credit_number", None),
                        ),
                        models.Q(
                            models.Q(
                                (
                                    "credit__in",
                                    [
                                        uuid.UUID("00000000-0000-7000-8000-000000000001"),
                                        uuid.UUID("00000000-0000-7000-8000-000000000002"),
                                    ],
                                ),
                                _negated=True,
                            ),
                            ("credit_number__isnull", False),
                        ),
                        _connector="OR",
                    ),
                    models.Q(("debit_number__isnull", False), ("credit_number__isnull", False), _connector="OR"),
                ),
                name="transfer_numbered_by_its_wallets",
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("differences", 0)), fields=["number"], name="checkpoint_that_agreed"
            ),
        ),
        migrations.AddIndex(
            model_name="checkpoint",
            index=models.Index(
                condition=models.Q(("is_full", True)), fields=["number"], name="checkpoint_of_everything"
            ),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("number__gte", 1), ("read__gte", 0), ("transfers__gte", 0)),
                name="checkpoint_counts_up",
            ),
        ),
    ]
