"""Who was told that his credits end soon."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0006_credit_requests"),
    ]

    operations = [
        migrations.CreateModel(
            name="LowBalance",
            fields=[
                (
                    "wallet",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="billing.account",
                        verbose_name="wallet",
                    ),
                ),
                ("at", models.DateTimeField(verbose_name="at")),
            ],
            options={
                "verbose_name": "low balance",
                "verbose_name_plural": "low balances",
            },
        ),
    ]
