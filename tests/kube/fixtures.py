"""The fixtures of `conftest.py`, for folders beside `tests/kube` that need them too."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.adapters.kube import KubeCluster
from cluster.adapters.kube.api import Api
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from gshare_core.contract import API_GROUP
from gshare_core.contract.crds import definitions
from gshare_site.settings.test import GIVEN
from tests.kube.between import Between
from tests.kube.documents import CARD
from tests.kube.kubelet import Kubelet
from tests.kube.nodes import a_card, a_node
from tests.kube.operating import Binder
from tests.kube.plane import ControlPlane
from tests.kube.prepare import NoControlPlane, binaries
from tests.kube.rest import Refused, Rest
from tests.waiting import until

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def install_definitions(rest: Rest) -> None:
    """Our custom resources, served, their storage too."""
    for definition in definitions():
        name = definition["metadata"]["name"]
        rest.apply(f"{_DEFINITIONS}/{name}", definition, manager="tests")
        until(lambda name=name: _is_established(rest, name), within=30, what=f"{name} established")
    for definition in definitions():
        collection = f"/apis/{API_GROUP}/v1/{definition['spec']['names']['plural']}"
        until(lambda path=collection: is_served(rest, path), within=30, what=f"{collection} answers")


def is_served(rest: Rest, path: str) -> bool:
    """Whether a collection answers."""
    try:
        rest.get(path, limit=1)
    except Refused as error:
        if error.status in {404, 429}:  # not served yet, or its storage begins
            return False
        raise
    return True


def _is_established(rest: Rest, name: str) -> bool:
    conditions = rest.get(f"{_DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@contextmanager
def running_plane(prefix: str) -> Iterator[ControlPlane]:
    """A control plane that serves our custom resources. Skips or fails, as is wanted here, where there are no binaries."""
    try:
        binaries()
    except NoControlPlane as error:
        if GIVEN.get("GSHARE_TEST_REQUIRE_KUBE"):
            pytest.fail(f"the Kubernetes tests are required here: {error}")
        pytest.skip(f"no Kubernetes control plane: {error}")
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    made = ControlPlane(folder)
    try:
        made.start()
        install_definitions(made.rest())
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    with running_plane("gsk-") as made:
        yield made


@pytest.fixture(scope="session")
def second_plane() -> Iterator[ControlPlane]:
    with running_plane("gsk2-") as made:
        yield made


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    return plane.namespace()


@pytest.fixture
def kubelet(plane: ControlPlane, tmp_path: Path) -> Iterator[Kubelet]:
    with Kubelet(plane, tmp_path) as running:
        yield running


@pytest.fixture
def between(plane: ControlPlane, tmp_path: Path) -> Iterator[Between]:
    with Between(plane, tmp_path) as serving:
        yield serving


@pytest.fixture
def cluster_of(namespace: str) -> Iterator[Callable[..., KubeCluster]]:
    opened: list[Api] = []

    def make(text: str, *, into: str = namespace, allow_local: bool = True, **how: Any) -> KubeCluster:
        target = read_kubeconfig(text, allow_local=True)
        opened.append(Api(target, allow_local=allow_local, **how))
        return KubeCluster(opened[-1], namespace=into)

    yield make
    for api in opened:
        api.close()


@pytest.fixture
def cluster(plane: ControlPlane, kubelet: Kubelet, namespace: str) -> Iterator[str]:
    """A namespace on a cluster with one card, where pods are bound to what they name; for tests of the operator."""
    kubelet.add_node(a_node("gpu-01", [a_card(CARD)]))
    binder = Binder(plane, namespace)
    binder.start()
    yield namespace
    binder.stop()
