"""One document a session and cluster: what a silent cluster shall end stays written while the session runs elsewhere."""

from django.db import migrations, models

import gshare_core.ids

BATCH = 1_000


def give_ids(apps, schema_editor):
    """Idempotent: only rows without an id get one."""
    desired = apps.get_model("cluster", "Desired").objects.using(schema_editor.connection.alias)
    while rows := list(desired.filter(id=None)[:BATCH]):
        for row in rows:
            row.id = gshare_core.ids.uuid7()
        desired.bulk_update(rows, ["id"])


class Migration(migrations.Migration):
    dependencies = [
        ("cluster", "0003_earmarks"),
    ]

    operations = [
        migrations.AddField(
            model_name="desired",
            name="id",
            field=models.UUIDField(null=True, editable=False, default=None),
        ),
        migrations.RunPython(give_ids, migrations.RunPython.noop),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    """
                    ALTER TABLE cluster_desired ALTER COLUMN id SET NOT NULL;
                    ALTER TABLE cluster_desired DROP CONSTRAINT cluster_desired_pkey;
                    ALTER TABLE cluster_desired ADD CONSTRAINT cluster_desired_pkey PRIMARY KEY (id);
                    """,
                    """
                    ALTER TABLE cluster_desired DROP CONSTRAINT cluster_desired_pkey;
                    ALTER TABLE cluster_desired ADD CONSTRAINT cluster_desired_pkey PRIMARY KEY (session_id);
                    ALTER TABLE cluster_desired ALTER COLUMN id DROP NOT NULL;
                    """,
                ),
            ],
            state_operations=[
                migrations.AlterField(
                    model_name="desired",
                    name="session_id",
                    field=models.UUIDField(),
                ),
                migrations.AlterField(
                    model_name="desired",
                    name="id",
                    field=models.UUIDField(
                        default=gshare_core.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="desired",
            constraint=models.UniqueConstraint(
                fields=("session_id", "cluster"), name="desired_one_of_session_and_cluster"
            ),
        ),
    ]
