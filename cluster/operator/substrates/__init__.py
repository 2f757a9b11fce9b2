"""Where sessions run: the port between the pure `converge` and the machines. `local` is processes, `kubernetes` pods.

The docstrings of `Substrate` are the contract that every substrate keeps; `tests/unit/operator` holds one against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from cluster.operator.state import Pod
from gshare_core.contract import Activity, NodeRow, SessionSpec, VolumeRow

AppTokens = Callable[[UUID, int], str]
"""The app token of (session, run); raises `Unavailable` while the cluster key is not known."""


class Substrate(Protocol):
    """Makes, shows and ends pods. Every method may be called again with the same arguments.

    All raise `Unavailable` when the machine cannot answer; nothing is to be concluded from that.
    """

    async def observe(self, now: datetime) -> Sequence[Pod]:
        """Every pod that exists, wanted or not, of any session and run, also dead ones until they are removed.

        A pod that cannot be examined raises or is shown; it is never left out, since absence means gone.
        Restarts what crashed, with back-off, unless the pod is stopping or its program has exited.
        """
        ...

    def take_turn(self, spec: SessionSpec) -> None:
        """Before a start: raises `Later` while it has to wait for others. Asks nobody, so that waiting costs nothing."""
        ...

    async def start(self, spec: SessionSpec, now: datetime) -> None:
        """Make the pod of the document's run; nothing when it exists.

        What can never start here is shown as a pod with `trouble` instead of being raised.
        """
        ...

    async def open(self, spec: SessionSpec) -> None:
        """Make what leads to the pod of the document's run (`Pod.is_open`); nothing where it is there already.

        What can never be made here is shown as the pod's `trouble` instead of being raised.
        """
        ...

    async def stop(self, session: UUID, run: int, now: datetime) -> None:
        """Ask the pod to end, remember since when, start nothing of it again; nothing when it does not exist."""
        ...

    async def kill(self, session: UUID, run: int) -> None:
        """End everything of the pod without asking."""
        ...

    async def remove(self, session: UUID, run: int) -> None:
        """Forget a dead pod and its scratch; volumes stay. Nothing while something of it is alive."""
        ...

    async def nodes(self, now: datetime) -> Sequence[NodeRow]:
        """Every node with its cards and what pods hold of them."""
        ...

    async def remove_volume(self, claim: str) -> None:
        """Remove a storage claim and what is in it. Nothing where there is none, or while any pod mounts it.

        May go on after the call; a claim is listed by `volumes` until nothing of it is left. Raises ValueError for what is not a claim's name.
        """
        ...

    async def volumes(self) -> Sequence[VolumeRow]:
        """Every storage claim that exists."""
        ...


class ActivitySource(Protocol):
    """Samples what sessions do; a substrate that cannot is given without one, and nothing on it is ever idle."""

    async def activity(self, now: datetime) -> Mapping[tuple[UUID, int], Activity]:
        """A sample of every pod that is up, by session and run. One that cannot be taken is left out."""
        ...
