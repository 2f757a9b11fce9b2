"""What a node says of its cards: the annotation of the device plugin, read as Go reads it.

Absent fields are zero or false (so a card without `health` is not healthy); a value of another type spoils the whole
list. The comma-separated form of HAMi up to 2.7.1 is no list, and is refused as 2.10 refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kube.hami_twin import words

_INT32 = 2**31
_UINT32 = 2**32


@dataclass(frozen=True, slots=True)
class Placement:
    """Where on a card an instance starts and how many slices it takes."""

    start: int
    size: int

    def overlaps(self, other: Placement) -> bool:
        """Whether both need the same slice."""
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of MIG instance."""

    name: str
    memory_mib: int
    cores: int
    slices: int
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A registered card."""

    uuid: str
    index: int = 0
    slots: int = 0
    memory_mib: int = 0
    cores: int = 0
    type: str = ""
    numa: int = 0
    mode: str = ""
    healthy: bool = False
    profiles: tuple[Profile, ...] = ()
    links: Mapping[str, int] = field(default_factory=dict)


def cards_of(annotations: Mapping[str, str]) -> tuple[Card, ...]:
    """The node's cards in the annotation's order. Raises ValueError when there are none or they cannot be read."""
    if words.REGISTER not in annotations:
        raise ValueError(f"annos not found {words.REGISTER}")
    rows = json.loads(annotations[words.REGISTER])
    if not isinstance(rows, list):
        raise ValueError("the register is no list")  # noqa: TRY004 (bad input, whatever its type)
    if not rows:
        raise ValueError("no gpu found on node")
    links = _pair_scores(annotations.get(words.PAIR_SCORES))
    return tuple(_card(_folded(row), links) for row in rows)


def _card(row: Mapping[str, Any], links: Mapping[str, Mapping[str, int]]) -> Card:
    uuid = _text(row, "id")
    return Card(
        uuid=uuid,
        index=_number(row, "index", 0, _UINT32),
        slots=_number(row, "count"),
        memory_mib=_number(row, "devmem"),
        cores=_number(row, "devcore"),
        type=_text(row, "type"),
        numa=_number(row, "numa"),
        mode=_text(row, "mode"),
        healthy=_truth(row, "health"),
        profiles=tuple(_profile(_folded(profile)) for profile in _rows(row, "migprofiles")),
        links=links.get(uuid, {}),
    )


def _profile(row: Mapping[str, Any]) -> Profile:
    placements = tuple(
        Placement(_number(spot, "start", 0, _UINT32), _number(spot, "size", 0, _UINT32))
        for spot in map(_folded, _rows(row, "placements"))
    )
    return Profile(
        _text(row, "name"),
        _number(row, "memorymb"),
        _number(row, "core"),
        _number(row, "slicecount", 0, _UINT32),
        placements,
    )


def _pair_scores(text: str | None) -> dict[str, dict[str, int]]:
    if text is None:
        return {}
    return {_text(row, "uuid"): dict(row.get("score") or {}) for row in map(_folded, json.loads(text) or [])}


def _folded(row: object) -> dict[str, Any]:
    """The object with its names in lower case: Go's reader takes a field's name in any case."""
    if not isinstance(row, dict):
        raise ValueError("an object is needed")  # noqa: TRY004 (bad input, whatever its type)
    return {str(name).lower(): value for name, value in row.items()}


def _rows(row: Mapping[str, Any], name: str) -> list[Any]:
    value = row.get(name) or []
    if not isinstance(value, list):
        raise ValueError(f"{name} is no list")  # noqa: TRY004 (bad input, whatever its type)
    return value


def _number(row: Mapping[str, Any], name: str, low: int = -_INT32, end: int = _INT32) -> int:
    value = row.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < end:
        raise ValueError(f"{name} is no number that fits")
    return value


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")  # noqa: TRY004 (bad input, whatever its type)
    return value


def _truth(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise ValueError(f"{name} is neither true nor false")  # noqa: TRY004 (bad input, whatever its type)
    return value
