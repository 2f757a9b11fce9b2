"""People, places, limits, the audit trail and the small machinery."""

import django.contrib.postgres.indexes
import django.core.serializers.json
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.contrib.postgres.operations import TrigramExtension
from django.db import migrations, models

import gshare_core.ids


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        TrigramExtension(),
        migrations.CreateModel(
            name="User",
            fields=[
                ("password", models.CharField(max_length=128, verbose_name="password")),
                ("last_login", models.DateTimeField(blank=True, null=True, verbose_name="last login")),
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("email", models.EmailField(max_length=254, unique=True, verbose_name="e-mail")),
                ("name", models.CharField(max_length=150, verbose_name="name")),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                ("is_super_admin", models.BooleanField(default=False, verbose_name="super administrator")),
                ("must_change_password", models.BooleanField(default=False, verbose_name="must change the password")),
                (
                    "initial_password_expires_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="initial password valid until"),
                ),
                ("sign_in_epoch", models.PositiveIntegerField(default=0, verbose_name="sign-in epoch")),
                ("language", models.CharField(blank=True, default="", max_length=10, verbose_name="language")),
                ("time_zone", models.CharField(blank=True, default="", max_length=64, verbose_name="time zone")),
                (
                    "theme",
                    models.CharField(
                        choices=[("system", "As the device"), ("light", "Light"), ("dark", "Dark")],
                        default="system",
                        max_length=6,
                        verbose_name="theme",
                    ),
                ),
                ("created_at", models.DateTimeField(verbose_name="created")),
            ],
            options={
                "verbose_name": "user",
                "verbose_name_plural": "users",
            },
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("name", models.CharField(max_length=100, primary_key=True, serialize=False, verbose_name="name")),
                ("holder", models.UUIDField(verbose_name="holder")),
                ("until", models.DateTimeField(verbose_name="until")),
            ],
            options={
                "verbose_name": "lease",
                "verbose_name_plural": "leases",
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("at", models.DateTimeField(verbose_name="at")),
                ("actor_id", models.UUIDField(blank=True, null=True, verbose_name="actor's id")),
                ("actor_label", models.CharField(max_length=254, verbose_name="actor")),
                ("act", models.CharField(max_length=64, verbose_name="act")),
                ("target_kind", models.CharField(max_length=32, verbose_name="kind of target")),
                ("target_id", models.CharField(blank=True, max_length=64, verbose_name="target's id")),
                ("target_label", models.CharField(blank=True, max_length=300, verbose_name="target")),
                ("organisation_id", models.UUIDField(blank=True, null=True, verbose_name="organisation's id")),
                ("organisation_label", models.CharField(blank=True, max_length=150, verbose_name="organisation")),
                ("group_id", models.UUIDField(blank=True, null=True, verbose_name="group's id")),
                ("group_label", models.CharField(blank=True, max_length=150, verbose_name="group")),
                (
                    "before",
                    models.JSONField(
                        blank=True,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        null=True,
                        verbose_name="before",
                    ),
                ),
                (
                    "after",
                    models.JSONField(
                        blank=True,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        null=True,
                        verbose_name="after",
                    ),
                ),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
                ("address", models.GenericIPAddressField(blank=True, null=True, verbose_name="address")),
                ("request_id", models.CharField(blank=True, max_length=64, verbose_name="request")),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "indexes": [
                    models.Index(fields=["organisation_id", "id"], name="audit_by_organisation"),
                    models.Index(fields=["group_id", "id"], name="audit_by_group"),
                    models.Index(fields=["actor_id", "id"], name="audit_by_actor"),
                    models.Index(fields=["target_kind", "target_id", "id"], name="audit_by_target"),
                    models.Index(fields=["act", "id"], name="audit_by_act"),
                    models.Index(fields=["at", "id"], name="audit_by_time"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Organisation",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=150, verbose_name="name")),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                ("created_at", models.DateTimeField(verbose_name="created")),
            ],
            options={
                "verbose_name": "organisation",
                "verbose_name_plural": "organisations",
                "indexes": [
                    models.Index(fields=["name", "id"], name="organisation_by_name"),
                    models.Index(fields=["created_at", "id"], name="organisation_by_age"),
                    django.contrib.postgres.indexes.GinIndex(
                        django.contrib.postgres.indexes.OpClass(
                            django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                        ),
                        name="organisation_name_words",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        django.db.models.functions.text.Lower("name"), name="organisation_name_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("name", ""), _negated=True), name="organisation_is_named"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=150, verbose_name="name")),
                ("is_active", models.BooleanField(default=True, verbose_name="active")),
                ("created_at", models.DateTimeField(verbose_name="created")),
                (
                    "organisation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="groups",
                        to="accounts.organisation",
                        verbose_name="organisation",
                    ),
                ),
            ],
            options={
                "verbose_name": "group",
                "verbose_name_plural": "groups",
            },
        ),
        migrations.CreateModel(
            name="DrainIntent",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("user", "user"),
                            ("membership", "membership"),
                            ("group", "group"),
                            ("organisation", "organisation"),
                        ],
                        max_length=12,
                        verbose_name="kind",
                    ),
                ),
                ("reason", models.CharField(max_length=32, verbose_name="reason")),
                ("changed_at", models.DateTimeField(verbose_name="changed")),
                ("closed_at", models.DateTimeField(blank=True, null=True, verbose_name="closed")),
                (
                    "user",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.group",
                        verbose_name="group",
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organisation",
                        verbose_name="organisation",
                    ),
                ),
            ],
            options={
                "verbose_name": "drain intent",
                "verbose_name_plural": "drain intents",
            },
        ),
        migrations.AddField(
            model_name="user",
            name="organisation",
            field=models.ForeignKey(
                blank=True,
                help_text="Only super administrators may have none.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="people",
                to="accounts.organisation",
                verbose_name="home organisation",
            ),
        ),
        migrations.CreateModel(
            name="Policy",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "scope_kind",
                    models.CharField(
                        choices=[
                            ("global", "global"),
                            ("organisation", "organisation"),
                            ("group", "group"),
                            ("user", "user"),
                        ],
                        max_length=12,
                        verbose_name="scope",
                    ),
                ),
                ("created_at", models.DateTimeField(verbose_name="created")),
                (
                    "group",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policy",
                        to="accounts.group",
                        verbose_name="group",
                    ),
                ),
                (
                    "organisation",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policy",
                        to="accounts.organisation",
                        verbose_name="organisation",
                    ),
                ),
                (
                    "user",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="policy",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "policy",
                "verbose_name_plural": "policies",
            },
        ),
        migrations.CreateModel(
            name="PolicyValue",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("per_user", "per_user"), ("total", "total")], max_length=8, verbose_name="kind"
                    ),
                ),
                (
                    "field",
                    models.CharField(
                        choices=[
                            ("max_sessions", "max_sessions"),
                            ("max_queued", "max_queued"),
                            ("max_paused", "max_paused"),
                            ("cpu_milli", "cpu_milli"),
                            ("memory_mib", "memory_mib"),
                            ("scratch_gib", "scratch_gib"),
                            ("vram_mib", "vram_mib"),
                            ("core_percent", "core_percent"),
                            ("cards", "cards"),
                            ("max_runtime_min", "max_runtime_min"),
                            ("idle_timeout_min", "idle_timeout_min"),
                            ("keep_alive_max_min", "keep_alive_max_min"),
                            ("storage_gib", "storage_gib"),
                            ("max_priority", "max_priority"),
                            ("allow_privileged", "allow_privileged"),
                            ("allow_preemptible", "allow_preemptible"),
                            ("shared_pool", "shared_pool"),
                        ],
                        max_length=24,
                        verbose_name="field",
                    ),
                ),
                ("value", models.BigIntegerField(verbose_name="value")),
                (
                    "policy",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="values",
                        to="accounts.policy",
                        verbose_name="policy",
                    ),
                ),
            ],
            options={
                "verbose_name": "policy value",
                "verbose_name_plural": "policy values",
            },
        ),
        migrations.CreateModel(
            name="AuditSeal",
            fields=[
                ("seq", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="number")),
                ("hash", models.CharField(max_length=64, verbose_name="hash")),
                ("sealed_at", models.DateTimeField(verbose_name="sealed")),
                (
                    "entry",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="seal",
                        to="accounts.auditentry",
                        verbose_name="entry",
                    ),
                ),
            ],
            options={
                "verbose_name": "audit seal",
                "verbose_name_plural": "audit seals",
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("seq__gte", 1)), name="audit_seal_counts_from_1"),
                    models.CheckConstraint(
                        condition=models.Q(("hash__regex", "^[0-9a-f]{64}$")), name="audit_seal_is_sha256"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("method", models.CharField(max_length=7, verbose_name="method")),
                ("path", models.CharField(max_length=500, verbose_name="path")),
                ("key", models.CharField(max_length=255, verbose_name="key")),
                ("body_hash", models.CharField(max_length=64, verbose_name="hash of the body")),
                ("status", models.PositiveSmallIntegerField(blank=True, null=True, verbose_name="status")),
                (
                    "answer",
                    models.JSONField(
                        blank=True,
                        encoder=django.core.serializers.json.DjangoJSONEncoder,
                        null=True,
                        verbose_name="answer",
                    ),
                ),
                ("at", models.DateTimeField(verbose_name="at")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "idempotency key",
                "verbose_name_plural": "idempotency keys",
                "indexes": [models.Index(fields=["at"], name="idempotency_by_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("user", "method", "path", "key"), name="idempotency_key_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("kind", models.CharField(max_length=32, verbose_name="kind")),
                ("title", models.CharField(max_length=200, verbose_name="title")),
                ("body", models.TextField(blank=True, verbose_name="text")),
                ("link", models.CharField(blank=True, max_length=500, verbose_name="link")),
                ("at", models.DateTimeField(verbose_name="at")),
                ("read_at", models.DateTimeField(blank=True, null=True, verbose_name="read")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="notifications",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
            ],
            options={
                "verbose_name": "notification",
                "verbose_name_plural": "notifications",
                "indexes": [
                    models.Index(fields=["user", "at", "id"], name="notification_by_user"),
                    models.Index(
                        condition=models.Q(("read_at", None)), fields=["user", "id"], name="notification_unread"
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("read_at", None), ("read_at__gte", models.F("at")), _connector="OR"),
                        name="notification_read_later",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("guest", "guest"),
                            ("member", "member"),
                            ("group_admin", "group_admin"),
                            ("org_admin", "org_admin"),
                        ],
                        max_length=11,
                        verbose_name="role",
                    ),
                ),
                ("created_at", models.DateTimeField(verbose_name="created")),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="accounts.group",
                        verbose_name="group",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="user",
                    ),
                ),
                (
                    "organisation",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
                        to="accounts.organisation",
                        verbose_name="organisation",
                    ),
                ),
            ],
            options={
                "verbose_name": "membership",
                "verbose_name_plural": "memberships",
                "indexes": [models.Index(fields=["created_at", "id"], name="membership_by_age")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("group__isnull", False),
                                ("organisation__isnull", True),
                                ("role__in", ["guest", "member", "group_admin"]),
                            ),
                            models.Q(
                                ("group__isnull", True), ("organisation__isnull", False), ("role__in", ["org_admin"])
                            ),
                            _connector="OR",
                        ),
                        name="membership_in_one_place",
                    ),
                    models.UniqueConstraint(fields=("user", "group"), name="membership_once_in_group"),
                    models.UniqueConstraint(fields=("user", "organisation"), name="membership_once_in_organisation"),
                ],
            },
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["name", "id"], name="group_by_name"),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["created_at", "id"], name="group_by_age"),
        ),
        migrations.AddIndex(
            model_name="group",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                ),
                name="group_name_words",
            ),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(
                models.F("organisation"),
                django.db.models.functions.text.Lower("name"),
                name="group_name_once_in_organisation",
            ),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.CheckConstraint(condition=models.Q(("name", ""), _negated=True), name="group_is_named"),
        ),
        migrations.AddIndex(
            model_name="drainintent",
            index=models.Index(condition=models.Q(("closed_at", None)), fields=["id"], name="drain_intent_open"),
        ),
        migrations.AddConstraint(
            model_name="drainintent",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("group", None), ("kind", "user"), ("organisation", None), ("user__isnull", False)),
                    models.Q(
                        ("group__isnull", False),
                        ("kind", "membership"),
                        ("organisation", None),
                        ("user__isnull", False),
                    ),
                    models.Q(("group__isnull", False), ("kind", "group"), ("organisation", None), ("user", None)),
                    models.Q(
                        ("group", None), ("kind", "organisation"), ("organisation__isnull", False), ("user", None)
                    ),
                    _connector="OR",
                ),
                name="drain_intent_names_its_subject",
            ),
        ),
        migrations.AddConstraint(
            model_name="drainintent",
            constraint=models.UniqueConstraint(
                condition=models.Q(("closed_at", None)),
                fields=("kind", "user", "group", "organisation"),
                name="drain_intent_open_once",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="drainintent",
            constraint=models.CheckConstraint(
                condition=models.Q(("closed_at", None), ("closed_at__gte", models.F("changed_at")), _connector="OR"),
                name="drain_intent_closed_later",
            ),
        ),
        migrations.AddIndex(
            model_name="user",
            index=models.Index(fields=["name", "id"], name="user_by_name"),
        ),
        migrations.AddIndex(
            model_name="user",
            index=models.Index(fields=["email", "id"], name="user_by_email"),
        ),
        migrations.AddIndex(
            model_name="user",
            index=models.Index(fields=["created_at", "id"], name="user_by_age"),
        ),
        migrations.AddIndex(
            model_name="user",
            index=models.Index(condition=models.Q(("is_super_admin", True)), fields=["id"], name="user_super_admins"),
        ),
        migrations.AddIndex(
            model_name="user",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                ),
                name="user_name_words",
            ),
        ),
        migrations.AddIndex(
            model_name="user",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("email"), name="gin_trgm_ops"
                ),
                name="user_email_words",
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("email", django.db.models.functions.text.Lower("email")), models.Q(("email", ""), _negated=True)
                ),
                name="user_email_in_one_case",
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("organisation__isnull", False), ("is_super_admin", True), _connector="OR"),
                name="user_has_a_home",
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("initial_password_expires_at__isnull", True), ("must_change_password", True), _connector="OR"
                ),
                name="user_initial_password_must_change",
            ),
        ),
        migrations.AddConstraint(
            model_name="user",
            constraint=models.CheckConstraint(
                condition=models.Q(("theme__in", ["system", "light", "dark"])), name="user_theme_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("group", None), ("organisation", None), ("scope_kind", "global"), ("user", None)),
                    models.Q(
                        ("group", None), ("organisation__isnull", False), ("scope_kind", "organisation"), ("user", None)
                    ),
                    models.Q(("group__isnull", False), ("organisation", None), ("scope_kind", "group"), ("user", None)),
                    models.Q(("group", None), ("organisation", None), ("scope_kind", "user"), ("user__isnull", False)),
                    _connector="OR",
                ),
                name="policy_of_one_scope",
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.UniqueConstraint(
                condition=models.Q(("scope_kind", "global")), fields=("scope_kind",), name="policy_one_global"
            ),
        ),
        migrations.AddConstraint(
            model_name="policyvalue",
            constraint=models.UniqueConstraint(fields=("policy", "kind", "field"), name="policy_value_once"),
        ),
        migrations.AddConstraint(
            model_name="policyvalue",
            constraint=models.CheckConstraint(
                condition=models.Q(("value__gte", 0), ("value__lte", 9007199254740991)), name="policy_value_in_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="policyvalue",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("field__in", ["allow_privileged", "allow_preemptible", "shared_pool"]), _negated=True),
                    ("value__lte", 1),
                    _connector="OR",
                ),
                name="policy_flag_is_0_or_1",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyvalue",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "field__in",
                        [
                            "max_sessions",
                            "max_queued",
                            "max_paused",
                            "cpu_milli",
                            "memory_mib",
                            "scratch_gib",
                            "vram_mib",
                            "core_percent",
                            "cards",
                            "max_runtime_min",
                            "idle_timeout_min",
                            "keep_alive_max_min",
                            "storage_gib",
                            "max_priority",
                            "allow_privileged",
                            "allow_preemptible",
                            "shared_pool",
                        ],
                    )
                ),
                name="policy_field_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="policyvalue",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("kind", "per_user"),
                    models.Q(
                        ("kind", "total"),
                        (
                            "field__in",
                            [
                                "max_sessions",
                                "max_queued",
                                "max_paused",
                                "cpu_milli",
                                "memory_mib",
                                "scratch_gib",
                                "vram_mib",
                                "core_percent",
                                "cards",
                                "storage_gib",
                            ],
                        ),
                    ),
                    _connector="OR",
                ),
                name="policy_total_is_counted",
            ),
        ),
    ]
