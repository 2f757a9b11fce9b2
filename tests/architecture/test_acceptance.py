"""The acceptance page names tests that exist: whoever renames one renames it there too."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/internals/acceptance.md"
REFERENCE = re.compile(r"`(tests/[\w/.-]+?)(?:::(\w+))?`")


def test_every_test_that_the_page_names_exists():
    missing = []
    for path, name in REFERENCE.findall(PAGE.read_text()):
        place = ROOT / path
        if not place.exists() or (name and f"def {name}(" not in place.read_text()):
            missing.append(f"{path}::{name}" if name else path)
    assert missing == []


def test_every_trap_has_a_row():
    told: set[int] = set()
    traps = PAGE.read_text().split("## Traps")[1]
    for row in re.findall(r"^\| (\d[\d, –-]*)", traps, re.MULTILINE):
        for part in row.replace(" ", "").strip(",").split(","):
            first, _, last = part.replace("–", "-").partition("-")
            told.update(range(int(first), int(last or first) + 1))
    assert told == set(range(1, 59))
