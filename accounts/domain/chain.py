"""The audit chain: each seal's hash covers its number, its entry and the seal before it (SHA-256).

Guarantees: the written form of an entry is canonical (JSON with sorted keys, UTC times with microseconds), so that the
same entry gives the same hash in every process and version; changing, dropping, inserting or reordering entries breaks
every seal from there on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

GENESIS = "0" * 64


@dataclass(frozen=True, slots=True)
class Link:
    """One seal with the entry it covers."""

    seq: int
    hash: str
    entry: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """What does not fit, and at which seal."""

    seq: int
    what: str


def seal_hash(seq: int, before: str, entry: Mapping[str, Any]) -> str:
    """The hash of seal `seq` over `entry`; `before` is the hash of seal `seq - 1` (`GENESIS` for the first)."""
    text = json.dumps(
        {"seq": seq, "before": before, "entry": {name: _plain(value) for name, value in entry.items()}},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, UUID):
        return str(value)
    return value


def faults(links: Iterable[Link], *, most: int = 20, after: tuple[int, str] = (0, GENESIS)) -> list[Fault]:
    """What is wrong with a chain given in the order of numbers, at most `most` findings; `after` is the seal before them."""
    found: list[Fault] = []
    expected, before = after[0] + 1, after[1]
    for link in links:
        if len(found) >= most:
            break
        if link.seq != expected:
            found.append(Fault(link.seq, f"seal {expected} is missing"))
        if link.hash != seal_hash(link.seq, before, link.entry):
            found.append(Fault(link.seq, "the entry or the seal before it was changed"))
        expected, before = link.seq + 1, link.hash
    return found
