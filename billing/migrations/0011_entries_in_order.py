"""The view of wallets' entries without conditions of its own: with them PostgreSQL reads and sorts all of a wallet's, however few are asked for.

(It merges the arms of a UNION ALL by their indexes only where an arm has no WHERE.) Who asks leaves out sides without a number,
which are not wallets'.
"""

from django.db import migrations

ARMS = """
CREATE OR REPLACE VIEW billing_entry WITH (security_invoker = true) AS
    SELECT id, debit_id AS wallet_id, debit_number AS entry_number, debit_balance AS balance_after, -amount AS change,
        at, kind, debit_id, credit_id, amount, reference, label, note, actor_id, key, id AS posting_id
    FROM billing_transfer {debit}
    UNION ALL
    SELECT id, credit_id, credit_number, credit_balance, amount,
        at, kind, debit_id, credit_id, amount, reference, label, note, actor_id, key, id
    FROM billing_transfer {credit}
"""
PLAIN = ARMS.format(debit="", credit="")
BEFORE = ARMS.format(debit="WHERE debit_number IS NOT NULL", credit="WHERE credit_number IS NOT NULL")


class Migration(migrations.Migration):
    dependencies = [("billing", "0010_entries_of_wallets")]

    operations = [migrations.RunSQL(PLAIN, BEFORE)]
