"""Whether a pod fits one node: HAMi's checks per card, in HAMi's order, with HAMi's words.

The cards are tried from the tail of the sorted list; a card in MIG mode is tried again until it refuses, so that one request
may get several instances of it. A refusal counts each card once per reason: ``1/2 CardUuidMismatch, 1/2 CardNotHealth``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from tests.kube.hami_twin import mig, words
from tests.kube.hami_twin.allocations import Device, Taken, taken_by
from tests.kube.hami_twin.requests import Pod, Request, annotations_of, init_count
from tests.kube.hami_twin.usage import CardUse, NodeUse, Weights

_WHOLE = 100


class Refused(Exception):
    """The pod does not fit; the text is what HAMi says."""


@dataclass(frozen=True)
class Applicant:
    """A pod, what each of its containers asks for, and whether its namespace's quota bears so much more."""

    pod: Pod
    requests: Sequence[Request]
    quota_bears: Callable[[Sequence[Taken]], bool]
    weights: Weights = field(default_factory=Weights)
    cordoned: frozenset[str] = frozenset()

    @property
    def annotations(self) -> dict[str, str]:
        """The pod's annotations."""
        return annotations_of(self.pod)

    @property
    def init_containers(self) -> int:
        """How many of the requests are those of init containers."""
        return init_count(self.pod)


def fit_pod(applicant: Applicant, node: NodeUse) -> list[list[Device]]:
    """The device list of the pod on the node. Raises `Refused`.

    The slot of a container without cards is kept only where the card's type is the vendor's bare name, as in 2.10.
    """
    keeps_empty = any(use.card.type == words.VENDOR for use in node.cards)
    first = applicant.init_containers
    begun: list[list[Device]] = []
    for index, request in enumerate(applicant.requests[:first]):
        if request.cards:
            begun.append(_fit_container(applicant, node.copy(), request, begun))
        if keeps_empty and len(begun) == index:
            begun.append([])
    running = node.copy()
    devices: list[list[Device]] = []
    for index, request in enumerate(applicant.requests[first:]):
        if request.cards:
            devices.append(_fit_container(applicant, running, request, devices))
        if keeps_empty and len(devices) == index:
            devices.append([])
    return begun + devices


def _fit_container(
    applicant: Applicant, node: NodeUse, request: Request, allocated: Sequence[Sequence[Device]]
) -> list[Device]:
    """The devices of one container, counted on `node`."""
    for use in node.cards:
        use.rate(applicant.weights)
    node.sort()
    cards = [use for use in node.cards if words.VENDOR.lower() in use.card.type.lower()]
    if request.cards > len(cards) and not _may_share_a_card(applicant, cards):
        raise Refused(words.TOO_FEW_CARDS)
    chosen = _Search(applicant, request, node.policy, allocated).over(cards)
    return [_count(node, device) for device in chosen]


def _may_share_a_card(applicant: Applicant, cards: Sequence[CardUse]) -> bool:
    mode = applicant.annotations.get(words.MODE)
    return (mode is None or words.MIG in mode) and any(use.card.mode == words.MIG for use in cards)


def _count(node: NodeUse, device: Device) -> Device:
    use = next(use for use in node.cards if use.card.uuid == device.uuid)
    if use.card.mode == words.MIG:
        found = mig.choose(use.card.profiles, use.occupied, device.memory_mib)
        if found is None:
            raise Refused(
                f"AddResourceUsage failed for device {device.uuid}: MIG profile and placement allocation failed"
            )
        profile, place = found
        device = replace(
            device, memory_mib=profile.memory_mib, cores=profile.cores, profile=profile.name, placement=place
        )
        use.occupied.append(place)
    use.slots += 1
    use.memory_mib += device.memory_mib
    use.cores += device.cores
    return device


