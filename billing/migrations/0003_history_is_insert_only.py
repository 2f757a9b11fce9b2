"""Triggers that refuse to change what was written: transfers, postings, alerts."""

from django.db import migrations

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
    dependencies = [
        ("billing", "0002_fixed_accounts"),
        ("accounts", "0002_history_is_insert_only"),
    ]

    operations = [
        migrations.RunSQL(TRIGGERS.format(table=table), NO_TRIGGERS.format(table=table))
        for table in ("billing_transfer", "billing_posting", "billing_budgetalert")
    ]
