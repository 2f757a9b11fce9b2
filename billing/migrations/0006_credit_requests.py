"""Requests for credits."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import gshare_core.ids
import gshare_core.kit.fields


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0005_monthly_grants"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CreditRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("amount", gshare_core.kit.fields.MicroField(verbose_name="amount")),
                ("reason", models.CharField(max_length=500, verbose_name="reason")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "open"),
                            ("approved", "approved"),
                            ("rejected", "rejected"),
                            ("withdrawn", "withdrawn"),
                        ],
                        default="open",
                        max_length=9,
                        verbose_name="state",
                    ),
                ),
                ("asked_at", models.DateTimeField(verbose_name="asked")),
                ("decided_at", models.DateTimeField(null=True, verbose_name="decided")),
                ("decision", models.CharField(blank=True, max_length=500, verbose_name="decision")),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="asked by",
                    ),
                ),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="decided by",
                    ),
                ),
                (
                    "forwards",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="forwarded",
                        to="billing.creditrequest",
                        verbose_name="forwards",
                    ),
                ),
                (
                    "parent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="requests_received",
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
                        related_name="requests",
                        to="billing.account",
                        verbose_name="wallet",
                    ),
                ),
            ],
            options={
                "verbose_name": "credit request",
                "verbose_name_plural": "credit requests",
                "indexes": [
                    models.Index(condition=models.Q(("state", "open")), fields=["parent", "id"], name="request_inbox")
                ],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("amount__gt", 0)), name="request_positive"),
                    models.CheckConstraint(
                        condition=models.Q(("wallet", models.F("parent")), _negated=True), name="request_between_two"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decided_at", None), ("state", "open"), ("transfer", None)),
                            models.Q(("decided_at__isnull", False), ("state", "approved"), ("transfer__isnull", False)),
                            models.Q(
                                ("decided_at__isnull", False),
                                ("state__in", ["rejected", "withdrawn"]),
                                ("transfer", None),
                            ),
                            _connector="OR",
                        ),
                        name="request_decided_once",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("forwards", None), ("state", "open")),
                        fields=("wallet", "parent"),
                        name="request_one_open",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("forwards__isnull", False), ("state", "open")),
                        fields=("forwards",),
                        name="request_one_open_forward",
                    ),
                ],
            },
        ),
    ]
