"""Who makes way for a kept place, and when."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0006_rights_to_volumes_taken_away")]

    operations = [migrations.AddField("earmark", "leaving", models.JSONField(default=dict))]
