"""Where the books about cards disagree: what pods are annotated with, what HAMi counts, what the control plane claimed.

HAMi may keep the allotment of a deleted pod until its scheduler restarts, or count what no pod holds. Nothing is repaired
here; each difference is said in words with both figures. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gshare_core.contract import NodeRow


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference on one card."""

    card: str
    node: str
    words: str


def drifts(nodes: Iterable[NodeRow], *, claimed_mib: Mapping[str, int] | None = None) -> tuple[Drift, ...]:
    """The differences, by node and card.

    `claimed_mib`: what claims hold by UUID. What was not asked or is not listed is unknown and no difference; of a card in MIG mode
    claims say the tier and pods the instance, which are not compared.
    """
    found: list[Drift] = []
    for node in nodes:
        for card in node.cards:
            annotated = sum(share.vram_mib for share in card.bound)
            percent = sum(share.core_percent for share in card.bound)
            ours = sum(share.vram_mib for share in card.bound if share.session is not None)
            claimed = (claimed_mib or {}).get(card.uuid) if card.mode != "mig" else None
            said = [
                _over("MiB", annotated, card.vram_mib),
                _over("% of the cores", percent, card.core_percent),
                _over("slots", len(card.bound), card.slots),
                _differs("HAMi counts", card.counted_mib, annotated, "all pods"),
                _differs("Open claims hold", claimed, ours, "sessions' pods"),
            ]
            found += [Drift(card.uuid, node.name, words) for words in said if words]
    return tuple(found)


def _over(unit: str, used: int, total: int) -> str:
    return f"Pods hold {used:,} {unit} of a card that has {total:,}." if used > total else ""


def _differs(who: str, said: int | None, annotated: int, whose: str) -> str:
    if said is None or said == annotated:
        return ""
    return f"{who} {said:,} MiB, but {whose} are annotated with {annotated:,} MiB."
