"""What stands against cutting a node's cards another way, what still holds them, and whether it has come about.

Guarantees: what cannot be read stands against it; every pod that HAMi keeps a card for counts until it has ended, bound or not,
deleted or not, and so does one that asks for cards past HAMi, or was lent one; a card counts as cut only when HAMi's register
says so, and that it is well. Answers are words for people; empty words mean that nothing stands against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cluster.domain import hami
from cluster.domain.hami_config import operating_mode
from cluster.domain.kube import Object, annotation, asks, condition, full_name, has_ended, label, rows, text
from cluster.domain.nvidia import RESOURCE_COUNT
from cluster.operator.manifests.stamps import ANNOTATION_CARDS
from cluster.operator.reading.nodes import is_unschedulable
from gshare_core.contract.resources import ModeChange

COMPONENT = "app.kubernetes.io/component"
PLUGIN = "hami-device-plugin"
MIG = "mig"
_NAMED = 3
# What HAMi's plugin can be told for all cards, and what instances made on demand need of it (HAMi 3.6 of `hami.md`; #1903).
_NEEDS = {"--mig-strategy": ("", "none"), "--device-list-strategy": ("", "envvar")}


def objection(
    change: ModeChange, node: Object | None, settings: str | None, plugins: Iterable[Object], *, image: str
) -> str:
    """Why nothing should even begin. `settings` is HAMi's ConfigMap, None where there is none."""
    if node is None:
        return f"there is no node {change.node}"
    if settings is None:
        return "HAMi's ConfigMap of its device plugin is not there"
    try:
        operating_mode(settings, change.node)
    except ValueError as error:
        return f"HAMi's settings of its device plugin cannot be read: {error}"
    if not image:
        return "GSHARE_OPERATOR_MIG_IMAGE is not set: nobody could turn MIG off again"
    register = hami.read_register(annotation(node, hami.REGISTER))
    there, named = {card.uuid for card in register.cards}, set(change.card_uuids)
    if there - named:
        return f"HAMi changes all cards of a node together, also {', '.join(sorted(there - named))}"
    if change.target_mode != MIG:
        return ""  # the way back is open also where HAMi's plugin fell silent over the way there
    if not register.is_complete:
        return "; ".join(register.unreadable) or "the node does not say which cards it has"
    if named - there:
        return f"the node has no card {', '.join(sorted(named - there))}"
    return "; ".join(_told_otherwise(plugins))


def _told_otherwise(plugins: Iterable[Object]) -> Iterator[str]:
    for pod in plugins:
        for container in rows(pod, "spec", "containers"):
            words = [*_texts(container, "command"), *_texts(container, "args")]
            for option, allowed in _NEEDS.items():
                value = _value(" ".join(words).split(), option)
                if value not in allowed:
                    yield f"HAMi's plugin runs with {option}={value}; instances need {allowed[-1]}"


def _texts(container: Object, key: str) -> list[str]:
    given = container.get(key)
    return [each for each in given if isinstance(each, str)] if isinstance(given, list) else []


def _value(words: list[str], option: str) -> str:
    for at, word in enumerate(words):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option:
            return words[at + 1] if at + 1 < len(words) else ""
    return ""


def hindrance(change: ModeChange, node: Object, pods: Iterable[Object]) -> str:
    """What it waits for before it begins: the cordon, and pods that hold a card of the node."""
    if not is_unschedulable(node):
        return "waits until the node is cordoned"
    holding = sorted(full_name(pod) for pod in pods if not has_ended(pod) and _holds(change, pod))
    if holding:
        more = f" and {len(holding) - _NAMED} more" if len(holding) > _NAMED else ""
        return f"waits for {', '.join(holding[:_NAMED])}{more}"
    return ""


def _holds(change: ModeChange, pod: Object) -> bool:
    if annotation(pod, hami.ASSIGNED_NODE) == change.node:
        return True
    if text(pod, "spec", "nodeName") != change.node:
        return False
    lent = set((annotation(pod, ANNOTATION_CARDS) or "").split(","))
    return bool(asks(pod, RESOURCE_COUNT)) or bool(lent & set(change.card_uuids))


def plugins_of(node: str, pods: Iterable[Object]) -> list[Object]:
    """HAMi's plugin on the node: the pods of its DaemonSet there."""
    return [pod for pod in pods if label(pod, COMPONENT) == PLUGIN and text(pod, "spec", "nodeName") == node]


def is_ready(pod: Object) -> bool:
    """Whether the pod is up."""
    return condition(pod, "Ready").get("status") == "True" and not text(pod, "metadata", "deletionTimestamp")


def why_not_ready(pod: Object) -> str:
    """What keeps a pod from being up, in the kubelet's words."""
    for state in rows(pod, "status", "containerStatuses"):
        for kind in ("waiting", "terminated"):
            found = state.get("state")
            said = found.get(kind) if isinstance(found, dict) else None
            if isinstance(said, dict):
                return ": ".join(word for word in (said.get("reason"), said.get("message")) if isinstance(word, str))
    return text(pod, "status", "phase") or "it has not started"


def unconfirmed(change: ModeChange, node: Object | None) -> str:
    """What HAMi's register does not show yet."""
    register = hami.read_register(annotation(node, hami.REGISTER) if node is not None else None)
    cards = {card.uuid: card for card in register.cards}
    for uuid in change.card_uuids:
        card = cards.get(uuid)
        if card is None:
            return f"card {uuid} is not registered"
        if card.mode != change.target_mode:
            return f"card {uuid} is registered as {card.mode}"
        if not card.healthy:
            return f"HAMi holds card {uuid} for broken"
        if change.target_mode == MIG and not card.mig_profiles:
            return f"card {uuid} says no MIG profiles"
    return ""
