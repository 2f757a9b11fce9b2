"""The pre-flight test's questions about HAMi, its plugins and the cards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from cluster.domain import hami
from cluster.domain.amounts import whole
from cluster.domain.hami_pods import bound_on, past_hami
from cluster.domain.kube import Object, annotation, full_name, has_ended, label, name, number, part, rows, text
from cluster.domain.nvidia import RESOURCE_COUNT
from cluster.domain.preflight.findings import Expected, Facts, Finding

SUPPORTED = (2, 10)
NODE_NAME_MAX = 63  # HAMi writes it into a label
STALE_LOCK = timedelta(minutes=5)
_COMPONENT = "app.kubernetes.io/component"
_VENDOR_PLUGIN = re.compile(r"k8s-device-plugin|nvidia-device-plugin|nvidia-gpu-device-plugin")
_OTHER_VENDOR = re.compile(r"hami\.io/node-(?!nvidia-)(?P<vendor>.+)-register")
_PERCENT = 100
_SETTINGS = re.compile(r"^\s*\"?(?P<name>[A-Za-z]+)\"?\s*:\s*\"?(?P<value>[A-Za-z0-9.]+)\"?,?\s*$", re.MULTILINE)


def scheduler(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether HAMi's scheduler runs, in a release that is known."""
    if facts.deployments is None:
        return
    found = [each for each in facts.deployments if _is_hami(each, "scheduler")]
    if not found:
        yield Finding(
            "error",
            "hami_missing",
            "cluster",
            "HAMi's scheduler is not there: no session with a card can start.",
            "Install HAMi 2.10 with its chart.",
        )
    for each in found:
        if not number(each, "status", "readyReplicas"):
            yield Finding(
                "error",
                "hami_not_ready",
                full_name(each),
                f"HAMi's scheduler {full_name(each)} has no ready pod.",
                "Look at its pod's events and log.",
            )
        yield from _release(each)


def _release(deployment: Object) -> Iterator[Finding]:
    images = [text(each, "image") for each in rows(deployment, "spec", "template", "spec", "containers")]
    tags = [re.search(r"hami[^:@]*:v?(\d+)\.(\d+)", image) for image in images]
    release = next(((int(tag[1]), int(tag[2])) for tag in tags if tag), None)
    if release is None or release == SUPPORTED:
        return
    spelled, supported = ".".join(map(str, release)), ".".join(map(str, SUPPORTED))
    older = release < SUPPORTED
    yield Finding(
        "error" if older else "warning",
        "hami_release",
        full_name(deployment),
        f"HAMi {spelled} is {'older' if older else 'newer'} than {supported}, which GShare was tried with"
        f"{': MIG instances and registers are written differently' if older else ''}.",
        f"Install HAMi {supported}; end what runs on cards in MIG mode before.",
    )


