"""The ledger has one door: nobody else writes transfers or balances."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPS = ("accounts", "billing", "catalog", "cluster", "sessions_app", "gshare_core", "gshare_site")
DOOR = "billing/ledger.py"
# Writes what a tick writes to time the bare rows, and takes all of it back.
BARE = "gshare_site/benches/money_rows.py"
# Fills the throw-away installation of a bench with what the door would have written in hours; the trial balance judges it.
JOURNAL = "gshare_site/benches/page_journal.py"
# Who may know the table at all, besides the door, and why.
READERS = {
    "billing/apps.py": "declares it insert-only",
    "billing/models/ledger.py": "declares it",
    "billing/models/grants.py": "a refill refers to its transfer",
    "billing/models/requests.py": "an approved request refers to its transfer",
    "billing/models/meter.py": "a posting refers to its transfer",
    "billing/models/__init__.py": "gathers the models",
    "billing/wallets.py": "answers the transfer that the door wrote",
    "billing/moving.py": "answers the transfers that the door wrote",
    "billing/bulk.py": "names the type of what was moved",
    "billing/reports.py": "sums what was charged",
    "billing/trial.py": "says since when there is anything to check",
    "billing/trial_checks.py": "computes everything again",
    "billing/admin.py": "shows rows, read only",
    BARE: "times the bare rows",
    JOURNAL: "fills a bench's installation",
    "billing/api/documents.py": "the API's form of a row",
    "billing/api/wallets.py": "names the type of an answer",
    "billing/wallet_tree.py": "sums what was spent below each wallet, by the time it bills",
}
WRITES = re.compile(
    r"INSERT\s+INTO\s+billing_transfer|UPDATE\s+billing_(transfer|account)|DELETE\s+FROM\s+billing_(transfer|account)",
    re.IGNORECASE,
)
WRITING_CALLS = {"create", "bulk_create", "update", "delete", "get_or_create", "update_or_create", "bulk_update"}


def _sources() -> dict[str, str]:
    paths = [path for app in APPS for path in (ROOT / app).rglob("*.py") if "migrations" not in path.parts]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def _knows_transfers(source: str) -> bool:
    """Does it name the model or the table?"""
    if re.search(r"\bbilling_transfer\b", source):
        return True
    nodes = list(ast.walk(ast.parse(source)))
    named = any(isinstance(node, ast.Name) and node.id == "Transfer" for node in nodes)
    made = any(isinstance(node, ast.ClassDef) and node.name == "Transfer" for node in nodes)
    imported = any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("billing")
        and any(alias.name == "Transfer" for alias in node.names)
        for node in nodes
    )
    return named or made or imported


def test_only_the_door_writes_transfers_and_balances_in_sql() -> None:
    assert {name for name, source in _sources().items() if WRITES.search(source)} == {DOOR, BARE, JOURNAL}
    bare = (ROOT / BARE).read_text(encoding="utf-8")
    assert bare.count("_BARE") == 2  # where it is said and where it is run
    assert re.search(r"for statement in _BARE:.*?set_rollback\(True\)", bare, re.DOTALL)
    assert {name for name, source in _sources().items() if "page_journal" in source} <= {
        JOURNAL,
        "gshare_site/benches/page_rows.py",
    }


def test_only_known_readers_know_the_table_of_transfers() -> None:
    knows = {name for name, source in _sources().items() if _knows_transfers(source)}
    assert knows - {DOOR} == set(READERS)  # a reader that is new has no reason yet, one that is gone has a stale one


def test_nobody_writes_transfers_or_wallets_through_the_models() -> None:
    found = []
    for name, source in _sources().items():
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in WRITING_CALLS and re.match(r"(Transfer|Account)\.objects", ast.unparse(node.func)):
                found.append((name, ast.unparse(node.func)))
    # A wallet is inserted empty; that is all.
    assert found == [("billing/wallets.py", "Account.objects.bulk_create")]
