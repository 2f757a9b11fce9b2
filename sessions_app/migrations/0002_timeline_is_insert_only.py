"""Triggers that refuse to rewrite a session's timeline."""

from django.db import migrations

TRIGGERS = """
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON sessions_app_timelineentry
    FOR EACH ROW EXECUTE FUNCTION gshare_refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON sessions_app_timelineentry
    FOR EACH STATEMENT EXECUTE FUNCTION gshare_refuse_change();
"""
NO_TRIGGERS = """
DROP TRIGGER refuse_change ON sessions_app_timelineentry;
DROP TRIGGER refuse_truncate ON sessions_app_timelineentry;
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0001_sessions"), ("accounts", "0002_history_is_insert_only")]

    operations = [migrations.RunSQL(TRIGGERS, NO_TRIGGERS)]