def device_plugins(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether one plugin, HAMi's, offers the cards."""
    for each in facts.daemon_sets or ():
        images = " ".join(text(one, "image") for one in rows(each, "spec", "template", "spec", "containers"))
        if _VENDOR_PLUGIN.search(images) and not _is_hami(each) and _wants_pods(each):
            yield Finding(
                "error",
                "second_device_plugin",
                full_name(each),
                f"The DaemonSet {full_name(each)} is a second device plugin for {RESOURCE_COUNT}: both would hand out the "
                "same cards.",
                "Remove it, or keep it off the nodes with cards; with NVIDIA's GPU operator set devicePlugin.enabled=false.",
            )
    for node in facts.nodes or ():
        yield from _offers(node)


def _offers(node: Object) -> Iterator[Finding]:
    own, allocatable = name(node), part(node, "status", "allocatable")
    register = hami.read_register(annotation(node, hami.REGISTER))
    slots, offered = sum(card.slots for card in register.cards), whole(allocatable.get(RESOURCE_COUNT))
    if register.is_complete and slots and not offered:
        yield Finding(
            "error",
            "plugin_silent",
            own,
            f"Node {own} registered cards, but its device plugin offers none to the kubelet.",
            "Look at HAMi's device plugin on the node; after a restart it takes up to 45 s.",
        )
    elif register.is_complete and offered and offered != slots:
        yield Finding(
            "error",
            "second_device_plugin",
            own,
            f"Node {own} offers {offered} of {RESOURCE_COUNT}, but HAMi registered {slots} slots: another device plugin "
            "offers them.",
            "Keep only HAMi's device plugin on the node.",
        )
    elif offered and annotation(node, hami.REGISTER) is None:
        yield Finding(
            "error",
            "not_hamis_cards",
            own,
            f"Node {own} offers {offered} of {RESOURCE_COUNT}, but HAMi has not registered them.",
            "Label the node gpu=on, so that HAMi's device plugin runs there, and remove the other plugin.",
        )
    for resource in sorted(allocatable):
        if resource.startswith("nvidia.com/mig-") or resource == "nvidia.com/gpu.shared":
            yield Finding(
                "warning",
                "foreign_resource",
                own,
                f"Node {own} offers {resource}, which HAMi does not serve.",
                "Set the plugin's migStrategy to none.",
            )


def cards(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """What is registered on nodes, and whether the smallest tier fits as often as it is rented out."""
    if not facts.nodes:
        return
    if not any(annotation(node, hami.REGISTER) for node in facts.nodes):
        yield Finding(
            "warning",
            "no_cards",
            "cluster",
            "No node has registered a card: only sessions without a GPU can start.",
            "Install HAMi's device plugin and label nodes with cards gpu=on.",
        )
    for node in facts.nodes:
        yield from _registered(node, facts, expected)


def _registered(node: Object, facts: Facts, expected: Expected) -> Iterator[Finding]:
    own = name(node)
    for key in part(node, "metadata", "annotations"):
        other = _OTHER_VENDOR.fullmatch(key)
        if other:
            words = f"Node {own} has cards of another vendor ({other['vendor']}): nothing is placed on them."
            yield Finding("note", "other_vendor", own, words, "Nothing to do.")
    written = annotation(node, hami.REGISTER)
    if written is None:
        return
    register = hami.read_register(written)
    for words in register.unreadable:
        said = f"Node {own}: {words}."
        yield Finding("error", "register_unreadable", own, said, "Compare HAMi's release with the supported one.")
    if register.encoding.startswith("csv"):
        yield Finding(
            "error",
            "register_old",
            own,
            f"Node {own} registers its cards in the form of HAMi 2.7 and before, which newer schedulers ignore.",
            "Upgrade HAMi's device plugin to 2.10.",
        )
    if len(own) > NODE_NAME_MAX:
        yield Finding(
            "error",
            "node_name_too_long",
            own,
            f"The name of node {own} has {len(own)} characters; HAMi writes it into a label, which holds {NODE_NAME_MAX}.",
            "Let the node join under a shorter name.",
        )
    yield from _few_slots(own, register, expected)
    yield from _odd_cards(own, register)
    pods = [pod for pod in facts.pods or () if not has_ended(pod)]
    for words in (*bound_on(own, pods)[1], *past_hami(own, pods)):
        yield Finding("warning", "foreign_use_unknown", own, f"Node {own}: {words}.", "End that pod, or move it away.")
    lock = hami.read_lock(annotation(node, hami.NODE_LOCK))
    if lock is not None and facts.now - lock.since > STALE_LOCK:
        yield Finding(
            "warning",
            "node_lock_stale",
            own,
            f"Node {own} is locked since {lock.since.isoformat()} by pod {lock.namespace}/{lock.pod}: nothing starts there.",
            f"Delete that pod if it is stuck, then remove the annotation {hami.NODE_LOCK}.",
        )


def _few_slots(own: str, register: hami.Register, expected: Expected) -> Iterator[Finding]:
    shared = [card.slots for card in register.cards if card.mode == "hami-core"]
    if shared and min(shared) < expected.slots:
        yield Finding(
            "warning",
            "too_few_slots",
            own,
            f"Cards of node {own} have {min(shared)} slots, but the smallest tier is 1/{expected.slots} of a card: from the "
            f"{min(shared) + 1}th session on a card everybody waits, however much is free.",
            f"Set HAMi's deviceSplitCount to {expected.slots} or more and restart its device plugin.",
        )


def _odd_cards(own: str, register: hami.Register) -> Iterator[Finding]:
    for card in register.cards:
        where = f"card {card.index} ({card.uuid}) of node {own}"
        if not card.healthy:
            yield Finding(
                "warning",
                "card_unhealthy",
                own,
                f"HAMi holds {where} for broken.",
                "Look at its XID errors; a card stays broken until the device plugin restarts.",
            )
        if card.core_percent != _PERCENT:
            yield Finding(
                "warning",
                "cores_scaled",
                own,
                f"{where[0].upper()}{where[1:]} has {card.core_percent} % of cores: whole cards would be shared.",
                "Set HAMi's deviceCoreScaling to 1.",
            )
        if card.mode == "mig" and not card.mig_profiles:
            yield Finding(
                "error",
                "mig_profiles_missing",
                own,
                f"{where[0].upper()}{where[1:]} is in MIG mode, but says no profiles: so does HAMi before 2.10.",
                "Upgrade HAMi after what runs on it has ended.",
            )


def settings(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """HAMi's own settings, as far as its ConfigMaps say them."""
    for each in facts.config_maps or ():
        if not _is_hami(each):
            continue
        said = "\n".join(value for value in part(each, "data").values() if isinstance(value, str))
        for match in _SETTINGS.finditer(said):
            yield from _setting(full_name(each), match["name"].lower(), match["value"].lower())


def _setting(where: str, key: str, value: str) -> Iterator[Finding]:
    if key == "overwriteenv" and value == "false":
        yield Finding(
            "warning",
            "cards_visible",
            where,
            "Pods that ask for no card may see all cards of their node.",
            "Set HAMi's scheduler.overwriteEnv to true.",
        )
    if key == "devicememoryscaling" and re.fullmatch(r"\d+(\.\d+)?", value) and float(value) > 1:
        yield Finding(
            "warning",
            "memory_scaled",
            where,
            f"HAMi gives away {value} times the memory that cards have.",
            "Set deviceMemoryScaling to 1.",
        )
    if key == "migstrategy" and value not in ("none", ""):
        yield Finding(
            "warning",
            "mig_strategy",
            where,
            f"HAMi's migStrategy is {value}: its scheduler serves instances only with none.",
            "Set migStrategy to none.",
        )


def monitor(facts: Facts, expected: Expected) -> Iterator[Finding]:
    """Whether somebody measures what shared cards do: without it no session on them is ever idle."""
    if facts.daemon_sets is None:
        return
    plugins = [each for each in facts.daemon_sets if _is_hami(each, "device-plugin")]
    measured = any(
        "monitor" in text(one, "name").lower()
        for each in plugins
        for one in rows(each, "spec", "template", "spec", "containers")
    )
    if plugins and not measured:
        yield Finding(
            "warning",
            "monitor_missing",
            full_name(plugins[0]),
            "HAMi's vGPU monitor does not run: use of shared cards is unknown, and nobody on them counts as idle.",
            "Enable it in HAMi's chart.",
        )


def _is_hami(thing: Object, component: str = "") -> bool:
    """By the labels of HAMi's chart, or by its names."""
    said = f"{label(thing, _COMPONENT) or ''} {name(thing)}".lower()
    return "hami" in said and component in said


def _wants_pods(daemon_set: Object) -> bool:
    """Whether it runs anywhere; one that was never counted does."""
    status = part(daemon_set, "status")
    return "desiredNumberScheduled" not in status or number(status, "desiredNumberScheduled") > 0


CHECKS = (scheduler, device_plugins, cards, settings, monitor)
