"""What monitors say of themselves: Prometheus' text format, read line by line.

Guarantees: a line that cannot be read costs itself only; values are numbers, finite or not, unjudged. Timestamps and exemplars
are passed over. Format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,?)')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_ESCAPE = re.compile(r'\\[n"\\]')


@dataclass(frozen=True, slots=True)
class Series:
    """One line: a metric's name, its labels, its value."""

    name: str
    labels: Mapping[str, str]
    value: float


def read_exposition(text: str, names: Collection[str]) -> tuple[Series, ...]:
    """The series of these names, in the order in which they were said."""
    found = (_line(line, names) for line in text.splitlines())
    return tuple(series for series in found if series is not None)


def _line(line: str, names: Collection[str]) -> Series | None:
    name = _NAME.match(line)
    if name is None or name[1] not in names:
        return None
    at, labels = name.end(), dict[str, str]()
    if line[at : at + 1] == "{":
        at += 1
        while (label := _LABEL.match(line, at)) is not None:
            labels[label[1]] = _ESCAPE.sub(lambda found: _ESCAPES[found[0]], label[2])
            at = label.end()
            if not label[3]:
                break
        if line[at : at + 1] != "}":
            return None
        at += 1
    rest = line[at:].split(maxsplit=1)
    try:
        return Series(name[1], labels, float(rest[0])) if rest else None
    except ValueError:
        return None
