"""Which nodes and cards a local cluster has: declared in a TOML file, or found with NVML.

File format: one ``[[nodes]]`` table per node (``name``, ``cpu_milli``, ``memory_mib``, ``scratch_gib``, optional
``labels``), in it one ``[[nodes.cards]]`` table per card (``uuid``, ``model`` exactly as the driver names it,
``vram_mib``, ``slots``, optional ``core_percent`` and ``healthy``). `cards.toml` beside this module is the default.
Refuses: unreadable files, duplicate names or cards, with the file and the field.
"""

from __future__ import annotations

import platform
import re
import tomllib
from importlib import resources
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from gshare_core.contract import CardRow, NodeRow, explain

NVML = "nvml"
NVML_SLOTS = 10


class CardsError(ValueError):
    """The cards' file cannot be used; the message names the file and what is wrong with it."""


def declared_nodes(path: Path | None) -> tuple[NodeRow, ...]:
    """The nodes of a cards' file, or of the built-in one. Raises `CardsError`."""
    name = str(path) if path else "the built-in cards file"
    try:
        text = path.read_text() if path else resources.files(__package__).joinpath("cards.toml").read_text()
        rows = tomllib.loads(text).get("nodes", [])
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise CardsError(f"{name}: {error}") from error
    nodes: list[NodeRow] = []
    for index, row in enumerate(rows):
        numbered = [{"index": place, **card} for place, card in enumerate(row.get("cards", []))]
        try:
            nodes.append(NodeRow.model_validate({"ready": True, **row, "cards": numbered}))
        except ValidationError as error:
            raise CardsError(f"{name}: nodes[{index}]: {explain(error)}") from error
    _refuse_duplicates(name, nodes)
    return tuple(nodes)


def _refuse_duplicates(name: str, nodes: list[NodeRow]) -> None:
    if not nodes:
        raise CardsError(f"{name}: at least one [[nodes]] table is needed")
    for what, values in (
        ("node name", [node.name for node in nodes]),
        ("card uuid", [card.uuid for node in nodes for card in node.cards]),
    ):
        doubled = sorted({value for value in values if values.count(value) > 1})
        if doubled:
            raise CardsError(f"{name}: the {what} {doubled[0]} stands there twice")


def discovered_nodes(nvml: ModuleType, *, cpu_milli: int, memory_mib: int, scratch_gib: int) -> tuple[NodeRow, ...]:
    """This machine as one node with the cards that NVML lists; `nvml` is the module pynvml. Raises `CardsError`."""
    try:
        nvml.nvmlInit()
        cards = tuple(_discovered(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
    except nvml.NVMLError as error:
        raise CardsError(f"NVML: {error}") from error
    name = re.sub(r"[^a-z0-9-]+", "-", platform.node().lower()).strip("-") or "local"
    return (
        NodeRow(
            name=name, ready=True, cpu_milli=cpu_milli, memory_mib=memory_mib, scratch_gib=scratch_gib, cards=cards
        ),
    )


def _discovered(nvml: ModuleType, index: int) -> CardRow:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    model, uuid = (
        value.decode() if isinstance(value, bytes) else value
        for value in (nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetUUID(handle))
    )
    vram_mib = nvml.nvmlDeviceGetMemoryInfo(handle).total // (1024 * 1024)
    return CardRow(uuid=uuid, index=index, model=model, vram_mib=vram_mib, slots=NVML_SLOTS)
