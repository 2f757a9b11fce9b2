"""Made-up nodes and sequences of pods and deletions, for asking the twin and the real scheduler the same questions.

A story is a line of the recording without its results: `node`, `cards`, `steps`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.kube.hami_twin import words
from tests.kube.hami_twin.bench import MIG_PROFILES
from tests.kube.nodes import a_card

Story = dict[str, Any]

KINDS = (
    ("NVIDIA A100-SXM4-80GB", 81920),
    ("NVIDIA H100 80GB HBM3", 81559),
    ("NVIDIA-Tesla T4", 15360),
    ("NVIDIA L40S", 46068),
)
# What an A30 offers: the tables differ between cards, a twin that knows one of them would be found out.
A30_PROFILES = [
    {
        "name": "1g.6gb",
        "memoryMB": 5952,
        "core": 25,
        "sliceCount": 1,
        "placements": [{"start": start, "size": 1} for start in range(4)],
    },
    {
        "name": "2g.12gb",
        "memoryMB": 12032,
        "core": 50,
        "sliceCount": 2,
        "placements": [{"start": start, "size": 2} for start in (0, 2)],
    },
    {"name": "4g.24gb", "memoryMB": 24192, "core": 100, "sliceCount": 4, "placements": [{"start": 0, "size": 4}]},
]


def stories(seed: int, count: int) -> Iterator[Story]:
    """`count` stories, always the same for a seed."""
    chance = random.Random(seed)
    for number in range(count):
        node = f"h{seed}-{number:03}"
        cards = _cards(chance, node)
        yield {"node": node, "cards": cards, "steps": list(_steps(chance, cards))}


def _cards(chance: random.Random, node: str) -> list[dict[str, Any]]:
    kind, memory = chance.choice(KINDS)
    slots, mixed = chance.choice((1, 2, 4, 10, 16)), chance.random()
    cards = []
    for index in range(chance.choice((1, 1, 2, 2, 3, 4, 8))):
        card = a_card(f"GPU-{node}-{index}", index=index, count=slots, devmem=memory, type=kind)
        if mixed < 0.35 and chance.random() < 0.6:
            card |= chance.choice(
                (
                    {"mode": "mig", "count": 7, "type": KINDS[0][0], "devmem": 81920, "migProfiles": MIG_PROFILES},
                    {"mode": "mig", "count": 4, "type": "NVIDIA A30", "devmem": 24576, "migProfiles": A30_PROFILES},
                )
            )
        card["health"] = chance.random() > 0.07
        card["devcore"] = 200 if chance.random() < 0.05 else 100
        cards.append(card)
    return cards


def _steps(chance: random.Random, cards: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    asked: list[int] = []
    for number in range(chance.randint(8, 24)):
        if asked and chance.random() < 0.15:
            yield {"delete": asked.pop(chance.randrange(len(asked)))}
            continue
        asked.append(number)
        yield {"annotations": _annotations(chance, cards), "limits": _limits(chance, cards)}


def _limits(chance: random.Random, cards: list[dict[str, Any]]) -> dict[str, int]:
    memory = chance.choice(cards)["devmem"]
    asked = {words.RESOURCE_COUNT: chance.choice((1, 1, 1, 1, 2, 2, 3, len(cards), len(cards) + 1))}
    if chance.random() < 0.75:
        part = chance.choice((1, 2, 3, 4, 8, 16))
        asked[words.RESOURCE_MEMORY] = chance.choice((memory // part, memory // part + 1, 1000, 1, 5952, 9728, 0))
    if chance.random() < 0.15:
        asked[words.RESOURCE_PERCENTAGE] = chance.choice((1, 25, 33, 50, 100, 0))
    if chance.random() < 0.8:
        asked[words.RESOURCE_CORES] = chance.choice((0, 1, 6, 12, 25, 33, 50, 60, 99, 100, 150))
    return asked


def _annotations(chance: random.Random, cards: list[dict[str, Any]]) -> dict[str, str]:
    ids = [card["id"] for card in cards]
    some = chance.sample(ids, chance.randint(1, len(ids)))
    found: dict[str, str] = {}
    match chance.randrange(8):
        case 0 | 1 | 2:
            found[words.USE_UUID] = ",".join(some)
        case 3:
            found[words.NO_USE_UUID] = ",".join(some)
        case 4:
            found[words.USE_TYPE] = chance.choice(("A100", "H100", "T4", "A30", "L40S", "A100,T4"))
        case 5:
            found[words.NO_USE_TYPE] = chance.choice(("A100", "T4", "A30"))
    if chance.random() < 0.6:
        found[words.MODE] = chance.choice(("hami-core", "hami-core", "mig", "mps"))
    return found
