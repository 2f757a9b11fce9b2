from django.db import migrations, models


class Migration(migrations.Migration):
    """When a paused session is tried again by itself."""

    dependencies = [
        ("sessions_app", "0007_run_floor"),
    ]

    operations = [
        migrations.AddField("session", "resume_at", models.DateTimeField(null=True)),
        migrations.AddField("session", "woken_at", models.DateTimeField(null=True)),
        migrations.AddIndex(
            "session",
            models.Index(
                condition=models.Q(("resume_at", None), _negated=True),
                fields=["resume_at", "id"],
                name="session_resume_at",
            ),
        ),
    ]
