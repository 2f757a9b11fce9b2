"""What documents say of tests and commands is true: whoever renames one renames it there too."""

from __future__ import annotations

import re
from pathlib import Path

from gshare_site.benches import benches

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/internals/acceptance.md"
REFERENCE = re.compile(r"\btests/[\w/.*-]*[\w*](?:::\w+)?")


def documents() -> list[Path]:
    return [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]


def exists(reference: str) -> bool:
    """Whether a file, a folder, a pattern of files or one function of a file is there."""
    path, _, name = reference.partition("::")
    found = list(ROOT.glob(path))
    return bool(found) and (not name or f"def {name}(" in found[0].read_text(encoding="utf-8"))


def rows(page: str) -> list[tuple[str, str, str]]:
    """What is promised, by what it is shown, and its state."""
    cells = [
        tuple(part.strip() for part in line.strip("| \n").split(" | ")) for line in page.splitlines() if line[:1] == "|"
    ]
    return [(row[0], row[1], row[2]) for row in cells if len(row) == 3 and row[2] not in ("state", "---")]


def test_every_test_that_a_document_names_exists() -> None:
    missing = {
        f"{document.relative_to(ROOT)}: {reference}"
        for document in documents()
        for reference in REFERENCE.findall(document.read_text(encoding="utf-8"))
        if not exists(reference)
    }
    assert sorted(missing) == []


def test_every_bench_that_a_document_names_exists() -> None:
    named = {
        (document.name, subject)
        for document in documents()
        for subject in re.findall(r"manage\.py bench ([a-z]+)", document.read_text(encoding="utf-8"))
    }
    assert sorted((name, subject) for name, subject in named if subject not in benches()) == []


def test_every_promise_is_shown_by_a_test_or_a_command() -> None:
    found = rows(PAGE.read_text(encoding="utf-8"))
    assert len(found) > 100, "the page's rows are read"
    shown = re.compile(r"`(?:tests/|make |python manage\.py |\w+=… make )")
    assert [promise for promise, by, state in found if state != "open" and not shown.search(by)] == []


def test_every_trap_has_one_row() -> None:
    told: list[int] = []
    traps = PAGE.read_text(encoding="utf-8").split("## Traps")[1]
    for row in re.findall(r"^\| (\d[\d, –-]*)", traps, re.MULTILINE):
        for part in row.replace(" ", "").strip(",").split(","):
            first, _, last = part.replace("–", "-").partition("-")
            told += range(int(first), int(last or first) + 1)
    assert sorted(told) == list(range(1, 59))
