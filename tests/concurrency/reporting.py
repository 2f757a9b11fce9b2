"""What the cluster of a session's run says of it, in the words of its operator."""

from __future__ import annotations

from gshare_core.contract import Phase, Reason, StatusReport
from gshare_core.kit import clock
from sessions_app import reports
from sessions_app.models import Run, Session


def report(
    session: Session, phase: str, reason: str | None = None, *, run: int | None = None, ready: bool = False
) -> None:
    """What the cluster of a run says of it now; nothing for a run that never was placed."""
    number = session.run_number if run is None else run
    row = Run.objects.filter(session=session, number=number).exclude(cluster=None).first()
    if row is None or row.cluster_id is None:
        return
    now = clock.now()
    body = StatusReport(
        run=number,
        generation=session.generation,
        sequence=int(now.timestamp() * 1_000_000),
        phase=Phase(phase),
        reason=Reason(reason) if reason else None,
        node=row.node,
        ready_at=now if ready else None,
        last_alive_at=now,
        observed_at=now,
        sent_at=now,
    )
    reports.receive_status(row.cluster_id, session.pk, body)
