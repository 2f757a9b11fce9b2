"""The demo with a cluster of Kubernetes in the place of the local one.

The control plane's own processes, a real kube-apiserver, kube-scheduler and etcd, HAMi's rules, the operator as a process, a
kubelet that starts JupyterLab and terminals for pods, and a nginx in front of all as the operator's Ingress objects say. Control
plane and operator have the rights that are shipped for them, and no others. An
administrator connects the cluster and removes the local one by REST.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from cluster.operator.substrates.local.cards import declared_nodes
from gshare_core.contract import NAMESPACE_SESSIONS, NAMESPACE_SYSTEM, NodeRow
from gshare_site.embedded.programs import plain_environment
from tests.e2e.acts import api, somebody
from tests.e2e.running import ROOT, Demo, free_port, running_demo
from tests.kube.fixtures import running_plane
from tests.kube.hami import hami_scheduler
from tests.kube.ingress_nginx import Listener
from tests.kube.nginx import Nginx
from tests.kube.nodes import a_card, a_node
from tests.kube.plane import ControlPlane
from tests.kube.processes import Program
from tests.kube.rest import JSON
from tests.kube.rights import install_rights, service_account
from tests.kube.working import IngressController, WorkingKubelet
from tests.waiting import until

NAME = "main"
WEB = {"service": {"name": "gshare-web", "port": {"number": 80}}}
#: As the chart has it: the console's own host.
CONSOLE: JSON = {
    "metadata": {"name": "gshare", "namespace": NAMESPACE_SYSTEM},
    "spec": {
        "rules": [{"host": "localhost", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": WEB}]}}]
    },
}
#: The local cluster has to have something until it is removed.
NOTHING = '[[nodes]]\nname = "nothing"\ncpu_milli = 1\nmemory_mib = 1\nscratch_gib = 1\n'


@contextmanager
def demo_on_kubernetes(browser: Browser) -> Iterator[Demo]:
    """A demo whose sessions are pods, with the cards of the local cluster."""
    with ExitStack() as ends:
        folder = Path(tempfile.mkdtemp(prefix="gsek-", dir="/tmp"))
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        plane = ends.enter_context(running_plane("gsek-"))
        for namespace in (NAMESPACE_SESSIONS, NAMESPACE_SYSTEM):
            labels = {"pod-security.kubernetes.io/enforce": "baseline"}
            plane.rest().create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
        for part in ("control-plane", "operator"):
            install_rights(plane.rest(), part)
        ends.enter_context(hami_scheduler(plane, folder))
        kubelet = ends.enter_context(WorkingKubelet(plane, folder))
        for row in declared_nodes(None):
            kubelet.add_node(node_of(row))
        public, web = free_port(), free_port()
        ends.enter_context(ingress(plane, Nginx(folder / "nginx", Listener(public)), web))
        (folder / "kubeconfigs").mkdir()
        (folder / "kubeconfigs" / NAME).write_text(kubeconfig(plane, "gshare-control-plane"))
        (folder / "operator.kubeconfig").write_text(kubeconfig(plane, "gshare-operator"))
        (folder / "cards.toml").write_text(NOTHING)
        settings = {
            "GSHARE_PORT": str(web),
            "GSHARE_PUBLIC_URL": f"http://localhost:{public}",
            "GSHARE_KUBECONFIG_DIR": str(folder / "kubeconfigs"),
            "GSHARE_KUBE_LOCAL_ADDRESSES": "true",
            "GSHARE_OPERATOR_CARDS_FILE": str(folder / "cards.toml"),
        }
        demo = ends.enter_context(running_demo(**settings))
        with somebody(browser, demo, "admin") as admin:
            ends.enter_context(connected(demo, admin, folder, f"http://127.0.0.1:{web + 1}"))
        yield demo
        assert kubelet.errors == []


def kubeconfig(plane: ControlPlane, account: str) -> str:
    """The way into the cluster with the rights that are shipped for the account."""
    return plane.kubeconfig(service_account(plane.rest(), account))


def node_of(row: NodeRow) -> JSON:
    """A declared node as a kubelet and HAMi's plugin would announce it."""
    cards = [
        a_card(card.uuid, index=card.index, type=type_of(card.model), devmem=card.vram_mib, count=card.slots)
        for card in row.cards
    ]
    room = {"cpu": str(row.cpu_milli // 1000), "memory": f"{row.memory_mib}Mi", "disk": f"{row.scratch_gib}Gi"}
    return a_node(row.name, cards, **room)


def type_of(model: str) -> str:
    """How HAMi's plugin writes a model."""
    return model if model.startswith("NVIDIA") else f"NVIDIA-{model}"


@contextmanager
def ingress(plane: ControlPlane, nginx: Nginx, web: int) -> Iterator[None]:
    """nginx before the console, the sessions and their way in."""
    address = [f"127.0.0.1:{web}"]
    fixed = {(NAMESPACE_SYSTEM, "gshare-web", 80): address, (NAMESPACE_SESSIONS, "gshare-edge", 80): address}
    controller = IngressController(plane, NAMESPACE_SESSIONS, nginx, ([CONSOLE], fixed))
    try:
        controller.turn()
        controller.start()
        yield
        assert controller.errors == []
    finally:
        controller.stop()
        nginx.stop()


@contextmanager
def connected(demo: Demo, admin: Page, folder: Path, internal: str) -> Iterator[None]:
    """The cluster is registered, its operator runs and has told of its cards; the local one is gone."""
    for known in api(admin, demo, "GET", "/clusters")["results"]:
        api(admin, demo, "DELETE", f"/clusters/{known['id']}")
    made = api(admin, demo, "POST", "/clusters", {"name": NAME, "kubeconfig": NAME})
    asked = api(admin, demo, "POST", f"/clusters/{made['id']}/test")
    assert asked["reachable"], asked
    token = folder / "token.json"
    token.write_text(json.dumps(api(admin, demo, "POST", f"/clusters/{made['id']}/token", {"scope": "operator"})))
    command = [sys.executable, "-m", "cluster.operator"]
    environment = operator_environment(demo, folder, token, internal)
    operator = Program(command, folder / "operator.log", environment=environment, folder=ROOT)
    operator.start()
    try:
        until(lambda: cards_of(admin, demo, made), within=90, what=f"the cards are known: {operator.log}")
        yield
    finally:
        operator.stop()


def operator_environment(demo: Demo, folder: Path, token: Path, internal: str) -> Mapping[str, str]:
    """What the operator is told."""
    return {
        **plain_environment(),
        "GSHARE_OPERATOR_SUBSTRATE": "kubernetes",
        "GSHARE_OPERATOR_KUBECONFIG": str(folder / "operator.kubeconfig"),
        "GSHARE_OPERATOR_CONSOLE_URL": demo.url,
        "GSHARE_OPERATOR_TOKEN_FILE": str(token),
        "GSHARE_INTERNAL_URL": internal,
    }


def cards_of(admin: Page, demo: Demo, cluster: Any) -> Any:
    """The cards that the control plane knows of."""
    return api(admin, demo, "GET", f"/clusters/{cluster['id']}/cards")["results"]
