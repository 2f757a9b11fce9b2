"""Triggers that refuse to rewrite history. `gshare_refuse_change()` serves the insert-only tables of every app."""

from django.db import migrations

FUNCTION = """
CREATE FUNCTION gshare_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The role that owns the table migrates and cleans up; nobody else changes what was written.
    IF current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% on % is refused: its rows are never changed', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;
"""
TRIGGERS = """
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION gshare_refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION gshare_refuse_change();
"""
NO_TRIGGERS = """
DROP TRIGGER refuse_change ON {table};
DROP TRIGGER refuse_truncate ON {table};
"""


class Migration(migrations.Migration):
    dependencies = [("accounts", "0001_people_places_limits_audit")]

    operations = [
        migrations.RunSQL(FUNCTION, "DROP FUNCTION gshare_refuse_change();"),
        *(
            migrations.RunSQL(TRIGGERS.format(table=table), NO_TRIGGERS.format(table=table))
            for table in ("accounts_auditentry", "accounts_auditseal")
        ),
    ]
