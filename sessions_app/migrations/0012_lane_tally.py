"""How long a lane is, told by triggers that note who joins and leaves it: counting 50,000 entries takes as long as ten admissions."""

from django.db import migrations, models

TRIGGERS = """
CREATE FUNCTION sessions_app_tally_joined() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessions_app_lanetally (lane, change) SELECT lane, count(*) FROM joined GROUP BY lane;
    RETURN NULL;
END $$;
CREATE FUNCTION sessions_app_tally_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessions_app_lanetally (lane, change) SELECT lane, -count(*) FROM gone GROUP BY lane;
    RETURN NULL;
END $$;
CREATE FUNCTION sessions_app_tally_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO sessions_app_lanetally (lane, change) VALUES (OLD.lane, -1), (NEW.lane, 1);
    RETURN NULL;
END $$;
CREATE TRIGGER tally_joined AFTER INSERT ON sessions_app_queueentry
    REFERENCING NEW TABLE AS joined FOR EACH STATEMENT EXECUTE FUNCTION sessions_app_tally_joined();
CREATE TRIGGER tally_left AFTER DELETE ON sessions_app_queueentry
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION sessions_app_tally_left();
CREATE TRIGGER tally_moved AFTER UPDATE OF lane ON sessions_app_queueentry
    FOR EACH ROW WHEN (OLD.lane IS DISTINCT FROM NEW.lane) EXECUTE FUNCTION sessions_app_tally_moved();
INSERT INTO sessions_app_lanetally (lane, change) SELECT lane, count(*) FROM sessions_app_queueentry GROUP BY lane;
"""
NO_TRIGGERS = """
DROP TRIGGER tally_joined ON sessions_app_queueentry;
DROP TRIGGER tally_left ON sessions_app_queueentry;
DROP TRIGGER tally_moved ON sessions_app_queueentry;
DROP FUNCTION sessions_app_tally_joined();
DROP FUNCTION sessions_app_tally_left();
DROP FUNCTION sessions_app_tally_moved();
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0011_preemption")]

    operations = [
        migrations.CreateModel(
            name="LaneTally",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("lane", models.CharField(db_index=True, max_length=200)),
                ("change", models.BigIntegerField()),
            ],
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
