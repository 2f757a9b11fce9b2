"""One collection of the API, followed: listed, then watched, listed again when the watch cannot go on, and every few minutes.

Guarantees: `objects` is the server's collection as of one moment, plus what this process wrote since; an event that was
dropped is found by the next listing; a version that is too old (410) is listed anew. `is_fresh` is False while nobody can
say what there is: absence must not be concluded then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from cluster.operator.pace import BackOff
from cluster.operator.state import Unavailable
from cluster.operator.substrates.kubernetes.api import Api, Document, Kind, Refused

log = logging.getLogger(__name__)

RELIST_SECONDS = 300.0
_BLIND_SECONDS = 15.0


class Reflector:
    """See the module. `on_change` is called after every listing and every event that tells something."""

    def __init__(
        self,
        api: Api,
        kind: Kind,
        namespace: str | None,
        *,
        labels: str = "",
        fields: str = "",
        on_change: Callable[[], None] = lambda: None,
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        self._api, self._kind, self._namespace = api, kind, namespace
        self._selectors = {"labels": labels, "fields": fields}
        self._on_change, self._relist_seconds = on_change, relist_seconds
        self._objects: dict[str, Document] = {}
        self._written: dict[str, Document] = {}  # by us since the listing that is under way began
        self._deleted: dict[str, int] = {}  # since then, with the version of its end
        self._seen_at: float | None = None
        self._following = False

    @property
    def objects(self) -> Mapping[str, Document]:
        """By name; by ``namespace/name`` where objects of all namespaces are followed. Not to be changed."""
        return self._objects

    def _name_of(self, document: Document) -> str:
        metadata = document["metadata"]
        name = str(metadata.get("name", ""))
        of_all = self._kind.is_namespaced and self._namespace is None
        return f"{metadata.get('namespace', '')}/{name}" if of_all else name

    @property
    def is_fresh(self) -> bool:
        """Whether it is known what there is: a watch is open, or was until a moment ago."""
        if self._seen_at is None:
            return False
        return self._following or asyncio.get_running_loop().time() - self._seen_at < _BLIND_SECONDS

    def wrote(self, document: Document) -> None:
        """This process made or changed the object: it is known from now on, before any event tells."""
        name = self._name_of(document)
        if _version(document) <= self._deleted.get(name, 0):
            return  # its end was heard of before our own answer
        known = self._objects.get(name)
        if known is None or _version(known) < _version(document):
            self._objects[name] = document
        self._written[name] = document

    async def run(self) -> None:
        """Follow for ever."""
        back_off = BackOff(first=0.2, longest=10.0)
        while True:
            try:
                since = await self._list()
                back_off.reset()
                await self._follow(since)
            except Refused as refusal:
                if refusal.status != 410:
                    log.error("%s cannot be followed: %s", self._kind.plural, refusal)  # noqa: TRY400 -- says it all
                    await asyncio.sleep(back_off.next_seconds())
            except Unavailable as error:
                log.warning("%s: %s", self._kind.plural, error)
                await asyncio.sleep(back_off.next_seconds())
            finally:
                self._following = False

    async def _list(self) -> str:
        self._written, self._deleted = {}, {}
        found = await self._api.list(self._kind, self._namespace, **self._selectors)
        objects = {self._name_of(item): item for item in found.get("items", ())}
        since = found["metadata"]["resourceVersion"]
        # What was written while the list was on its way may not be in it yet.
        objects |= {name: written for name, written in self._written.items() if _version(written) > int(since)}
        self._objects = objects
        self._note()
        return str(since)

    async def _follow(self, since: str) -> None:
        """Until it is time to list again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._relist_seconds
        while loop.time() < until:
            self._following = True
            try:
                async with asyncio.timeout(max(0.0, until - loop.time())):
                    async for event in self._api.watch(self._kind, self._namespace, since=since, **self._selectors):
                        since = str(event["object"]["metadata"]["resourceVersion"])
                        self._take(str(event["type"]), event["object"])
            except TimeoutError:
                return

    def _take(self, kind: str, item: Document) -> None:
        name = self._name_of(item)
        if kind in {"ADDED", "MODIFIED"}:
            known = self._objects.get(name)
            if known is not None and _version(known) >= _version(item):
                self._seen_at = asyncio.get_running_loop().time()
                return  # what this process wrote itself is no news
            self._objects[name] = item
        elif kind == "DELETED":
            self._objects.pop(name, None)
            self._deleted[name] = _version(item)
        self._note()

    def _note(self) -> None:
        self._seen_at = asyncio.get_running_loop().time()
        self._on_change()


def _version(document: Document) -> int:
    """The object's version. The API calls it opaque; of one kind in one cluster it grows, and since 1.35 it says so."""
    return int(document["metadata"]["resourceVersion"])


def known(reflector: Reflector) -> Mapping[str, Document]:
    """What there is. Raises `Unavailable` while nobody can say it."""
    if not reflector.is_fresh:
        raise Unavailable("the API server cannot be followed")
    return reflector.objects
