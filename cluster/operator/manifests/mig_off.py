"""The job that turns MIG off on cards of a node: HAMi 2.10 leaves it on when a node goes back to sharing, and would register
such a card as a whole one.

Guarantees: one job a node, by its name; it changes nothing on a card that something still uses (the driver refuses to destroy an
instance in use), and succeeds only when the driver itself says of every card that MIG is off. It runs on a cordoned node,
knows no account of the cluster and mounts nothing of the machine; privileged, since only then the driver lets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cluster.domain.nvidia import RUNTIME_CLASS
from cluster.operator.manifests.stamps import LABEL_MANAGED, MANAGER, Manifest
from gshare_core.contract import API_GROUP

LABEL_MODE_CHANGE = f"{API_GROUP}/mode-change"
PREFIX = "gshare-mig-off-"
SECONDS = 600
_KEPT_SECONDS = 3600
_ANY_TAINT = [{"operator": "Exists"}]

# What it says last is the pod's termination message, which the operator passes on.
SCRIPT = """\
set -u
say() { echo "$1" | tee "${MESSAGE_FILE:-/dev/termination-log}"; }
is_on() {
  state=$(nvidia-smi -i "$1" --query-gpu=mig.mode.current --format=csv,noheader 2>&1)
  case "$state" in
    Enabled) return 0 ;;
    Disabled|"[N/A]") return 1 ;;
    *) say "$1: $state"; exit 1 ;;
  esac
}
for card in $CARDS; do
  is_on "$card" || continue
  nvidia-smi mig -dci -i "$card" >/dev/null 2>&1
  nvidia-smi mig -dgi -i "$card" >/dev/null 2>&1
  said=$(nvidia-smi -i "$card" -mig 0 2>&1) || { say "$card: $said"; exit 1; }
  is_on "$card" || continue
  nvidia-smi -i "$card" --gpu-reset >/dev/null 2>&1
  is_on "$card" || continue
  say "$card: MIG stays on until the card is reset: end what uses it, or restart the machine"
  exit 1
done
say "MIG is off"
"""


def mig_off_name(node: str) -> str:
    """The job's name on this node: a digest, since a node's name may be longer than a job's."""
    return PREFIX + hashlib.sha256(node.encode()).hexdigest()[:16]


def mig_off(node: str, cards: Sequence[str], *, change: str, image: str, namespace: str) -> Manifest:
    """The job. `change` is the name of the mode change that it is for."""
    labels = {LABEL_MANAGED: MANAGER, LABEL_MODE_CHANGE: change}
    container = {
        "name": "mig-off",
        "image": image,
        "command": ["/bin/sh", "-c", SCRIPT],
        "env": [
            {"name": "CARDS", "value": " ".join(cards)},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
            {"name": "NVIDIA_MIG_CONFIG_DEVICES", "value": "all"},
        ],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "10m", "memory": "32Mi"}},
        "securityContext": {"privileged": True},
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "runtimeClassName": RUNTIME_CLASS,
        "nodeSelector": {"kubernetes.io/hostname": node},
        "tolerations": _ANY_TAINT,
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": mig_off_name(node), "namespace": namespace, "labels": labels},
        "spec": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": SECONDS,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
