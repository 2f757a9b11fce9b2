"""Logs of sessions, which may hold anything, as lines that a page or a program can show.

Guarantees: a line says who wrote it and stays one line; nothing in it moves a cursor, colours, rings, reverses the reading direction or
hides: control sequences and control characters are gone. What was written over by a carriage return is what a terminal would show. Secrets that
are named do not appear. Lengths are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

LINE_CHARACTERS = 4_000

_NAMED = re.compile(r"\[([a-z0-9-]{1,63})\] ?")
# ECMA-48: CSI, OSC and other strings with their ends, two-character escapes.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# C0 but the tab, C1, line and paragraph separators, marks and overrides of direction, what is not shown.
_CONTROL = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line; `source` is the application or container that wrote it."""

    source: str
    text: str


def last_lines(text: str, lines: int, most: int) -> list[str]:
    """The last lines of a text's last characters; a line that was cut is left out unless it is all there is."""
    cut = text[-most:]
    found = cut.removesuffix("\n").split("\n") if cut else []
    if len(cut) < len(text) and len(found) > 1:
        found = found[1:]
    return found[-lines:]


def read_log(text: str, *, secrets: Collection[str] = ()) -> tuple[LogLine, ...]:
    """The lines of an adapter's answer (`ClusterPort.logs`)."""
    return tuple(_line(line, secrets) for line in text.split("\n")) if text else ()


def _line(line: str, secrets: Collection[str]) -> LogLine:
    named = _NAMED.match(line)
    source, said = (named[1], line[named.end() :]) if named else ("", line)
    return LogLine(source, harmless(said, secrets))


def harmless(line: str, secrets: Collection[str] = ()) -> str:
    """One line as plain text."""
    plain = _SEQUENCE.sub("", line)
    # A progress bar writes over itself: what it showed last counts.
    plain = next((part for part in reversed(plain.split("\r")) if part.strip()), "")
    plain = _CONTROL.sub("", plain).rstrip()
    for secret in filter(None, secrets):
        plain = plain.replace(secret, "…")
    return plain if len(plain) <= LINE_CHARACTERS else plain[:LINE_CHARACTERS] + "…"
