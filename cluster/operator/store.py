"""The operator's memory on disk: one file per session, replaced as a whole.

Guarantees: after `put` or `acknowledge` returns, the memory survives a kill and a power cut; a half-written file is
never read. Proof of life moves at every look: it is written by `flush`, at each beat. A file that cannot be read is put aside with its name kept, loudly, and the rest is loaded.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from pydantic import ValidationError

from cluster.operator.state import Memory, RunRecord
from gshare_core.contract import session_name

log = logging.getLogger(__name__)


def write_atomically(path: Path, content: str) -> None:
    """Replace a file so that readers see the old or the new content, also after a power cut; mode 0600."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Memories(Protocol):
    """What every store of memories can do; the docstrings of `Store` say what each verb means."""

    def __iter__(self) -> Iterator[Memory]: ...
    def get(self, session: UUID) -> Memory: ...
    def put(self, memory: Memory) -> None: ...
    def live_on(self, memory: Memory) -> None: ...
    def is_unsaved(self, session: UUID) -> bool: ...
    async def saved(self, session: UUID) -> None: ...
    async def hold(self, session: UUID) -> None: ...
    async def let_go(self, session: UUID) -> None: ...
    def acknowledge(self, session: UUID, run: int, sequence: int) -> None: ...
    def pending(self) -> list[tuple[UUID, RunRecord]]: ...
    def forget(self, session: UUID) -> None: ...
    def flush(self) -> None: ...


class Known:
    """What every store of memories has in common: the memories themselves, by session."""

    def __init__(self) -> None:
        self._memories: dict[UUID, Memory] = {}
        self._unwritten: set[UUID] = set()
        self._untold: set[UUID] = set()  # those with a report that is not acknowledged

    def __iter__(self) -> Iterator[Memory]:
        return iter(tuple(self._memories.values()))

    def get(self, session: UUID) -> Memory:
        """What is remembered of a session; an empty memory for an unknown one."""
        return self._memories.get(session) or Memory(session=session)

    def put(self, memory: Memory) -> None:
        """Keep a memory; each store says when it is durable."""
        raise NotImplementedError

    def live_on(self, memory: Memory) -> None:
        """Keep a memory of which the caller knows that nothing but its proof of life is newer."""
        self._memories[memory.session] = memory

    def _keep(self, memory: Memory) -> None:
        self._memories[memory.session] = memory
        if any(record.pending for record in memory.records):
            self._untold.add(memory.session)
        else:
            self._untold.discard(memory.session)

    def _drop(self, session: UUID) -> None:
        self._memories.pop(session, None)
        self._unwritten.discard(session)
        self._untold.discard(session)

    def acknowledge(self, session: UUID, run: int, sequence: int) -> None:
        """The control plane has accepted the run's report of that sequence."""
        self.put(self.get(session).acknowledge(run, sequence))

    def pending(self) -> list[tuple[UUID, RunRecord]]:
        """Every record whose latest report still has to be acknowledged."""
        untold = [self._memories[session] for session in sorted(self._untold)]
        return [(memory.session, record) for memory in untold for record in memory.records if record.pending]


class Store(Known):
    """All memories, in memory and on disk. Used by one event loop: read, decide and put without an await between."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__()
        self._folder = folder
        self._load()

    def _load(self) -> None:
        for path in sorted(self._folder.glob("s-*.json")):
            try:
                memory = Memory.model_validate_json(path.read_bytes())
            except (ValidationError, OSError):
                log.exception("memory of %s cannot be read and is put aside", path.name)
                path.rename(path.with_suffix(".unreadable"))
                continue
            self._keep(memory)

    def put(self, memory: Memory) -> None:
        """Keep a memory, durably; one that differs in its proof of life only is written by the next `flush`."""
        known = self._memories.get(memory.session)
        if known is not None and _but_proof(known) == _but_proof(memory):
            if known != memory:
                self._keep(memory)
                self._unwritten.add(memory.session)
            return
        self._write(memory)

    def live_on(self, memory: Memory) -> None:
        """See `Known`; written by the next `flush`."""
        super().live_on(memory)
        self._unwritten.add(memory.session)

    def flush(self) -> None:
        """Write every proof of life that is not on disk yet."""
        for session in tuple(self._unwritten):
            self._write(self._memories[session])

    def _write(self, memory: Memory) -> None:
        write_atomically(self._path(memory.session), memory.model_dump_json())
        self._keep(memory)
        self._unwritten.discard(memory.session)

    def is_unsaved(self, session: UUID) -> bool:
        """Whether something that matters is not durable yet: never, `put` wrote it already."""
        return False

    async def saved(self, session: UUID) -> None:
        """Returns once the session's memory is durable: `put` wrote it already."""

    async def hold(self, session: UUID) -> None:
        """Something is about to run for the session: nothing has to be held here."""

    async def let_go(self, session: UUID) -> None:
        """Nothing of the session is left: nothing has to be let go here."""

    def forget(self, session: UUID) -> None:
        """Nothing of the session is left to know."""
        self._drop(session)
        self._path(session).unlink(missing_ok=True)
        sync_folder(self._folder)

    def _path(self, session: UUID) -> Path:
        return self._folder / f"{session_name(session)}.json"


def _but_proof(memory: Memory) -> list[dict[str, Any]]:
    return [record.but_proof() for record in memory.records]
