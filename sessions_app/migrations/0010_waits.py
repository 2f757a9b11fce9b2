"""What a gate that passes somebody over said, and an index for how long runs waited."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0009_run_activity")]

    operations = [
        migrations.AddField("queueentry", "facts", models.JSONField(default=dict)),
        migrations.AddIndex("run", models.Index(fields=["opened_at"], name="run_opened")),
    ]
