"""Empties the tables after a test that committed, as the owner: the serving role can neither TRUNCATE nor touch history.

Rows that migrations put in are put back, so every test starts from the migrated schema.
"""

import psycopg
from psycopg import sql

KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission"})


class Cleaner:
    """Remembers what a freshly migrated database holds and restores it."""

    def __init__(self, owner_url: str) -> None:
        self.connection = psycopg.connect(owner_url, autocommit=True, application_name="gshare-tests-cleaner")
        self.connection.execute("SET lock_timeout = '20s'")
        self.tables = [
            row[0]
            for row in self.connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
            if row[0] not in KEPT
        ]
        self.baseline = {table: rows for table in self.tables if (rows := self._copy_out(table))}

    def clean(self) -> None:
        """Empty every table in one statement and restore the migrated rows, in one transaction."""
        if not self.tables:
            return
        with self.connection.transaction():
            names = sql.SQL(", ").join(sql.Identifier(table) for table in self.tables)
            self.connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(names))
            for table, rows in self.baseline.items():
                with self.connection.cursor() as cursor:
                    with cursor.copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(table))) as copy:
                        copy.write(rows)

    def close(self) -> None:
        self.connection.close()

    def _copy_out(self, table: str) -> bytes:
        with self.connection.cursor() as cursor:
            with cursor.copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(table))) as copy:
                return b"".join(bytes(block) for block in copy)
