"""Indexes of the lists: every order ends in the id, every search has trigrams."""

import django.contrib.postgres.indexes
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_browsers_and_words_of_the_trail"),
        ("catalog", "0002_prices_are_insert_only"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="image",
            index=models.Index(fields=["position", "id"], name="image_by_position"),
        ),
        migrations.AddIndex(
            model_name="image",
            index=models.Index(fields=["name", "id"], name="image_by_name"),
        ),
        migrations.AddIndex(
            model_name="image",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                ),
                name="image_name_words",
            ),
        ),
        migrations.AddIndex(
            model_name="preset",
            index=models.Index(fields=["position", "id"], name="preset_by_position"),
        ),
        migrations.AddIndex(
            model_name="preset",
            index=models.Index(fields=["name", "id"], name="preset_by_name"),
        ),
        migrations.AddIndex(
            model_name="preset",
            index=django.contrib.postgres.indexes.GinIndex(
                django.contrib.postgres.indexes.OpClass(
                    django.db.models.functions.text.Upper("name"), name="gin_trgm_ops"
                ),
                name="preset_name_words",
            ),
        ),
    ]
