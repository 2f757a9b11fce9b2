from django.db import migrations, models


class Migration(migrations.Migration):
    """What a cluster has seen of a session that these rows have not: the next run is numbered above it."""

    dependencies = [
        ("sessions_app", "0006_shapes_of_the_line"),
    ]

    operations = [
        migrations.AddField("session", "run_floor", models.PositiveIntegerField(default=0)),
    ]
