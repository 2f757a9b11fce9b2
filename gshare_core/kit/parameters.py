"""What goes with a statement that the server binds: numbers as 64-bit ones, lists as PostgreSQL's text of an array.

Guarantees: what fits no column is refused and not cut off; a list arrives as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import DataError
from psycopg.types.numeric import Int2, Int4, Int8

Parameters = Sequence[Any] | Mapping[str, Any]


def wide(parameters: Parameters) -> Parameters:
    """The parameters for such a cursor. Raises DataError for a number that no column holds."""
    if isinstance(parameters, Mapping):
        return {name: _wide(value) for name, value in parameters.items()}
    return [_wide(value) for value in parameters]


def _wide(value: Any) -> Any:
    if type(value) is list:
        return _array(value)
    if type(value) not in _NUMBERS:
        return value
    if not -_HALF <= value < _HALF:
        raise DataError(f"{value} is out of range")
    return Int8(value)


_NUMBERS, _HALF = frozenset({int, Int2, Int4, Int8}), 2**63


def _array(values: list[Any]) -> Any:
    """A list as PostgreSQL's text of an array, whose type the statement says; as it is where an element has no such text here.

    The driver looks at every element twice to find a type, which cost as much as what the statements did.
    """
    try:
        return "{" + ",".join([_ELEMENTS[type(value)](value) for value in values]) + "}"
    except KeyError:
        return values


def _quoted_text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_ELEMENTS: dict[type, Callable[[Any], str]] = {
    int: str,
    UUID: str,
    str: _quoted_text,
    datetime: lambda value: f'"{value.isoformat()}"',
    type(None): lambda _value: "NULL",
}
