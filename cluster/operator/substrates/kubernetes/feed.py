"""What is wanted, from the custom resources themselves: each session's resource is its document.

Guarantees: `Wishes` hold what the last listing and the events since say; a resource that cannot be read leaves the document
before it in force; one that is being deleted ends what runs, whoever deleted it. Nothing is concluded before the first
listing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from uuid import UUID

from cluster.operator.feed import Wishes
from cluster.operator.substrates.kubernetes.api import Document
from cluster.operator.substrates.kubernetes.reflector import Reflector
from gshare_core.contract import DesiredDocument, DesiredFeed, session_name
from gshare_core.contract.resources import document_of

log = logging.getLogger(__name__)


class ResourceFeed:
    """Turns a reflector of session resources into wishes. Call `take` at each of its changes."""

    def __init__(self, wishes: Wishes, on_change: Callable[[bool], None]) -> None:
        self._wishes, self._on_change = wishes, on_change
        self._complained: dict[str, str] = {}
        self._read_of: dict[str, tuple[Document, DesiredDocument | None]] = {}

    def take(self, resources: Reflector) -> None:
        """Bring the wishes to what the resources say."""
        known, before = self._wishes.documents, self._read_of
        self._read_of = {}
        for name, item in sorted(resources.objects.items()):
            # Reading is dear and most have not changed: what is of the same generation says the same.
            same = before.get(name)
            seen = same[1] if same is not None and _says_the_same(same[0], item) else self._read(name, item, known)
            self._read_of[name] = (item, seen)
        documents = [document for _item, document in self._read_of.values()]
        found = tuple(document for document in documents if document is not None)
        first = not self._wishes.complete
        if first or {document.session: document for document in found} != known:
            removed = tuple(sorted(self._wishes.removed_volumes))  # these the control plane tells (`process`)
            self._wishes.take(DesiredFeed(seq=0, documents=found, removed_volumes=removed), everything=True)
            self._on_change(first)

    def _read(self, name: str, item: Document, known: dict[UUID, DesiredDocument]) -> DesiredDocument | None:
        try:
            document = document_of(item)
        except ValueError as error:
            if self._complained.get(name) != str(error):
                log.error("resource %s cannot be read and is passed over: %s", name, error)  # noqa: TRY400 -- says it all
                self._complained[name] = str(error)
            return next((old for old in known.values() if session_name(old.session) == name), None)
        self._complained.pop(name, None)
        return _ended(document) if item["metadata"].get("deletionTimestamp") else document


def _says_the_same(one: Document, other: Document) -> bool:
    """Whether two versions want the same: the API server counts `generation` up with each change but those of status and metadata."""
    if one is other:
        return True
    mine, its = one["metadata"], other["metadata"]
    keys = ("uid", "generation", "deletionTimestamp")
    return mine.get("generation") is not None and all(mine.get(key) == its.get(key) for key in keys)


def _ended(document: DesiredDocument) -> DesiredDocument:
    """What a resource says whose end was asked for: a tombstone of what it wanted, and meant."""
    if document.spec is None:
        return document
    return DesiredDocument(
        session=document.session,
        seq=document.seq,
        spec=None,
        run=document.spec.run,
        generation=document.spec.generation,
        confirmed=True,
    )
