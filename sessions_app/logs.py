"""A session's logs for who may see the session: the last lines of a run, asked of its cluster at this moment.

Guarantees: a cluster that does not answer, or refuses us, is an answer in words, within seconds; why exactly is told to operators
(in our log), never to the public.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import structlog

from cluster import logs
from cluster.domain.logs import LogLine
from cluster.port import NoLogs, PortError, Unavailable
from gshare_core.errors import not_found
from sessions_app.models import Run, Session

logger = structlog.get_logger(__name__)

LINES = 200


class Said(StrEnum):
    """What was found."""

    LINES = "lines"
    QUIET = "quiet"  # it runs, and has written nothing
    NOT_YET = "not_yet"
    GONE = "gone"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a run's logs; `lines`, the newest last, where `said` is LINES. `run` 0: there was none."""

    run: int
    said: Said
    lines: tuple[LogLine, ...] = ()


def look(session: Session, *, run: int | None = None, lines: int = LINES) -> Look:
    """The last lines of a run, of the current one unless it is named. Raises DomainError `not_found` for a run that never was.

    Called outside of transactions: it waits for the cluster.
    """
    number = session.run_number if run is None else run
    found = Run.objects.filter(session=session, number=number).first()
    if found is None:
        if run is None:
            return Look(0, Said.NOT_YET)
        raise not_found("run")
    if found.cluster_id is None or found.placed_at is None:
        return Look(number, Said.GONE if found.closed_at else Said.NOT_YET)
    try:
        tail = logs.tail(found.cluster_id, session.pk, number, lines=lines)
    except NoLogs:
        return Look(number, Said.GONE if found.closed_at or found.gone_at else Said.NOT_YET)
    except PortError as error:
        kind = Said.UNAVAILABLE if isinstance(error, Unavailable) else Said.REFUSED
        logger.warning("logs_not_shown", cluster=str(found.cluster_id), session=str(session.pk), why=str(error))
        return Look(number, kind)
    return Look(number, Said.LINES if tail else Said.QUIET, tail)
