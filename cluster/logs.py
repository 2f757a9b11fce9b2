"""The last lines of a run's logs, asked of its cluster now.

Guarantees: nothing is kept; what is answered is plain text without the run's own credentials. Callers hold no transaction open.
"""

from __future__ import annotations

import base64
from uuid import UUID

from cluster import tokens
from cluster.adapters import port_of
from cluster.domain.logs import LogLine, read_log
from cluster.models import Cluster
from cluster.port import LOG_LINES_MAX, NoLogs
from gshare_core.contract import app_token


def tail(cluster_id: UUID, session: UUID, run: int, *, lines: int) -> tuple[LogLine, ...]:
    """The lines, the newest last. Raises `cluster.port`'s NoLogs, Rejected and Unavailable."""
    cluster = Cluster.objects.present().filter(pk=cluster_id).first()
    if cluster is None:
        raise NoLogs(f"cluster {cluster_id} was removed")
    text = port_of(cluster).logs(session, run, lines=min(lines, LOG_LINES_MAX))
    token = app_token(tokens.cluster_key(cluster.pk), session, run)
    basic = base64.b64encode(f"gshare:{token}".encode()).decode()
    return read_log(text, secrets=(token, basic))
