"""Writing what is wanted of a session where its cluster finds it.

Guarantees: one document a session and cluster, so that the end of a run on a cluster that is silent stays written while
the next run is elsewhere; a document never gives way to an older one; its number comes from the cluster's counter, so that a follower
meets the changes in the order of their commits; a tombstone stays until it is dropped. The session's lock, which the
caller holds, covers the row. A cluster that does not fetch its documents is told after the commit (`cluster.delivery`).
Refuses to run outside `locks.ordered()`; call late, after NODE and CARD.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from psycopg.types.json import Jsonb

from cluster import hints
from cluster.models import Desired
from cluster.sequence import ADVANCE, advance
from gshare_core.contract import SessionSpec
from gshare_core.ids import uuid7
from gshare_core.kit.locks import Rank, note
from gshare_core.kit.parameters import wide
from gshare_core.kit.rows import Prepared, counts, prepared, sample, upsert, write

_KNOWN = Prepared(
    lambda session, cluster: Desired.objects.filter(session_id=session, cluster_id=cluster), sample(1), sample(2)
)
# One statement, which writes only what is new: every report runs it.
_ACCEPT = """
    WITH known AS (
        SELECT id, (observed_run, observed_generation) < (%(run)s, %(generation)s) AS is_newer,
            accepted_at IS NULL AND (run, generation) <= (%(run)s, %(generation)s) AS is_accepted
        FROM cluster_desired WHERE session_id = %(session)s AND cluster_id = %(cluster)s FOR NO KEY UPDATE
    )
    UPDATE cluster_desired AS document SET
        observed_run = CASE WHEN is_newer THEN %(run)s ELSE observed_run END,
        observed_generation = CASE WHEN is_newer THEN %(generation)s ELSE observed_generation END,
        observed_at = CASE WHEN is_newer THEN %(at)s ELSE observed_at END,
        accepted_at = CASE WHEN is_accepted THEN greatest(written_at, %(at)s) ELSE accepted_at END
    FROM known WHERE document.id = known.id AND (is_newer OR is_accepted)
    RETURNING is_accepted
"""
_PUT = f"""
    WITH counter AS ({ADVANCE})
    INSERT INTO cluster_desired AS known (id, session_id, cluster_id, seq, run, generation, spec, written_at, is_confirmed,
        observed_run, observed_generation)
    SELECT %s, %s, %s, counter.last, %s, %s, %s, %s, false, 0, 0 FROM counter
    ON CONFLICT (session_id, cluster_id) DO UPDATE SET seq = excluded.seq, run = excluded.run,
        generation = excluded.generation, spec = excluded.spec, is_confirmed = excluded.is_confirmed,
        written_at = excluded.written_at, accepted_at = excluded.accepted_at
    WHERE (known.run, known.generation) < (excluded.run, excluded.generation)
"""  # noqa: S608 -- no outside text
_WRITTEN = ("seq", "run", "generation", "spec", "is_confirmed", "written_at", "accepted_at")


def write_desired(
    *,
    session_id: UUID,
    cluster_id: UUID,
    spec: SessionSpec | None,
    at: datetime,
    run: int | None = None,
    generation: int | None = None,
) -> int | None:
    """Put a session's document for a cluster in place; without `spec` a tombstone that ends `run` and `generation`.

    Returns its number, or None when what stands there is as new or newer. A tombstone without run and generation ends
    those of the document that it replaces, and nothing when there is none.
    """
    known = _KNOWN.first(session_id, cluster_id)
    order = _order(spec, run, generation, known)
    if order is None or _is_old(order, spec, known):
        return None
    document = Desired(session_id=session_id, cluster_id=cluster_id, run=order[0], generation=order[1], written_at=at)
    document.spec = None if spec is None else spec.to_wire()
    return _put(document)


def put_desired(*, session_id: UUID, cluster_id: UUID, spec: SessionSpec, at: datetime) -> None:
    """What `write_desired` does with a document, without waiting for its number. One statement."""
    note(Rank.CLUSTER_SEQUENCE, cluster_id)
    run, generation = spec.order
    write(_PUT, [cluster_id, 1, uuid7(), session_id, cluster_id, run, generation, Jsonb(spec.to_wire()), at])
    hints.document_written(cluster_id)


def write_tombstone(
    *, session_id: UUID, cluster_id: UUID, run: int, generation: int, at: datetime, confirmed: bool
) -> int | None:
    """End a run of a session that nobody wants on a cluster; `confirmed` when an administrator has said that it is meant.

    Returns its number, or None when what stands there is newer, or is this tombstone already.
    """
    known = _of(session_id, cluster_id).first()
    if known is not None and (run, generation) < known.order:
        return None
    if (
        known is not None
        and known.spec is None
        and known.order == (run, generation)
        and known.is_confirmed >= confirmed
    ):
        return None
    document = Desired(session_id=session_id, cluster_id=cluster_id, run=run, generation=generation, written_at=at)
    document.is_confirmed = confirmed
    return _put(document)


def _put(document: Desired) -> int:
    document.seq = advance(document.cluster_id)
    upsert(document, on=("session_id", "cluster"), names=_WRITTEN)
    hints.document_written(document.cluster_id)
    return document.seq


def accept_desired(*, session_id: UUID, cluster_id: UUID, run: int, generation: int, at: datetime) -> bool:
    """Record what the cluster's operator has observed; True when the document that stands there counts as accepted by it."""
    known = {"session": session_id, "cluster": cluster_id, "run": run, "generation": generation, "at": at}
    with prepared() as cursor:
        cursor.execute(_ACCEPT, wide(known))
        found = cursor.fetchone()
    return found is not None and bool(found[0])


def drop_desired(session_id: UUID, *, cluster_id: UUID, run: int | None = None) -> bool:
    """Forget a session's document for a cluster: its `gone` was acknowledged and nothing of it will come again.

    With `run` only if it is that run's or an earlier one's: what is wanted of a later one stays.
    """
    return counts([(_DROP, [session_id, cluster_id, _ANY_RUN if run is None else run])]) != [0]


def drop_tombstone(session_id: UUID, *, cluster_id: UUID, run: int) -> None:
    """Forget a tombstone whose end the cluster has confirmed; a document that wants something stays."""
    write(f"{_DROP} AND spec IS NULL", [session_id, cluster_id, run])


_DROP = "DELETE FROM cluster_desired WHERE session_id = %s AND cluster_id = %s AND run <= %s"
_ANY_RUN = 2**31 - 1


def _of(session_id: UUID, cluster_id: UUID) -> QuerySet[Desired]:
    return Desired.objects.filter(session_id=session_id, cluster_id=cluster_id)


def _order(
    spec: SessionSpec | None, run: int | None, generation: int | None, known: Desired | None
) -> tuple[int, int] | None:
    if spec is not None:
        return spec.order
    if run is not None and generation is not None:
        return (run, generation)
    return known.order if known is not None else None


def _is_old(order: tuple[int, int], spec: SessionSpec | None, known: Desired | None) -> bool:
    """A tombstone may end the very document that stands there; a document must be newer."""
    if known is None or order > known.order:
        return False
    return order < known.order or spec is not None or known.spec is None
