"""A node whose cards can be cut by MIG, as HAMi's device plugin, the driver and the job controller keep it: a stand-in for all three.

The plugin's DaemonSet makes a pod where there is none; a new pod reads HAMi's setting of the node and registers the cards so. MIG
is switched on by a plugin that starts in MIG mode and off by the job alone, as with HAMi 2.10; a plugin that starts in the
shared mode while MIG is on registers such cards as whole ones, which must never be seen (`wrongly_whole`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count

import httpx

from cluster.domain.hami_config import operating_mode
from cluster.operator.manifests.mig_off import mig_off_name
from tests.kube.hami_twin.bench import MIG_PROFILES
from tests.kube.kubelet import Kubelet
from tests.kube.nodes import NODES, REGISTER, a_card, a_node, moment
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, Refused

COMPONENT = "app.kubernetes.io/component"
PLUGIN = {"app.kubernetes.io/name": "hami", COMPONENT: "hami-device-plugin"}
OTHERS = {"name": "gpu-09", "operatingmode": "hami-core", "devicememoryscaling": 1.5, "devicesplitcount": 16}


class MigNode(threading.Thread):
    """One such node, between `with` and its end. `settings` is HAMi's namespace, `infra` where the job is."""

    def __init__(
        self, plane: ControlPlane, kubelet: Kubelet, name: str, *, hami: str, infra: str, cards: int = 2
    ) -> None:
        super().__init__(name=f"mig-node {name}", daemon=True)
        self.rest, self.node, self.hami, self.infra = plane.rest(), name, hami, infra
        self.uuids = [f"GPU-{name}-{index}" for index in range(cards)]
        self.mig_on, self.wrongly_whole = False, False
        self.job_says: Callable[[], str] = lambda: ""  # why it fails; empty: it works
        self.plugins_made = count()
        self.starts: list[str] = []
        self._over = threading.Event()
        kubelet.add_node(a_node(name, [a_card(uuid, index=index) for index, uuid in enumerate(self.uuids)]))
        self._config({"nodeconfig": [OTHERS]})
        self._make_plugin()

    def __enter__(self) -> MigNode:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(10)

    def cordon(self, *, cordoned: bool = True) -> None:
        self.rest.patch(f"{NODES}/{self.node}", {"spec": {"unschedulable": cordoned or None}})

    @property
    def modes(self) -> set[str]:
        """How the register says that the cards are cut."""
        written = self.rest.get(f"{NODES}/{self.node}")["metadata"]["annotations"][REGISTER]
        return {card["mode"] for card in json.loads(written)}

    @property
    def settings(self) -> list[JSON]:
        """HAMi's settings of nodes."""
        read: list[JSON] = json.loads(self._config_text())["nodeconfig"]
        return read

    def plugins(self) -> list[JSON]:
        pods = self.rest.items(f"/api/v1/namespaces/{self.hami}/pods", labelSelector=f"{COMPONENT}=hami-device-plugin")
        return [pod for pod in pods if pod["spec"].get("nodeName") == self.node]

    def run(self) -> None:
        while not self._over.wait(0.05):
            with suppress(httpx.HTTPError, Refused):
                if not self.plugins():
                    self._make_plugin()
                self._run_job()

    def _make_plugin(self) -> None:
        name = f"hami-device-plugin-{self.node}-{next(self.plugins_made)}"
        spec = {"nodeName": self.node, "containers": [{"name": "device-plugin", "image": "hami"}]}
        mode = operating_mode(self._config_text(), self.node) or "hami-core"
        self.rest.create(
            f"/api/v1/namespaces/{self.hami}/pods", {"metadata": {"name": name, "labels": PLUGIN}, "spec": spec}
        )
        self.starts.append(mode)
        self.mig_on |= mode == "mig"
        self.wrongly_whole |= self.mig_on and mode != "mig"
        cut = {"mode": mode} | ({"count": 7, "migProfiles": MIG_PROFILES} if mode == "mig" else {})
        cards = [a_card(uuid, index=index, **cut) for index, uuid in enumerate(self.uuids)]
        self.rest.patch(f"{NODES}/{self.node}", {"metadata": {"annotations": {REGISTER: json.dumps(cards)}}})

    def _run_job(self) -> None:
        path = f"/apis/batch/v1/namespaces/{self.infra}/jobs/{mig_off_name(self.node)}"
        job = self.rest.find(path)
        if job is None or job["metadata"].get("deletionTimestamp") or job.get("status", {}).get("conditions"):
            return
        now = moment(datetime.now(UTC))
        why = self.job_says()
        if not why:
            self.mig_on = False
        kinds = ("FailureTarget", "Failed") if why else ("SuccessCriteriaMet", "Complete")
        told = {"status": "True", "reason": "Tests", "message": why, "lastTransitionTime": now, "lastProbeTime": now}
        status: JSON = {"startTime": now, "conditions": [{"type": kind, **told} for kind in kinds]}
        status |= {"failed": 1} if why else {"succeeded": 1, "completionTime": now}
        self.rest.patch(f"{path}/status", {"status": status})

    def _config(self, whole: JSON) -> None:
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hami-device-plugin"}}
        path = f"/api/v1/namespaces/{self.hami}/configmaps/hami-device-plugin"
        self.rest.apply(path, document | {"data": {"config.json": json.dumps(whole)}}, manager="tests")

    def _config_text(self) -> str:
        found = self.rest.get(f"/api/v1/namespaces/{self.hami}/configmaps/hami-device-plugin")
        text: str = found["data"]["config.json"]
        return text
