"""Whether this side was listening: our own silence is nobody's.

Guarantees: `deaf_time` is how long nobody listened within a stretch of time. Whoever judges a silence or a deadline that
a cluster could have met adds it first. Several listeners stamp the same row: deaf means that none of them did.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, close_old_connections, connection, transaction

from cluster.models import Deafness, Heartbeat
from gshare_core.kit import clock

logger = structlog.get_logger(__name__)

INTERNAL = "internal"
_KEPT = timedelta(days=7)
# The last stamp, beside every gap that touches a stretch of time: sweeps ask it for each row they judge.
_HEARD = """
    SELECT gap.since, gap.until, heard.stamped_at
    FROM cluster_heartbeat heard
    LEFT JOIN cluster_deafness gap ON gap.until > %(since)s AND gap.since < %(until)s
    WHERE heard.name = %(name)s
    ORDER BY gap.since
"""


def stamp(at: datetime) -> None:
    """Say that the internal listener listens; where stamps were missing for more than two periods, note the gap."""
    with transaction.atomic():
        row, made = Heartbeat.objects.select_for_update(no_key=True).get_or_create(
            name=INTERNAL, defaults={"stamped_at": at}
        )
        if made or at <= row.stamped_at:
            return
        if at - row.stamped_at > _tolerance():
            Deafness.objects.create(since=row.stamped_at, until=at)
            Deafness.objects.filter(until__lt=at - _KEPT).delete()
        row.stamped_at = at
        row.save(update_fields=["stamped_at"])


def deaf_gaps(since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
    """The stretches between two moments in which nobody listened, oldest first; the whole when nobody ever did."""
    if until <= since:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_HEARD, {"name": INTERNAL, "since": since, "until": until})
        rows = cursor.fetchall()
    stamped_at = rows[0][2] if rows else None
    if stamped_at is None:
        return [(since, until)]
    gaps = [(max(start, since), min(end, until)) for start, end, _stamp in rows if start is not None]
    if until - stamped_at > _tolerance():
        gaps.append((max(stamped_at, since), until))
    return gaps


def deaf_time(since: datetime, until: datetime) -> timedelta:
    """How much of the time between two moments nobody listened; all of it when nobody ever did."""
    deaf = sum((end - start for start, end in deaf_gaps(since, until)), timedelta(0))
    return min(deaf, max(until - since, timedelta(0)))


def silent_for(since: datetime, at: datetime) -> timedelta:
    """How long somebody has been silent who last spoke at `since`, our own deafness apart."""
    return max(at - since, timedelta(0)) - deaf_time(since, at)


class Stamping:
    """Stamps every `heartbeat_period` from a thread of its own until stopped; a database that is down is tried again."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the last stamp."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        period = settings.GSHARE.heartbeat_period.total_seconds()
        while True:
            try:
                stamp(clock.now())
            except (OperationalError, InterfaceError) as error:
                logger.warning("heartbeat_not_stamped", error=str(error))
            finally:
                close_old_connections()
                connection.close()
            if self._stop.wait(period):
                return


def _tolerance() -> timedelta:
    return 2 * settings.GSHARE.heartbeat_period