@dataclass
class _Search:
    """The search for one container's cards."""

    applicant: Applicant
    request: Request
    policy: str
    allocated: Sequence[Sequence[Device]]
    reasons: Counter[str] = field(default_factory=Counter)
    found: list[Device] = field(default_factory=list)

    def over(self, cards: Sequence[CardUse]) -> list[Device]:
        """The devices found. Raises `Refused` with the reasons of all cards."""
        by_topology = "topology-aware" in self._policies()
        wanted, numa = self.request.cards, None
        position = len(cards) - 1
        while position >= 0:
            use = cards[position]
            position -= 1
            if self._is_bound_to_numa() and self._is_possible(use) and numa != use.card.numa:
                if self.found and not by_topology:
                    self.reasons[words.NUMA_NOT_FIT] += len(self.found)
                self.found, numa = [], use.card.numa
            why_not = self._judge(use)
            if why_not is not None:
                self.reasons[why_not] += 1
                continue
            self.found.append(
                Device(use.card.uuid, self.request.memory_on(use.card.memory_mib), min(self.request.cores, _WHOLE))
            )
            if len(self.found) == wanted and not by_topology:
                return self.found
            if use.card.mode == words.MIG:
                position += 1
        if by_topology and len(self.found) >= wanted:
            return self._best_linked(cards)
        if self.found:
            self.reasons[words.ONLY_SOME_CARDS] = len(self.found)
        raise Refused(
            ", ".join(sorted(f"{count}/{len(cards)} {reason}" for reason, count in self.reasons.items() if count))
        )

    def _policies(self) -> set[str]:
        return {part.strip() for part in self.policy.split(",")}

    def _is_bound_to_numa(self) -> bool:
        return self.applicant.annotations.get(words.NUMA_BIND) in words.TRUE_WORDS

    def _is_possible(self, use: CardUse) -> bool:
        """Whether the card passes the checks that come before a change of the NUMA node is noticed."""
        return use.healthy and use.card.uuid not in self.applicant.cordoned and self._type_matches(use)

    def _judge(self, use: CardUse) -> str | None:
        """Why the card is refused; None when it is taken."""
        card, request = use.card, self.request
        if not use.healthy:
            return words.NOT_HEALTHY
        if card.uuid in self.applicant.cordoned:
            return words.CORDONED
        if not self._type_matches(use):
            return words.TYPE_MISMATCH
        if not self._uuid_matches(card.uuid):
            return words.UUID_MISMATCH
        if card.slots <= use.slots:
            return words.SLOTS_EXHAUSTED
        if "mutex" in self._policies() and use.slots > 0:
            return words.EXCLUSIVE_CONFLICT
        return self._judge_amounts(use, request.memory_on(card.memory_mib), min(request.cores, _WHOLE))

    def _judge_amounts(self, use: CardUse, memory_mib: int, cores: int) -> str | None:
        card = use.card
        if not self._quota_bears(Device(card.uuid, memory_mib, cores)):
            return words.QUOTA_NOT_FIT
        if card.memory_mib - use.memory_mib < memory_mib:
            return words.TOO_LITTLE_MEMORY
        if card.cores - use.cores < cores:
            return words.TOO_FEW_CORES
        if card.cores == _WHOLE and cores == _WHOLE and use.slots > 0:
            return words.EXCLUSIVE_CONFLICT
        if card.cores and use.cores == card.cores and cores == 0:
            return words.CORES_EXHAUSTED
        if card.mode == words.MIG and not self._instance_has_place(use, memory_mib):
            return words.MIG_INFEASIBLE
        return None

    def _type_matches(self, use: CardUse) -> bool:
        annotations = self.applicant.annotations
        mode = annotations.get(words.MODE)
        if mode is not None and use.card.mode not in mode:
            return False
        kind = use.card.type.upper()
        wanted, unwanted = annotations.get(words.USE_TYPE, ""), annotations.get(words.NO_USE_TYPE, "")
        return not (
            (wanted.strip() and not _names_part_of(kind, wanted))
            or (unwanted.strip() and _names_part_of(kind, unwanted))
        )

    def _uuid_matches(self, uuid: str) -> bool:
        annotations = self.applicant.annotations
        wanted, unwanted = annotations.get(words.USE_UUID, ""), annotations.get(words.NO_USE_UUID, "")
        return not (
            (wanted.strip() and uuid not in _entries(wanted)) or (unwanted.strip() and uuid in _entries(unwanted))
        )

    def _quota_bears(self, more: Device) -> bool:
        devices = [*self.allocated, [*self.found, more]]
        return self.applicant.quota_bears(taken_by(devices, self.applicant.init_containers))

    def _instance_has_place(self, use: CardUse, memory_mib: int) -> bool:
        occupied = list(use.occupied)
        for device in [*self.found, Device(use.card.uuid, memory_mib, 0)]:
            if device.uuid != use.card.uuid:
                continue
            found = mig.choose(use.card.profiles, occupied, device.memory_mib)
            if found is None:
                return False
            occupied.append(found[1])
        return True

    def _best_linked(self, cards: Sequence[CardUse]) -> list[Device]:
        """Of more cards than wanted: the worst linked one, or the best linked combination; the first of equals."""
        wanted = self.request.cards
        links = {use.card.uuid: use.card.links for use in cards}
        if len(self.found) == wanted:
            return self.found
        if wanted == 1:
            uuids = {device.uuid for device in self.found}
            return [
                min(
                    self.found,
                    key=lambda device: sum(links[device.uuid].get(other, 0) for other in uuids - {device.uuid}),
                )
            ]
        return list(
            max(
                combinations(self.found, wanted),
                key=lambda group: sum(links[one.uuid].get(other.uuid, 0) for one, other in combinations(group, 2)),
            )
        )


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",")]


def _names_part_of(kind: str, text: str) -> bool:
    return any(entry and entry.upper() in kind for entry in _entries(text))
