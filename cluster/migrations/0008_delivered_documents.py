"""How far documents were handed to a cluster that does not fetch them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0007_earmark_leaving")]

    operations = [migrations.AddField("cluster", "delivered_seq", models.BigIntegerField(default=0))]
