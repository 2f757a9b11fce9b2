"""Triggers that refuse to change what a trial balance found."""

from django.db import migrations

TRIGGERS = """
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON billing_checkpoint
    FOR EACH ROW EXECUTE FUNCTION gshare_refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON billing_checkpoint
    FOR EACH STATEMENT EXECUTE FUNCTION gshare_refuse_change();
"""
NO_TRIGGERS = """
DROP TRIGGER refuse_change ON billing_checkpoint;
DROP TRIGGER refuse_truncate ON billing_checkpoint;
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0008_trial_balance_checkpoints")]

    operations = [migrations.RunSQL(TRIGGERS, NO_TRIGGERS)]
