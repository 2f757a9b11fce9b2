"""Documents that stood there as one a session go on as one a session and cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import psycopg

from tests.services import Addresses, with_database

ROOT = Path(__file__).resolve().parents[3]
CLUSTER, SESSIONS = UUID(int=7), [UUID(int=11), UUID(int=12)]


def manage(environment: dict[str, str], *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_what_stood_there_gets_an_id_and_says_what_it_said(
    fresh_database: Callable[[str], dict[str, str]], services: Addresses
) -> None:
    serving = fresh_database("documents")
    owner = with_database(services.owner, urlsplit(serving["GSHARE_DATABASE_URL"]).path.removeprefix("/"))
    serving["GSHARE_MIGRATION_DATABASE_URL"] = owner
    manage({**serving, "GSHARE_DATABASE_URL": owner}, "migrate", "cluster", "0003", "--skip-checks")
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO cluster_cluster (id, name, kind, kubeconfig, state, token_epoch, storage_classes, created_at)"
            " VALUES (%s, 'old', 'local', '', 'connected', 1, '{}', now())",
            [CLUSTER],
        )
        for seq, session in enumerate(SESSIONS, start=1):
            connection.execute(
                "INSERT INTO cluster_desired (session_id, cluster_id, seq, run, generation, spec, written_at,"
                " observed_run, observed_generation) VALUES (%s, %s, %s, 2, 5, NULL, now(), 2, 4)",
                [session, CLUSTER, seq],
            )

    manage(serving, "migrate_all")

    with psycopg.connect(owner, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT id, session_id, run, generation, observed_generation, is_confirmed FROM cluster_desired ORDER BY seq"
        ).fetchall()
        primary = connection.execute(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indrelid = 'cluster_desired'::regclass AND i.indisprimary"
        ).fetchall()
    assert [(row[1], *row[2:]) for row in rows] == [(session, 2, 5, 4, False) for session in SESSIONS]
    assert {row[0].version for row in rows} == {7}
    assert len({row[0] for row in rows}) == 2
    assert primary == [("id",)]
