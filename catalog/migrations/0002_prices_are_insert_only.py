"""A trigger that refuses to change a price that was once set; a new revision supersedes it."""

from django.db import migrations

TRIGGERS = """
CREATE TRIGGER refuse_change BEFORE UPDATE OR DELETE ON catalog_pricerevision
    FOR EACH ROW EXECUTE FUNCTION gshare_refuse_change();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON catalog_pricerevision
    FOR EACH STATEMENT EXECUTE FUNCTION gshare_refuse_change();
"""
NO_TRIGGERS = """
DROP TRIGGER refuse_change ON catalog_pricerevision;
DROP TRIGGER refuse_truncate ON catalog_pricerevision;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0001_offerings_prices_presets_images"),
        ("accounts", "0002_history_is_insert_only"),
    ]

    operations = [migrations.RunSQL(TRIGGERS, NO_TRIGGERS)]
