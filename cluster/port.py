"""The narrow port through which the control plane moves a cluster. These docstrings are the contract of every adapter.

All calls are level-triggered: they say what is wanted, may be repeated at any time and in any order, and leave it to the
cluster when it happens. What did happen arrives as reports and inventory, never as an answer of this port.
No call is made inside a database transaction that holds locks, unless an adapter says that it stays in the database.
Every call raises Unavailable, and Rejected where the cluster refuses us altogether (credentials, rights, what is not installed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from gshare_core.contract import DesiredDocument, ModeChangePhase
from gshare_core.contract.resources import ModeChange


class PortError(Exception):
    """A call that did not do what was asked; `str()` is fit for an operator, never for the public."""


class Unavailable(PortError):
    """The cluster could not be reached, or is busy. Nothing is known about the effect: try again later."""


class Rejected(PortError):
    """The cluster understood and refuses. The same call will be refused again: do not retry, tell somebody."""


class NoLogs(Rejected):
    """The cluster has no logs of that run: nothing of it has started, or all of it is gone."""


LOG_LINES_MAX = 500
LOG_CHARACTERS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Observed:
    """A document that the cluster has: of which run and generation, and whether it is a tombstone."""

    session: UUID
    run: int
    generation: int
    is_tombstone: bool


@dataclass(frozen=True, slots=True)
class ModeSeen:
    """A mode change that the cluster has, and what its operator says of it: nothing yet, or phase and words.

    `begun`: something on the node was changed, or may have been.
    """

    change: UUID
    phase: ModeChangePhase | None
    message: str
    begun: bool


class ClusterPort(Protocol):
    """What every kind of cluster can do."""

    def apply(self, document: DesiredDocument) -> None:
        """Make the cluster want this document.

        Idempotent. A document that is not newer than what the cluster has, by (run, generation), changes nothing. A
        tombstone ends whatever runs. Raises Unavailable, or Rejected when the cluster will never accept it.
        """
        ...

    def remove(self, session: UUID) -> None:
        """Make the cluster forget a session; only after its `gone` was acknowledged. Idempotent. Raises Unavailable."""
        ...

    def observe(self) -> Sequence[Observed]:
        """Every document that the cluster has now, by session. Raises Unavailable, never a part of the list."""
        ...

    def logs(self, session: UUID, run: int, *, lines: int) -> str:
        """The last lines that each of a run's applications wrote, the newest last, each as ``[application] line``.

        At most `lines` (`LOG_LINES_MAX`) of each, of its last `LOG_CHARACTERS_MAX` characters, unchanged but for bytes that are no
        text; lines end at line feeds alone. Answers or fails within seconds. Raises NoLogs when the cluster has none of that run,
        Unavailable when it cannot be asked.
        """
        ...

    def change_mode(self, change: UUID, wanted: ModeChange) -> None:
        """Make the cluster want that these cards of a node are cut so. What comes of it is told by `modes`.

        Idempotent. Raises Unavailable, and Rejected where no card can be cut another way.
        """
        ...

    def modes(self) -> Sequence[ModeSeen]:
        """Every mode change that the cluster has now, by its id. Raises Unavailable, never a part of the list."""
        ...

    def withdraw_mode(self, change: UUID) -> bool:
        """Make the cluster forget a mode change unless it has begun; False when it has.

        True also when it is not there: then nothing of it will begin any more. Idempotent. Raises Unavailable.
        """
        ...

    def forget_mode(self, change: UUID) -> None:
        """Make the cluster forget a mode change, whatever came of it. Idempotent. Raises Unavailable."""
        ...
