"""What is told of a session's changes: a row of its timeline, and a poke for who may be watching.

Guarantees: a row says who caused what and what it did to the money; pokes go out after the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gshare_core.kit import live
from gshare_core.kit.rows import insert
from sessions_app.domain.lifecycle import Event, State
from sessions_app.models import Session, TimelineEntry

SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a session changes: the event, who caused it (an e-mail, a cluster or `system`), the typed reason, words."""

    event: Event
    by: str = SYSTEM
    reason: str = ""
    detail: str = ""


@dataclass(slots=True)
class Money:
    """What a change did to the money, for its timeline row; `run` is the one that was settled."""

    run: int | None = None
    charged: int = 0
    held: int = 0
    billed_from: datetime | None = None
    billed_to: datetime | None = None


def record(session: Session, cause: Cause, *, at: datetime, money: Money, before: State | None = None) -> None:
    """Append a timeline row."""
    entry = TimelineEntry(
        session=session,
        run=money.run or session.run_number,
        at=at,
        event=cause.event,
        from_state=before or "",
        to_state=session.state if before or cause.event in {Event.PLACED, Event.ENQUEUED} else "",
        actor=cause.by,
        reason=cause.reason,
        detail=cause.detail,
        charged=money.charged,
        held=money.held,
        billed_from=money.billed_from,
        billed_to=money.billed_to,
    )
    insert(entry)


def announce(session: Session) -> None:
    """Poke who may be watching, after the commit."""
    live.poke(f"session:{session.pk}", session.version)
    for kind in ("sessions", "queue"):
        live.poke(f"{kind}:{session.owner_id}")
        live.poke(f"{kind}:organisation:{session.organisation_id}")
        live.poke(f"{kind}:all")
    live.poke(f"wallet:{session.owner_id}")
