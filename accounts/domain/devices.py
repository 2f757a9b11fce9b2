"""A browser's own words (User-Agent) as a name that its owner recognises, such as "Firefox on Linux".

Guarantees: a short plain text, whatever was sent. It helps a person to tell his devices apart and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

# Order matters: most browsers also name those that they descend from.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("SamsungBrowser", "Samsung Internet"),
    ("Whale", "Whale"),
    ("Firefox", "Firefox"),
    ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
    ("curl", "curl"),
    ("python", "Python"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_HANDHELD = frozenset({"iPhone", "iPad", "Android"})


@dataclass(frozen=True, slots=True)
class Device:
    """What a person calls it; empty where nothing was recognised."""

    browser: str
    system: str

    @property
    def is_handheld(self) -> bool:
        return self.system in _HANDHELD


def device_of(user_agent: str) -> Device:
    """The device that a User-Agent header names."""
    return Device(_first(_BROWSERS, user_agent), _first(_SYSTEMS, user_agent))


def _first(known: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for mark, name in known if mark in text), "")
