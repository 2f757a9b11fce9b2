"""Accounts, transfers, meters with their intervals and postings, budgets with their periods and alerts."""

import django.contrib.postgres.constraints
import django.contrib.postgres.fields
import django.contrib.postgres.fields.ranges
import django.db.models.deletion
from django.conf import settings
from django.contrib.postgres.operations import BtreeGistExtension
from django.db import migrations, models

import gshare_core.ids
import gshare_core.kit.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0002_history_is_insert_only"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        BtreeGistExtension(),  # lets the exclusion constraint compare meters
        migrations.CreateModel(
            name="Transfer",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
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
                ("debit_number", models.BigIntegerField(null=True)),
                ("debit_balance", gshare_core.kit.fields.MicroField(null=True)),
                ("credit_number", models.BigIntegerField(null=True)),
                ("credit_balance", gshare_core.kit.fields.MicroField(null=True)),
                (
                    "reference",
                    models.UUIDField(
                        help_text="What it was for: a session, a request.", null=True, verbose_name="reference"
                    ),
                ),
                ("label", models.CharField(blank=True, max_length=120, verbose_name="label")),
                ("note", models.CharField(blank=True, max_length=500, verbose_name="note")),
                ("key", models.CharField(max_length=200, unique=True, verbose_name="key")),
                (
                    "actor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="actor",
                    ),
                ),
            ],
            options={
                "verbose_name": "transfer",
                "verbose_name_plural": "transfers",
            },
        ),
        migrations.CreateModel(
            name="Account",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("mint", "mint"),
                            ("revenue", "revenue"),
                            ("system", "system"),
                            ("organisation", "organisation"),
                            ("group", "group"),
                            ("user", "user"),
                        ],
                        max_length=12,
                        verbose_name="kind",
                    ),
                ),
                ("balance", gshare_core.kit.fields.MicroField(null=True, verbose_name="balance")),
                ("held", gshare_core.kit.fields.MicroField(default=0, verbose_name="held")),
                (
                    "entries",
                    models.BigIntegerField(
                        default=0, help_text="Transfers in and out of it so far.", verbose_name="entries"
                    ),
                ),
                (
                    "group",
                    models.OneToOneField(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.group"
                    ),
                ),
                (
                    "organisation",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "user",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "account",
                "verbose_name_plural": "accounts",
            },
        ),
        migrations.CreateModel(
            name="Allocation",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("net", gshare_core.kit.fields.MicroField(default=0, verbose_name="net")),
                (
                    "parent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="given",
                        to="billing.account",
                        verbose_name="parent",
                    ),
                ),
                (
                    "wallet",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="received",
                        to="billing.account",
                        verbose_name="wallet",
                    ),
                ),
            ],
            options={
                "verbose_name": "allocation",
                "verbose_name_plural": "allocations",
            },
        ),
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("limit", gshare_core.kit.fields.MicroField(verbose_name="limit")),
                (
                    "mode",
                    models.CharField(choices=[("warn", "warn"), ("block", "block")], max_length=5, verbose_name="mode"),
                ),
                ("time_zone", models.CharField(max_length=64, verbose_name="time zone")),
                ("first_day", models.DateField(blank=True, null=True, verbose_name="first day")),
                ("last_day", models.DateField(blank=True, null=True, verbose_name="last day")),
                ("held", gshare_core.kit.fields.MicroField(default=0, verbose_name="held")),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                ("created_at", models.DateTimeField(verbose_name="created")),
                (
                    "group",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.group"
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "budget",
                "verbose_name_plural": "budgets",
            },
        ),
        migrations.CreateModel(
            name="BudgetPeriod",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("starts_at", models.DateTimeField(verbose_name="from")),
                ("ends_at", models.DateTimeField(verbose_name="to")),
                ("spent", gshare_core.kit.fields.MicroField(default=0, verbose_name="spent")),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="periods",
                        to="billing.budget",
                        verbose_name="budget",
                    ),
                ),
            ],
            options={
                "verbose_name": "budget period",
                "verbose_name_plural": "budget periods",
            },
        ),
        migrations.CreateModel(
            name="BudgetAlert",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("threshold", models.PositiveSmallIntegerField(verbose_name="threshold")),
                ("at", models.DateTimeField(verbose_name="at")),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="alerts",
                        to="billing.budget",
                        verbose_name="budget",
                    ),
                ),
                (
                    "period",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="alerts",
                        to="billing.budgetperiod",
                        verbose_name="period",
                    ),
                ),
            ],
            options={
                "verbose_name": "budget alert",
                "verbose_name_plural": "budget alerts",
            },
        ),
        migrations.CreateModel(
            name="Meter",
            fields=[
                ("run_id", models.UUIDField(primary_key=True, serialize=False)),
                ("reference", models.UUIDField(help_text="The session.", verbose_name="reference")),
                (
                    "number",
                    models.PositiveIntegerField(help_text="Counts the meters of the reference.", verbose_name="number"),
                ),
                ("label", models.CharField(blank=True, max_length=120, verbose_name="label")),
                ("rate_micro_per_hour", gshare_core.kit.fields.MicroField(verbose_name="rate")),
                ("occupancy_numerator", models.BigIntegerField()),
                ("occupancy_denominator", models.BigIntegerField()),
                ("factor_milli", models.PositiveSmallIntegerField(default=1000)),
                ("opened_at", models.DateTimeField(verbose_name="opened")),
                ("billable_from", models.DateTimeField()),
                ("started_at", models.DateTimeField(null=True)),
                ("closed_us", models.BigIntegerField(default=0)),
                ("proven_until", models.DateTimeField(null=True)),
                ("end_at", models.DateTimeField(null=True)),
                ("suspended_at", models.DateTimeField(null=True)),
                ("settled_at", models.DateTimeField(null=True)),
                ("charged", gshare_core.kit.fields.MicroField(default=0, verbose_name="charged")),
                ("charged_until", models.DateTimeField(null=True)),
                ("not_billed", gshare_core.kit.fields.MicroField(default=0, verbose_name="not billed")),
                ("held", gshare_core.kit.fields.MicroField(default=0, verbose_name="held")),
                ("target", gshare_core.kit.fields.MicroField(verbose_name="full hold")),
                (
                    "counted_by",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(),
                        default=list,
                        help_text="The budgets that count the hold.",
                        size=None,
                    ),
                ),
                ("hold_ends_at", models.DateTimeField(null=True, verbose_name="hold ends")),
                ("due_at", models.DateTimeField(null=True)),
                ("short", models.CharField(blank=True, help_text="Why the hold could not be filled.", max_length=16)),
                ("exhausted_at", models.DateTimeField(null=True)),
                ("warned_at", models.DateTimeField(null=True)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.group",
                        verbose_name="group",
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                        verbose_name="organisation",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "wallet",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="meters",
                        to="billing.account",
                        verbose_name="wallet",
                    ),
                ),
            ],
            options={
                "verbose_name": "meter",
                "verbose_name_plural": "meters",
            },
        ),
        migrations.CreateModel(
            name="MeterInterval",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("starts_at", models.DateTimeField(verbose_name="from")),
                ("ends_at", models.DateTimeField(null=True, verbose_name="to")),
                (
                    "meter",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="intervals",
                        to="billing.meter",
                        verbose_name="meter",
                    ),
                ),
            ],
            options={
                "verbose_name": "meter interval",
                "verbose_name_plural": "meter intervals",
            },
        ),
        migrations.CreateModel(
            name="Posting",
            fields=[
                (
                    "transfer",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="posting",
                        serialize=False,
                        to="billing.transfer",
                        verbose_name="transfer",
                    ),
                ),
                ("billed_from", models.DateTimeField(verbose_name="from")),
                ("billed_to", models.DateTimeField(verbose_name="to")),
            ],
            options={
                "verbose_name": "posting",
                "verbose_name_plural": "postings",
            },
        ),
        migrations.AddField(
            model_name="transfer",
            name="credit",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account", verbose_name="to"
            ),
        ),
        migrations.AddField(
            model_name="transfer",
            name="debit",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="+", to="billing.account", verbose_name="from"
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("group", None),
                        ("kind__in", ["mint", "revenue", "system"]),
                        ("organisation", None),
                        ("user", None),
                    ),
                    models.Q(
                        ("kind", "organisation"), ("group", None), ("organisation__isnull", False), ("user", None)
                    ),
                    models.Q(("kind", "group"), ("group__isnull", False), ("organisation", None), ("user", None)),
                    models.Q(("kind", "user"), ("group", None), ("organisation", None), ("user__isnull", False)),
                    _connector="OR",
                ),
                name="account_of_one_owner",
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("balance", None), ("entries", 0), ("held", 0), ("kind__in", ["mint", "revenue"])),
                    models.Q(("kind__in", ["system", "organisation", "group", "user"]), ("balance__isnull", False)),
                    _connector="OR",
                ),
                name="account_balance_of_wallets_only",
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("balance", None), models.Q(("balance__gte", models.F("held")), ("held__gte", 0)), _connector="OR"
                ),
                name="account_held_within_balance",
            ),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.CheckConstraint(condition=models.Q(("entries__gte", 0)), name="account_entries_count_up"),
        ),
        migrations.AddConstraint(
            model_name="account",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind__in", ["mint", "revenue", "system"])),
                fields=("kind",),
                name="account_singleton",
            ),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.UniqueConstraint(fields=("wallet", "parent"), name="allocation_once"),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.CheckConstraint(condition=models.Q(("net__gte", 0)), name="allocation_never_negative"),
        ),
        migrations.AddConstraint(
            model_name="allocation",
            constraint=models.CheckConstraint(
                condition=models.Q(("wallet", models.F("parent")), _negated=True), name="allocation_between_two"
            ),
        ),
        migrations.AddIndex(
            model_name="budget",
            index=models.Index(condition=models.Q(("is_active", True)), fields=["user"], name="budget_of_user"),
        ),
        migrations.AddIndex(
            model_name="budget",
            index=models.Index(condition=models.Q(("is_active", True)), fields=["group"], name="budget_of_group"),
        ),
        migrations.AddIndex(
            model_name="budget",
            index=models.Index(
                condition=models.Q(("is_active", True)), fields=["organisation"], name="budget_of_organisation"
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("group", None), ("organisation__isnull", False), ("user", None)),
                    models.Q(("group__isnull", False), ("organisation", None), ("user", None)),
                    models.Q(("group", None), ("organisation", None), ("user__isnull", False)),
                    _connector="OR",
                ),
                name="budget_of_one_scope",
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(condition=models.Q(("limit__gte", 0)), name="budget_limit_not_negative"),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(condition=models.Q(("held__gte", 0)), name="budget_held_not_negative"),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(("mode__in", ["warn", "block"])), name="budget_mode_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="budget",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("first_day", None), ("last_day", None)),
                    models.Q(
                        ("first_day__isnull", False),
                        ("last_day__gte", models.F("first_day")),
                        ("last_day__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="budget_month_or_dates",
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetperiod",
            constraint=models.UniqueConstraint(fields=("budget", "starts_at"), name="budget_period_once"),
        ),
        migrations.AddConstraint(
            model_name="budgetperiod",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at__gt", models.F("starts_at"))), name="budget_period_ends_later"
            ),
        ),
        migrations.AddConstraint(
            model_name="budgetperiod",
            constraint=models.CheckConstraint(condition=models.Q(("spent__gte", 0)), name="budget_spent_not_negative"),
        ),
        migrations.AddConstraint(
            model_name="budgetalert",
            constraint=models.UniqueConstraint(fields=("budget", "period", "threshold"), name="budget_alert_once"),
        ),
        migrations.AddConstraint(
            model_name="budgetalert",
            constraint=models.CheckConstraint(
                condition=models.Q(("threshold__in", [50, 80, 100])), name="budget_alert_threshold_known"
            ),
        ),
        migrations.AddIndex(
            model_name="meter",
            index=models.Index(
                condition=models.Q(("settled_at", None)),
                fields=["wallet", "reference"],
                include=("held",),
                name="meter_open_of_wallet",
            ),
        ),
        migrations.AddIndex(
            model_name="meter",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="meter_due"),
        ),
        migrations.AddIndex(
            model_name="meter",
            index=models.Index(
                condition=models.Q(("hold_ends_at__isnull", False)), fields=["hold_ends_at"], name="meter_hold_ends"
            ),
        ),
        migrations.AddIndex(
            model_name="meter",
            index=models.Index(fields=["user", "-opened_at"], name="meter_of_user"),
        ),
        migrations.AddIndex(
            model_name="meter",
            index=models.Index(fields=["group", "-opened_at"], name="meter_of_group"),
        ),
        migrations.AddIndex(
            model_name="meter",
            index=models.Index(fields=["organisation", "-opened_at"], name="meter_of_organisation"),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.UniqueConstraint(fields=("reference", "number"), name="meter_number_once"),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("factor_milli__gte", 1),
                    ("factor_milli__lte", 1000),
                    ("occupancy_denominator__gt", 0),
                    ("occupancy_numerator__gt", 0),
                    ("rate_micro_per_hour__gt", 0),
                ),
                name="meter_price_positive",
            ),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("charged__gte", 0),
                    ("closed_us__gte", 0),
                    ("held__gte", 0),
                    ("not_billed__gte", 0),
                    ("target__gt", 0),
                ),
                name="meter_amounts_not_negative",
            ),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("settled_at", None),
                    models.Q(("due_at", None), ("held", 0), ("hold_ends_at", None), ("started_at", None)),
                    _connector="OR",
                ),
                name="meter_settled_is_closed",
            ),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("suspended_at", None),
                    models.Q(("due_at", None), ("held", 0), ("hold_ends_at", None), ("started_at", None)),
                    _connector="OR",
                ),
                name="meter_suspended_is_closed",
            ),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("charged_until", None), ("started_at", None)),
                    models.Q(("charged_until__gte", models.F("started_at")), ("started_at__isnull", False)),
                    _connector="OR",
                ),
                name="meter_charged_within_interval",
            ),
        ),
        migrations.AddConstraint(
            model_name="meter",
            constraint=models.CheckConstraint(
                condition=models.Q(("short__in", ["", "credit_exhausted", "budget_exhausted"])),
                name="meter_short_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterinterval",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at", None), ("ends_at__gte", models.F("starts_at")), _connector="OR"),
                name="interval_ends_after_start",
            ),
        ),
        migrations.AddConstraint(
            model_name="meterinterval",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ends_at", None)), fields=("meter",), name="interval_one_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="meterinterval",
            constraint=django.contrib.postgres.constraints.ExclusionConstraint(
                expressions=[
                    (
                        models.Func(
                            models.F("starts_at"),
                            models.F("ends_at"),
                            function="TSTZRANGE",
                            output_field=django.contrib.postgres.fields.ranges.DateTimeRangeField(),
                        ),
                        "&&",
                    ),
                    ("meter", "="),
                ],
                name="interval_no_overlap",
            ),
        ),
        migrations.AddField(
            model_name="posting",
            name="meter",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="postings",
                to="billing.meter",
                verbose_name="meter",
            ),
        ),
        migrations.AddIndex(
            model_name="transfer",
            index=models.Index(fields=["at", "id"], name="transfer_by_time"),
        ),
        migrations.AddIndex(
            model_name="transfer",
            index=models.Index(
                condition=models.Q(("reference__isnull", False)), fields=["reference"], name="transfer_by_reference"
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(condition=models.Q(("amount__gt", 0)), name="transfer_amount_positive"),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(("debit", models.F("credit")), _negated=True), name="transfer_between_two"
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["issue", "allocate", "reclaim", "charge", "grant", "adjust"])),
                name="transfer_kind_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        models.Q(("debit_balance", None), ("debit_number", None)),
                        models.Q(("debit_balance__gte", 0), ("debit_balance__isnull", False), ("debit_number__gte", 1)),
                        _connector="OR",
                    ),
                    models.Q(
                        models.Q(("credit_balance", None), ("credit_number", None)),
                        models.Q(
                            ("credit_balance__gte", 0), ("credit_balance__isnull", False), ("credit_number__gte", 1)
                        ),
                        _connector="OR",
                    ),
                ),
                name="transfer_numbered_with_balance",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.UniqueConstraint(
                condition=models.Q(("debit_number__isnull", False)),
                fields=("debit", "debit_number"),
                include=("amount",),
                name="transfer_debit_number_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="transfer",
            constraint=models.UniqueConstraint(
                condition=models.Q(("credit_number__isnull", False)),
                fields=("credit", "credit_number"),
                include=("amount",),
                name="transfer_credit_number_once",
            ),
        ),
        migrations.AddIndex(
            model_name="posting",
            index=models.Index(fields=["billed_from"], name="posting_by_time"),
        ),
        migrations.AddConstraint(
            model_name="posting",
            constraint=models.UniqueConstraint(fields=("meter", "billed_from"), name="posting_once"),
        ),
        migrations.AddConstraint(
            model_name="posting",
            constraint=models.CheckConstraint(
                condition=models.Q(("billed_to__gt", models.F("billed_from"))), name="posting_ends_later"
            ),
        ),
    ]
