"""The tripwire: a transaction that moves a balance by anything but the transfers it wrote fails at its commit.

Each UPDATE of an account is judged by itself: the transfers that carry its new numbers must add up to what the balance
moved by, whatever else happens in the transaction. A new wallet starts empty.
"""

from django.db import migrations

CREATE = """
CREATE FUNCTION billing_tripwire() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    moved numeric;
    found bigint;
BEGIN
    SELECT coalesce(sum(side.amount), 0), count(*) INTO moved, found
    FROM (
        SELECT amount FROM billing_transfer
        WHERE credit_id = NEW.id AND credit_number > OLD.entries AND credit_number <= NEW.entries
        UNION ALL
        SELECT -amount FROM billing_transfer
        WHERE debit_id = NEW.id AND debit_number > OLD.entries AND debit_number <= NEW.entries
    ) AS side;
    IF moved <> NEW.balance - OLD.balance OR found <> NEW.entries - OLD.entries THEN
        RAISE EXCEPTION 'account % moved by % with % entries, its transfers say % in %',
            NEW.id, NEW.balance - OLD.balance, NEW.entries - OLD.entries, moved, found
            USING ERRCODE = 'check_violation', CONSTRAINT = 'tripwire';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER tripwire AFTER UPDATE ON billing_account
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.balance IS DISTINCT FROM NEW.balance OR OLD.entries <> NEW.entries)
    EXECUTE FUNCTION billing_tripwire();

CREATE FUNCTION billing_starts_empty() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'account % does not start empty', NEW.id
        USING ERRCODE = 'check_violation', CONSTRAINT = 'starts_empty';
END
$$;
CREATE TRIGGER starts_empty BEFORE INSERT ON billing_account FOR EACH ROW
    WHEN (coalesce(NEW.balance, 0) <> 0 OR NEW.held <> 0 OR NEW.entries <> 0)
    EXECUTE FUNCTION billing_starts_empty();
"""
DROP = """
DROP TRIGGER starts_empty ON billing_account;
DROP FUNCTION billing_starts_empty();
DROP TRIGGER tripwire ON billing_account;
DROP FUNCTION billing_tripwire();
"""


class Migration(migrations.Migration):
    dependencies = [("billing", "0003_history_is_insert_only")]

    operations = [migrations.RunSQL(CREATE, DROP)]
