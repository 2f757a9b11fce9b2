"""Where people are signed in; searching the trail by words."""

import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import gshare_core.ids


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_history_is_insert_only"),
    ]

    operations = [
        migrations.CreateModel(
            name="SignIn",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("epoch", models.PositiveIntegerField(verbose_name="sign-in epoch")),
                ("browser", models.CharField(blank=True, max_length=30, verbose_name="browser")),
                ("system", models.CharField(blank=True, max_length=30, verbose_name="system")),
                ("address", models.GenericIPAddressField(blank=True, null=True, verbose_name="address")),
                ("at", models.DateTimeField(verbose_name="at")),
                ("ended_at", models.DateTimeField(blank=True, null=True, verbose_name="ended")),
            ],
            options={
                "verbose_name": "sign-in",
                "verbose_name_plural": "sign-ins",
            },
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("actor_label"), name="gin_trgm_ops"
                ),
                name="audit_actor_words",
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("target_label"), name="gin_trgm_ops"
                ),
                name="audit_target_words",
            ),
        ),
        migrations.AddIndex(
            model_name="policy",
            index=models.Index(fields=["created_at", "id"], name="policy_by_age"),
        ),
        migrations.AddField(
            model_name="signin",
            name="user",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="sign_ins",
                to=settings.AUTH_USER_MODEL,
                verbose_name="user",
            ),
        ),
        migrations.AddIndex(
            model_name="signin",
            index=models.Index(fields=["user", "at", "id"], name="sign_in_by_user"),
        ),
        migrations.AddConstraint(
            model_name="signin",
            constraint=models.CheckConstraint(
                condition=models.Q(("ended_at", None), ("ended_at__gte", models.F("at")), _connector="OR"),
                name="sign_in_ended_later",
            ),
        ),
    ]
