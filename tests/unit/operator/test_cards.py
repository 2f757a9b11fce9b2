"""The file that declares a local cluster's nodes and cards, and their discovery with NVML."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from cluster.operator.substrates.local.cards import CardsError, declared_nodes, discovered_nodes

NODE = """
[[nodes]]
name = "gpu-01"
cpu_milli = 8000
memory_mib = 16384
scratch_gib = 100
[[nodes.cards]]
uuid = "GPU-1"
model = "Tesla T4"
vram_mib = 15360
slots = 10
"""


def test_the_built_in_cluster_has_two_nodes_with_four_cards_of_several_models() -> None:
    nodes = declared_nodes(None)
    assert [len(node.cards) for node in nodes] == [4, 4]
    cards = [card for node in nodes for card in node.cards]
    assert {(card.model, card.vram_mib) for card in cards} == {
        ("NVIDIA A100-SXM4-80GB", 81920),
        ("NVIDIA H100 80GB HBM3", 81559),
        ("Tesla T4", 15360),
    }
    assert {card.slots for card in cards} == {10, 16}
    assert [card.index for card in nodes[0].cards] == [0, 1, 2, 3]


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cards.toml"
    path.write_text(NODE)
    (node,) = declared_nodes(path)
    assert (node.name, node.ready, node.cards[0].core_percent, node.cards[0].slots) == ("gpu-01", True, 100, 10)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "at least one"),
        ("[[nodes]\n", "cards.toml"),
        (NODE + NODE, "the node name gpu-01"),
        (NODE + NODE.replace("gpu-01", "gpu-02"), "the card uuid GPU-1"),
        (NODE.replace("slots = 10", "slots = 0"), "slots"),
        (NODE.replace('model = "Tesla T4"\n', ""), "model"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_and_the_field(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "cards.toml"
    path.write_text(content)
    with pytest.raises(CardsError, match=words) as refusal:
        declared_nodes(path)
    assert "cards.toml" in str(refusal.value)


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(CardsError, match=r"nowhere\.toml"):
        declared_nodes(tmp_path / "nowhere.toml")


def nvml(error: Exception | None = None) -> ModuleType:
    """What pynvml answers on a machine with two cards."""
    module = ModuleType("pynvml")

    class NVMLError(Exception):
        pass

    def init() -> None:
        if error is not None:
            raise NVMLError(str(error))

    module.__dict__.update(
        NVMLError=NVMLError,
        nvmlInit=init,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda _: b"Tesla T4",
        nvmlDeviceGetUUID=lambda index: f"GPU-{index}",
        nvmlDeviceGetMemoryInfo=lambda _: SimpleNamespace(total=15360 * 1024 * 1024),
    )
    return module


def test_nvml_gives_this_machine_as_one_node() -> None:
    (node,) = discovered_nodes(nvml(), cpu_milli=4000, memory_mib=8192, scratch_gib=50)
    assert [(card.uuid, card.index, card.model, card.vram_mib) for card in node.cards] == [
        ("GPU-0", 0, "Tesla T4", 15360),
        ("GPU-1", 1, "Tesla T4", 15360),
    ]


def test_a_machine_without_a_driver_is_refused_with_nvmls_words() -> None:
    with pytest.raises(CardsError, match="Driver Not Loaded"):
        discovered_nodes(nvml(ValueError("Driver Not Loaded")), cpu_milli=1, memory_mib=1, scratch_gib=1)
