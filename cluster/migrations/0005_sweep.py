import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """What the sweep compares with, and why it refuses to act."""

    dependencies = [
        ("cluster", "0004_documents_per_cluster"),
    ]

    operations = [
        migrations.AddField("desired", "is_confirmed", models.BooleanField(default=False)),
        migrations.AddField("cluster", "restored_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("cluster", "sweep_held_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("cluster", "sweep_ends", models.PositiveIntegerField(default=0)),
        migrations.AddField("cluster", "sweep_listed", models.PositiveIntegerField(default=0)),
        migrations.AddField("cluster", "sweep_confirmed", models.PositiveIntegerField(default=0)),
        migrations.CreateModel(
            name="Listing",
            fields=[
                (
                    "cluster",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="listing",
                        serialize=False,
                        to="cluster.cluster",
                    ),
                ),
                ("observed_at", models.DateTimeField()),
                ("is_complete", models.BooleanField()),
                ("pods", models.JSONField(default=list)),
            ],
        ),
    ]
