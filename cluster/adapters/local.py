"""A cluster whose operator pulls its documents: the row is the delivery.

Guarantees: `apply` and `remove` stay in the database, so they may be called inside a transaction; what they wrote is
delivered by the operator's next poll. Logs are read from the operator's folder on this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.db import InterfaceError, OperationalError

from cluster.domain.logs import last_lines
from cluster.models import Cluster, Desired
from cluster.port import LOG_CHARACTERS_MAX, LOG_LINES_MAX, ModeSeen, NoLogs, Observed, Rejected, Unavailable
from cluster.services.documents import drop_desired, write_desired
from gshare_core.contract import DesiredDocument, session_name
from gshare_core.contract.resources import ModeChange
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered


class LocalCluster:
    """`ClusterPort` over the desired documents' table. `pods` is the operator's folder of pods."""

    def __init__(self, cluster: Cluster, *, pods: Path | None = None) -> None:
        self._cluster = cluster
        self._pods = pods or settings.GSHARE.home / "operator" / "pods"

    def apply(self, document: DesiredDocument) -> None:
        """See `ClusterPort.apply`. Rejects documents for a cluster that was removed."""
        if self._cluster.removed_at is not None:
            raise Rejected(f"{self._cluster.name} was removed")
        try:
            with ordered():
                write_desired(
                    session_id=document.session,
                    cluster_id=self._cluster.pk,
                    spec=document.spec,
                    at=clock.now(),
                    run=document.run,
                    generation=document.generation,
                )
        except (OperationalError, InterfaceError) as error:
            raise Unavailable(str(error)) from error

    def remove(self, session: UUID) -> None:
        """See `ClusterPort.remove`."""
        try:
            drop_desired(session, cluster_id=self._cluster.pk)
        except (OperationalError, InterfaceError) as error:
            raise Unavailable(str(error)) from error

    def observe(self) -> Sequence[Observed]:
        """See `ClusterPort.observe`."""
        try:
            rows = list(Desired.objects.filter(cluster_id=self._cluster.pk).order_by("session_id"))
        except (OperationalError, InterfaceError) as error:
            raise Unavailable(str(error)) from error
        return [Observed(row.session_id, row.run, row.generation, row.spec is None) for row in rows]

    def logs(self, session: UUID, run: int, *, lines: int) -> str:
        """See `ClusterPort.logs`. Lines are told apart by the application that wrote them."""
        folder = self._pods / f"{session_name(session)}.{run}"
        try:
            tails = [(path.stem, _tail(path, lines)) for path in sorted(folder.glob("*.log"))]
        except OSError as error:
            raise Unavailable(f"the operator's folder cannot be read: {error.strerror}") from error
        if not tails:
            raise NoLogs(f"there are no logs of run {run} of session {session}")
        return "\n".join(f"[{app}] {line}" for app, tail in tails for line in tail)

    def change_mode(self, change: UUID, wanted: ModeChange) -> None:
        """See `ClusterPort.change_mode`. Processes share these cards as they are: nothing here could cut them by MIG."""
        raise Rejected(f"{self._cluster.name} is local: its cards are not cut")

    def modes(self) -> Sequence[ModeSeen]:
        """See `ClusterPort.modes`. None is ever taken."""
        return []

    def withdraw_mode(self, change: UUID) -> bool:
        """See `ClusterPort.withdraw_mode`."""
        return True

    def forget_mode(self, change: UUID) -> None:
        """See `ClusterPort.forget_mode`."""


def _tail(path: Path, lines: int) -> list[str]:
    """A character is four bytes at most: that many, and one more to see that something was cut."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 4 * LOG_CHARACTERS_MAX - 1))
        text = file.read(4 * LOG_CHARACTERS_MAX + 1).decode(errors="replace")
    return last_lines(text, min(lines, LOG_LINES_MAX), LOG_CHARACTERS_MAX)
