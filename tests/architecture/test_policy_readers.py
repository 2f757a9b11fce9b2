"""Every field of a policy has code that acts on it: a limit that nobody reads is a promise that nobody keeps."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from accounts.domain.policies import FIELDS

ROOT = Path(__file__).resolve().parent.parent.parent
ROOMS = ("billing", "catalog", "cluster", "sessions_app")
# What shows a limit or keeps it does not act on it.
SHOWS = ("views", "api", "migrations", "management", "admin.py", "overview.py", "operator", "agent", "yielder")

# Where each field is acted on. A field that is added, or whose reader is renamed away, fails here.
READERS = {
    "max_sessions": "sessions_app.counters.demand",
    "max_queued": "sessions_app.gather.facts_of",
    "max_paused": "sessions_app.services._check_room_to_pause",
    "cpu_milli": "sessions_app.counters.demand",
    "memory_mib": "sessions_app.counters.demand",
    "scratch_gib": "sessions_app.counters.demand",
    "vram_mib": "sessions_app.counters.demand",
    "core_percent": "sessions_app.counters.demand",
    "cards": "sessions_app.counters.demand",
    "max_runtime_min": "sessions_app.idleness._limits",
    "idle_timeout_min": "sessions_app.idleness._limits",
    "keep_alive_max_min": "sessions_app.services.keep_alive_span",
    "storage_gib": "cluster.services.volumes.storage_limits",
    "max_priority": "sessions_app.priorities.check_grant",
    "allow_privileged": "sessions_app.gather.facts_of",
    "allow_preemptible": "sessions_app.gather.facts_of",
    "shared_pool": "sessions_app.spec.shared_pool_open",
}


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    """The functions that name a field, by field: as a word, or by a constant that has it."""
    trees = {path: ast.parse(path.read_text()) for path in _sources()}
    constants = {name: word for tree in trees.values() for name, word in _constants(tree)}
    readers = defaultdict(set)
    for path, tree in trees.items():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        own = constants | dict(_constants(tree))
        for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
            for field in _named(function, own) & FIELDS.keys():
                readers[field].add(f"{module}.{function.name}")
    return readers


def test_every_field_is_in_the_table() -> None:
    assert READERS.keys() == FIELDS.keys()


@pytest.mark.parametrize("field", sorted(READERS))
def test_the_field_is_acted_on_where_the_table_says(field: str, found: dict[str, set[str]]) -> None:
    assert READERS[field] in found[field], f"{field} is named by {sorted(found[field])}"


def _sources() -> Iterator[Path]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if not set(path.relative_to(ROOT).parts) & set(SHOWS):
                yield path


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((target.id, node.value.value) for target in node.targets if isinstance(target, ast.Name))


def _named(function: ast.FunctionDef, constants: dict[str, str]) -> set[str]:
    words = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
        elif isinstance(node, ast.Name):
            words.add(constants.get(node.id, ""))
        elif isinstance(node, ast.Attribute):
            words.add(constants.get(node.attr, ""))
    return words
