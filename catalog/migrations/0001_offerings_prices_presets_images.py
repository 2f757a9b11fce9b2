"""Offerings with price revisions, presets, images."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import catalog.models
import gshare_core.ids
import gshare_core.kit.fields


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0002_history_is_insert_only"),
    ]

    operations = [
        migrations.CreateModel(
            name="Offering",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=80, unique=True, verbose_name="name")),
                (
                    "model",
                    models.CharField(
                        help_text="Exactly the string that the cluster reports.",
                        max_length=120,
                        unique=True,
                        verbose_name="model",
                    ),
                ),
                (
                    "vram_mib",
                    models.PositiveIntegerField(
                        validators=[django.core.validators.MinValueValidator(1024)], verbose_name="GPU memory, MiB"
                    ),
                ),
                (
                    "min_cuda",
                    models.CharField(
                        blank=True,
                        max_length=7,
                        null=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})$", "Write a CUDA version such as 12.8."
                            )
                        ],
                        verbose_name="oldest CUDA",
                    ),
                ),
                (
                    "tiers",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=9),
                        default=list,
                        size=None,
                        validators=[catalog.models.validate_tiers],
                        verbose_name="allowed tiers",
                    ),
                ),
                ("yield_allowed", models.BooleanField(default=False, verbose_name="may pause in place")),
                (
                    "preemptible_factor_milli",
                    models.PositiveSmallIntegerField(default=300, verbose_name="price of preemptible sessions, ‰"),
                ),
                ("is_active", models.BooleanField(default=True, verbose_name="offered")),
            ],
            options={
                "verbose_name": "offering",
                "verbose_name_plural": "offerings",
                "ordering": ["name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("vram_mib__gte", 1024)), name="offering_vram_at_least_1024"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("min_cuda", None),
                            ("min_cuda__regex", "^(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})$"),
                            _connector="OR",
                        ),
                        name="offering_cuda_is_version",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("preemptible_factor_milli__gte", 1), ("preemptible_factor_milli__lte", 1000)
                        ),
                        name="offering_preemptible_factor_within_one",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "tiers__contained_by",
                                [
                                    "XL",
                                    "L",
                                    "M",
                                    "S",
                                    "exclusive",
                                ],
                            )
                        ),
                        name="offering_tiers_are_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Preset",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=40, unique=True, verbose_name="name")),
                (
                    "tier",
                    models.CharField(
                        choices=[
                            ("XL", "XL"),
                            ("L", "L"),
                            ("M", "M"),
                            ("S", "S"),
                            ("exclusive", "exclusive"),
                            ("cpu", "cpu"),
                        ],
                        max_length=9,
                        verbose_name="tier",
                    ),
                ),
                (
                    "cards",
                    models.PositiveSmallIntegerField(
                        default=0, help_text="1 to 8 when exclusive, else 0.", verbose_name="cards"
                    ),
                ),
                ("cpu_milli", models.PositiveIntegerField(verbose_name="CPU, thousandths of a core")),
                ("memory_mib", models.PositiveIntegerField(verbose_name="memory, MiB")),
                ("scratch_gib", models.PositiveIntegerField(verbose_name="scratch, GiB")),
                ("position", models.PositiveSmallIntegerField(default=0, verbose_name="position")),
                ("is_active", models.BooleanField(default=True, verbose_name="offered")),
            ],
            options={
                "verbose_name": "preset",
                "verbose_name_plural": "presets",
                "ordering": ["position", "name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("tier__in", ["XL", "L", "M", "S", "exclusive", "cpu"])),
                        name="preset_tier_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("cards__gte", 1), ("cards__lte", 8), ("tier", "exclusive")),
                            models.Q(models.Q(("tier", "exclusive"), _negated=True), ("cards", 0)),
                            _connector="OR",
                        ),
                        name="preset_cards_fit_tier",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("cpu_milli__gte", 1), ("memory_mib__gte", 1)),
                        name="preset_has_host_resources",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Image",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                ("name", models.CharField(max_length=80, verbose_name="name")),
                (
                    "reference",
                    models.CharField(
                        max_length=280,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^[a-z0-9][a-z0-9._/:-]{0,190}@sha256:[0-9a-f]{64}$",
                                "Name the image by digest: registry/name@sha256:…",
                            )
                        ],
                        verbose_name="reference",
                    ),
                ),
                (
                    "cuda",
                    models.CharField(
                        blank=True,
                        max_length=7,
                        null=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "^(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})$", "Write a CUDA version such as 12.8."
                            )
                        ],
                        verbose_name="CUDA",
                    ),
                ),
                (
                    "apps",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=8),
                        default=list,
                        size=None,
                        validators=[catalog.models.validate_apps],
                        verbose_name="apps",
                    ),
                ),
                (
                    "visibility",
                    models.CharField(
                        choices=[("public", "everybody"), ("organisation", "one organisation"), ("group", "one group")],
                        default="public",
                        max_length=12,
                        verbose_name="visible to",
                    ),
                ),
                ("position", models.PositiveSmallIntegerField(default=0, verbose_name="position")),
                ("is_active", models.BooleanField(default=True, verbose_name="offered")),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.group",
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
                    ),
                ),
            ],
            options={
                "verbose_name": "image",
                "verbose_name_plural": "images",
                "ordering": ["position", "name"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("reference__regex", "^[a-z0-9][a-z0-9._/:-]{0,190}@sha256:[0-9a-f]{64}$")),
                        name="image_is_named_by_digest",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("cuda", None),
                            ("cuda__regex", "^(0|[1-9][0-9]{0,2})\\.(0|[1-9][0-9]{0,2})$"),
                            _connector="OR",
                        ),
                        name="image_cuda_is_version",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("apps__contained_by", ["lab", "code", "terminal"]), ("apps__len__gte", 1)),
                        name="image_apps_are_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("group", None), ("organisation", None), ("visibility", "public")),
                            models.Q(
                                ("group", None),
                                ("visibility", "organisation"),
                                models.Q(("organisation", None), _negated=True),
                            ),
                            models.Q(
                                ("organisation", None),
                                ("visibility", "group"),
                                models.Q(("group", None), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="image_belongs_to_whom_it_shows",
                    ),
                    models.UniqueConstraint(
                        fields=("name", "organisation", "group"), name="image_name_once_per_owner", nulls_distinct=False
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PriceRevision",
            fields=[
                (
                    "id",
                    models.UUIDField(default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False),
                ),
                (
                    "rate_micro_per_hour",
                    gshare_core.kit.fields.MicroField(
                        validators=[django.core.validators.MinValueValidator(1)],
                        verbose_name="micro-credits a card-hour",
                    ),
                ),
                ("starts_at", models.DateTimeField(verbose_name="from")),
                (
                    "offering",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="prices",
                        to="catalog.offering",
                        verbose_name="offering",
                    ),
                ),
            ],
            options={
                "verbose_name": "price",
                "verbose_name_plural": "prices",
                "ordering": ["offering", "-starts_at", "-id"],
                "indexes": [models.Index(fields=["offering", "-starts_at", "-id"], name="price_newest")],
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("rate_micro_per_hour__gt", 0)), name="price_positive")
                ],
            },
        ),
    ]
