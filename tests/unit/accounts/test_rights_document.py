"""docs/internals/identity.md shows the matrix as the code has it."""

from __future__ import annotations

from pathlib import Path

from accounts.domain.roles import Role
from accounts.permissions import MATRIX

PAGE = Path(__file__).resolve().parents[3] / "docs/internals/identity.md"
BEGIN, END = "<!-- matrix -->", "<!-- /matrix -->"
COLUMNS = (Role.MEMBER, Role.GROUP_ADMIN, Role.ORG_ADMIN, Role.SUPER_ADMIN)


def written_matrix() -> str:
    lines = [f"| act | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for act, row in MATRIX.items():
        cells = [row[role].value if role in row else "" for role in COLUMNS]
        lines.append(f"| `{act.value}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_page_shows_the_matrix_as_it_is():
    page = PAGE.read_text(encoding="utf-8")
    shown = page.split(BEGIN)[1].split(END)[0].strip()
    assert shown == written_matrix()
