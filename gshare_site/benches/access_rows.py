"""Rows for `bench access`: `python -m gshare_site.benches.access_rows N` makes N running sessions and prints the cookies.

A process of its own, because it serves the throw-away database and its secrets.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime

import django


def main(count: int) -> None:
    """Make the rows, print `[[host, cookie, authorization], …]`."""
    from accounts.models import Group, Membership, Organisation, User  # noqa: PLC0415 -- after django.setup()
    from catalog.models import Image  # noqa: PLC0415 -- likewise
    from cluster.models import Cluster  # noqa: PLC0415 -- likewise
    from cluster.tokens import cluster_key  # noqa: PLC0415 -- likewise
    from gshare_core.contract import app_token  # noqa: PLC0415 -- likewise
    from sessions_app import access  # noqa: PLC0415 -- likewise
    from sessions_app.domain.access import Grant  # noqa: PLC0415 -- likewise
    from sessions_app.models import Run, Session  # noqa: PLC0415 -- likewise

    at = datetime.now(UTC)
    organisation = Organisation.objects.create(name="Bench", created_at=at)
    group = Group.objects.create(organisation=organisation, name="Bench", created_at=at)
    cluster = Cluster.objects.create(name="bench", kind="local", state="connected", created_at=at)
    image = Image.objects.create(name="bench", reference=f"registry.example/bench@sha256:{'0' * 64}", apps=["lab"])
    users = [
        User(email=f"u{i}@bench.example", name=f"u{i}", organisation=organisation, created_at=at) for i in range(count)
    ]
    User.objects.bulk_create(users, batch_size=2000)
    Membership.objects.bulk_create(
        [Membership(user=user, group=group, role="member", created_at=at) for user in users], batch_size=2000
    )
    sessions = [
        Session(
            name="bench",
            owner=user,
            group=group,
            organisation=organisation,
            mode="cpu",
            image=image,
            cluster=cluster,
            cpu_milli=1000,
            memory_mib=1024,
            scratch_gib=1,
            state="running",
            run_number=1,
            state_since=at,
            created_at=at,
        )
        for user in users
    ]
    Session.objects.bulk_create(sessions, batch_size=2000)
    Run.objects.bulk_create(
        [
            Run(session=session, number=1, cluster=cluster, opened_at=at, endpoints={"lab": "127.0.0.1:1"})
            for session in sessions
        ],
        batch_size=2000,
    )
    now, key, visitors = int(time.time()), cluster_key(cluster.pk), []
    for session in sessions:
        host = access.session_host(session.pk)
        grant = Grant(session.pk, session.owner_id, 1, host, 0, issued=now, renewed=now, until=now + 36_000)
        visitors.append((host, access.write_cookie(grant), f"token {app_token(key, session.pk, 1)}"))
    json.dump(visitors, sys.stdout)


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]))
