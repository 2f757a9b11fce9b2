"""Who was chosen to make room for whom, and a basis of estimates for who waits for that."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import gshare_core.ids


class Migration(migrations.Migration):
    dependencies = [
        ("sessions_app", "0010_waits"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterField(
            model_name="queueentry",
            name="basis",
            field=models.CharField(
                choices=[
                    ("max_runtime", "Max Runtime"),
                    ("typical", "Typical"),
                    ("preempted", "Preempted"),
                    ("unknown", "Unknown"),
                ],
                default="unknown",
                max_length=12,
            ),
        ),
        migrations.CreateModel(
            name="Preemption",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("victim_run", models.PositiveIntegerField()),
                ("chosen_at", models.DateTimeField()),
                ("asked_at", models.DateTimeField(null=True)),
                (
                    "requester",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="preemptions",
                        to="sessions_app.session",
                    ),
                ),
                (
                    "victim",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="sessions_app.session"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["requester", "asked_at"], name="preemption_lately")],
                "constraints": [
                    models.UniqueConstraint(fields=("session", "victim", "victim_run"), name="preemption_once"),
                    models.CheckConstraint(
                        condition=models.Q(("session", models.F("victim")), _negated=True), name="preemption_of_another"
                    ),
                ],
            },
        ),
    ]
