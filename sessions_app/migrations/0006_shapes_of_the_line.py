"""Name the shape of everybody who waits already."""

from django.db import migrations

_NAME = """
    UPDATE sessions_app_queueentry q
    SET shape = concat_ws(':', s.mode, s.cards, s.vram_mib, s.core_milli, s.cpu_milli, s.memory_mib, s.scratch_gib, 0)
    FROM sessions_app_session s
    WHERE s.id = q.session_id AND q.shape = ''
"""


class Migration(migrations.Migration):
    dependencies = [("sessions_app", "0005_line")]

    operations = [migrations.RunSQL(_NAME, migrations.RunSQL.noop)]
