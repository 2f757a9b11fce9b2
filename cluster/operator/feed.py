"""What the control plane wants: the desired documents, followed by a long poll.

Guarantees: everything is read at the start, again every five minutes and after an outage of a minute, changes in
between as they come; a row that
cannot be read leaves the document before it in force; a document that is missing from a full reading is dropped, which
ends nothing (`converge` takes silence for silence).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from cluster.operator.client import Refused
from cluster.operator.pace import BackOff
from cluster.operator.state import Unavailable
from gshare_core.contract import BadRow, DesiredDocument, DesiredFeed

log = logging.getLogger(__name__)

WAIT_SECONDS = 20
REREAD_SECONDS = 300.0
OUTAGE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05  # a source that answers at once must not be asked without a breath


class Source(Protocol):
    """Whoever has the documents."""

    async def desired(self, after: int, wait_seconds: int) -> tuple[DesiredFeed, tuple[BadRow, ...]]:
        """Documents after a sequence number; raises `Unavailable` or `Refused`."""
        ...


class Wishes:
    """The newest document of each session; `complete` once everything was read since the start.

    `removed_volumes`: the claims that the last reading named as given up; none while nothing can be read, since what an
    old answer said must not be acted upon. `cordoned_nodes` likewise; None while nothing is known about them.
    """

    def __init__(self) -> None:
        self.documents: dict[UUID, DesiredDocument] = {}
        self.removed_volumes: frozenset[str] = frozenset()
        self.cordoned_nodes: frozenset[str] | None = None
        self.complete = False
        self.cursor = 0

    def lose_touch(self) -> None:
        """The source does not answer: its documents stay in force, what it wanted removed is not removed any more."""
        self.removed_volumes, self.cordoned_nodes = frozenset(), None

    def given_up(self) -> list[str]:
        """The claims to be removed: named by the last reading, and mounted by no document."""
        wanted = {
            mount.claim for document in self.documents.values() if document.spec for mount in document.spec.volumes
        }
        return sorted(self.removed_volumes - wanted) if self.complete else []

    def take(self, feed: DesiredFeed, *, everything: bool) -> None:
        """Keep what the feed says; a full reading replaces what was known."""
        if everything:
            self.documents = {}
        self.documents |= {document.session: document for document in feed.documents}
        self.removed_volumes = frozenset(feed.removed_volumes)
        self.cordoned_nodes = None if feed.cordoned_nodes is None else frozenset(feed.cordoned_nodes)
        self.cursor = feed.seq
        self.complete = self.complete or everything


class Follower:
    """Follows the source for ever. `on_change(everything)` is called after every full reading (True) and change."""

    def __init__(
        self,
        source: Source,
        wishes: Wishes,
        on_change: Callable[[bool], None],
        reread_seconds: float = REREAD_SECONDS,
    ) -> None:
        self._source = source
        self._wishes = wishes
        self._on_change = on_change
        self._reread_seconds = reread_seconds

    async def run(self) -> None:
        """Follow for ever."""
        loop = asyncio.get_running_loop()
        back_off = BackOff(first=0.5, longest=10.0)
        reread_at = answered_at = loop.time()
        while True:
            everything = loop.time() >= reread_at or loop.time() >= answered_at + OUTAGE_SECONDS + WAIT_SECONDS
            try:
                await self._read(everything=everything)
            except (Unavailable, Refused) as error:
                log.warning("desired documents: %s", error)
                self._wishes.lose_touch()
                await asyncio.sleep(back_off.next_seconds())
                continue
            back_off.reset()
            answered_at = loop.time()
            if everything:
                reread_at = loop.time() + self._reread_seconds
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _read(self, *, everything: bool) -> None:
        known, removed = dict(self._wishes.documents), self._wishes.removed_volumes
        after, wait = (0, 0) if everything else (self._wishes.cursor, WAIT_SECONDS)
        feed, bad = await self._source.desired(after, wait)
        for row in bad:
            log.error("desired document cannot be read and is passed over: %s: %s", row.where, row.why)
        # The control plane's numbers went back (a restored database): what it has now is all that counts.
        everything = everything or feed.seq < after
        if everything and bad:
            feed = feed.model_copy(update={"documents": (*_unread(known, feed), *feed.documents)})
        self._wishes.take(feed, everything=everything)
        if everything or self._wishes.documents != known or self._wishes.removed_volumes != removed:
            self._on_change(everything)


def _unread(known: dict[UUID, DesiredDocument], feed: DesiredFeed) -> tuple[DesiredDocument, ...]:
    """Known documents that a reading with bad rows does not repeat: theirs may be the rows that could not be read."""
    read = {document.session for document in feed.documents}
    return tuple(document for session, document in known.items() if session not in read)
