"""Mode changes on a real API server: the operator's steps, its deaths, its refusals, and the whole way from the request to the card."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient
from kubernetes.aio.config import load_kube_config_from_dict

from cluster import mode_changes as mode_changes_of_rows
from cluster import queries, services
from cluster.models import Card, ModeChange, Node
from cluster.operator.main import SystemClock
from cluster.operator.manifests.mig_off import mig_off_name
from cluster.operator.reading.nodes import read_node
from cluster.operator.substrates.kubernetes.api import Api, plain_configuration
from cluster.operator.substrates.kubernetes.modes import LIMITS, ModeChanges, ModeSettings
from gshare_core.clock import Clock, ManualClock
from gshare_core.contract import ModeChangePhase
from tests.apps.cluster.test_inventory import beat
from tests.builders import a_cluster
from tests.cluster_acts import a_quarter, take
from tests.kube.documents import mode_changes
from tests.kube.kubelet import Kubelet
from tests.kube.mig_nodes import OTHERS, MigNode
from tests.kube.operating import Died, Mortal
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, Refused
from tests.kube.rights import install_rights
from tests.kube.test_operator_rights import Acting
from tests.waiting import until

IMAGE = "registry.example/base@sha256:" + "0" * 64
NODE = "gpu-mig"
SECONDS = 120.0


@pytest.fixture
def node(plane: ControlPlane, kubelet: Kubelet, namespace: str) -> Iterator[MigNode]:
    with MigNode(plane, kubelet, NODE, hami=plane.namespace("hami"), infra=plane.namespace("infra")) as made:
        yield made


def settings(namespace: str, node: MigNode, *, image: str = IMAGE) -> ModeSettings:
    return ModeSettings(image, namespace=namespace, hami_namespace=node.hami, infra_namespace=node.infra)


def wish(plane: ControlPlane, namespace: str, of: MigNode, mode: str, *, name: str = "", **fields: Any) -> str:
    """Ask for a mode; the name of the resource."""
    spec = {"node": of.node, "cardUuids": of.uuids, "targetMode": mode} | fields
    name = name or f"to-{mode}"
    body = {"apiVersion": "gshare.io/v1", "kind": "GpuModeChange", "metadata": {"name": name}, "spec": spec}
    plane.rest().create(mode_changes(namespace), body)
    return name


def status(plane: ControlPlane, namespace: str, name: str) -> JSON:
    found: JSON = plane.rest().get(mode_changes(namespace, name)).get("status") or {}
    return found


def lives(
    plane: ControlPlane,
    work: Callable[[Api], Coroutine[Any, Any, None]],
    *,
    writes: int | None = None,
    user: str = "",
) -> bool:
    """Have an operator do the work; with `writes` it dies before one more. Answers whether it lived."""

    async def live() -> None:
        configuration = plain_configuration()
        await load_kube_config_from_dict(plane.kubeconfig_document(), client_configuration=configuration)
        async with ApiClient(configuration) as client:
            if user:
                client.set_default_header("Impersonate-User", user)
            await work(Api(client) if writes is None else Mortal(client, writes + 1))

    try:
        asyncio.run(live())
    except Died:
        return False
    return True


def keep(
    plane: ControlPlane,
    namespace: str,
    node: MigNode,
    until_phase: str,
    *,
    name: str,
    user: str = "",
    clock: Clock | None = None,
    image: str = IMAGE,
) -> JSON:
    """Have an operator look until the change is in this phase; its status then."""

    async def work(api: Api) -> None:
        modes = ModeChanges(api, settings(namespace, node, image=image), clock or SystemClock())
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SECONDS
        while status(plane, namespace, name).get("phase") != until_phase:
            assert loop.time() < deadline, status(plane, namespace, name)
            await modes.keep()
            await asyncio.sleep(0.05)

    lives(plane, work, user=user)
    return status(plane, namespace, name)


def look(plane: ControlPlane, namespace: str, node: MigNode, *, times: int = 1, clock: Clock | None = None) -> None:
    async def work(api: Api) -> None:
        modes = ModeChanges(api, settings(namespace, node), clock or SystemClock())
        for _look in range(times):
            await modes.keep()

    lives(plane, work)


def test_trap_46_cards_are_cut_by_mig_and_shared_again_each_time_verified(
    plane: ControlPlane, namespace: str, node: MigNode
) -> None:
    node.cordon()
    there = wish(plane, namespace, node, "mig")
    done = keep(plane, namespace, node, "Done", name=there)
    assert (done["begun"], done["message"], node.modes, node.mig_on) == (True, "2 cards are cut by MIG", {"mig"}, True)
    assert node.settings == [OTHERS, {"name": NODE, "operatingmode": "mig"}], "nobody else's setting changes"

    back = wish(plane, namespace, node, "hami-core")
    done = keep(plane, namespace, node, "Done", name=back)
    assert (done["message"], node.modes, node.mig_on) == ("2 cards are shared", {"hami-core"}, False)
    assert not node.wrongly_whole, "MIG is off before the plugin registers shared cards"
    assert node.starts == ["hami-core", "mig", "hami-core"]
    job = plane.rest().get(f"/apis/batch/v1/namespaces/{node.infra}/jobs/{mig_off_name(NODE)}")
    assert job["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/hostname": NODE}
    written = plane.rest().get(f"/api/v1/nodes/{NODE}")["metadata"]
    ours = [each["fieldsV1"] for each in written["managedFields"] if each["manager"] == "gshare-operator"]
    assert ours == [], "nothing of a node is written"


def test_again_over_a_job_that_an_earlier_change_left(plane: ControlPlane, namespace: str, node: MigNode) -> None:
    node.cordon()
    keep(plane, namespace, node, "Done", name=wish(plane, namespace, node, "hami-core", name="first"))
    keep(plane, namespace, node, "Done", name=wish(plane, namespace, node, "mig", name="second"))
    assert plane.rest().find(f"/apis/batch/v1/namespaces/{node.infra}/jobs/{mig_off_name(NODE)}") is None
    keep(plane, namespace, node, "Done", name=wish(plane, namespace, node, "hami-core", name="third"))
    assert (node.modes, node.mig_on, node.wrongly_whole) == ({"hami-core"}, False, False)


def test_nothing_begins_before_the_node_is_cordoned_and_empty(
    plane: ControlPlane, namespace: str, node: MigNode
) -> None:
    name, rest = wish(plane, namespace, node, "mig"), plane.rest()
    look(plane, namespace, node, times=3)
    waiting = status(plane, namespace, name)
    assert (waiting["phase"], waiting["begun"]) == ("Draining", False)
    assert waiting["message"] == "waits until the node is cordoned"

    pods = f"/api/v1/namespaces/{namespace}/pods"
    asks = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    holders = {
        "not-bound-yet": ({"hami.io/vgpu-node": NODE}, {}, {}),
        "past-hami": ({}, {"nodeName": NODE}, asks),
        "lent": ({"gshare.io/cards": node.uuids[1]}, {"nodeName": NODE}, {}),
    }
    for pod, (notes, spec, resources) in holders.items():
        container = {"name": "c", "image": "i", "resources": resources}
        body = {"metadata": {"name": pod, "annotations": notes}, "spec": spec | {"containers": [container]}}
        rest.create(pods, body)
    node.cordon()
    for pod in sorted(holders, reverse=True):
        look(plane, namespace, node, times=3)
        waiting = status(plane, namespace, name)
        assert (waiting["phase"], waiting["begun"], f"{namespace}/{pod}" in waiting["message"]) == (
            "Draining",
            False,
            True,
        )
        assert node.settings == [OTHERS]
        rest.delete(f"{pods}/{pod}", grace=0)
    look(plane, namespace, node)
    assert status(plane, namespace, name)["begun"] is False, "one look is not enough"
    keep(plane, namespace, node, "Done", name=name)


def test_an_operator_that_dies_after_every_single_write_comes_to_the_same_end(
    plane: ControlPlane, namespace: str, node: MigNode
) -> None:
    node.cordon()
    for mode in ("mig", "hami-core"):
        name, deaths = wish(plane, namespace, node, mode), 0

        async def work(api: Api, name: str = name) -> None:
            modes = ModeChanges(api, settings(namespace, node), SystemClock())
            while status(plane, namespace, name).get("phase") != "Done":
                await modes.keep()
                await asyncio.sleep(0.05)

        while not lives(plane, work, writes=1):
            deaths += 1
            assert deaths < 60, status(plane, namespace, name)
        assert deaths >= 5
        assert node.modes == {mode}
    assert node.starts == ["hami-core", "mig", "hami-core"], "the plugin was restarted once each time"
    assert not node.wrongly_whole


def test_two_operators_at_once_come_to_the_same_end(plane: ControlPlane, namespace: str, node: MigNode) -> None:
    node.cordon()
    for mode in ("mig", "hami-core"):
        name = wish(plane, namespace, node, mode)

        async def work(api: Api, name: str = name) -> None:
            both = [ModeChanges(api, settings(namespace, node), SystemClock()) for _each in range(2)]
            while status(plane, namespace, name).get("phase") not in {"Done", "Failed"}:
                await asyncio.gather(*(each.keep() for each in both))
                await asyncio.sleep(0.05)

        lives(plane, work)
        assert (status(plane, namespace, name)["phase"], node.modes) == ("Done", {mode})
    assert not node.wrongly_whole


def test_a_change_that_is_withdrawn_in_the_moment_of_its_beginning_never_begins(
    plane: ControlPlane, namespace: str, node: MigNode
) -> None:
    node.cordon()
    name = wish(plane, namespace, node, "mig")

    class Overtaken(Api):
        """The control plane deletes the change just before it is begun."""

        async def merge(self, kind: Any, namespace: Any, name: str, changes: JSON, **how: Any) -> JSON:
            if changes.get("status", {}).get("begun"):
                plane.rest().delete(mode_changes(str(namespace), name))
            return await super().merge(kind, namespace, name, changes, **how)

    async def work(api: Api) -> None:
        modes = ModeChanges(Overtaken(api._client), settings(namespace, node), SystemClock())
        for _look in range(4):
            await modes.keep()

    lives(plane, work)
    assert plane.rest().find(mode_changes(namespace, name)) is None
    assert (node.settings, node.starts) == ([OTHERS], ["hami-core"])


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a node that is not there": ({"node": "gpu-none"}, IMAGE, "there is no node gpu-none"),
    "a card that is not there": (
        {"cardUuids": ["GPU-x", "GPU-gpu-mig-0", "GPU-gpu-mig-1"]},
        IMAGE,
        "has no card GPU-x",
    ),
    "some of the cards": ({"cardUuids": ["GPU-gpu-mig-0"]}, IMAGE, "HAMi changes all cards of a node together"),
    "no image": ({}, "", "GSHARE_OPERATOR_MIG_IMAGE is not set"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_fails_before_anything_is_changed(
    plane: ControlPlane, namespace: str, node: MigNode, what: str
) -> None:
    fields, image, words = REFUSED[what]
    node.cordon()
    name = wish(plane, namespace, node, "mig", **fields)
    failed = keep(plane, namespace, node, "Failed", name=name, image=image)
    assert (failed["begun"], words in failed["message"]) == (False, True), failed
    assert node.settings == [OTHERS]


def test_hamis_settings_that_cannot_be_read_are_left_alone(plane: ControlPlane, namespace: str, node: MigNode) -> None:
    node.cordon()
    config = f"/api/v1/namespaces/{node.hami}/configmaps/hami-device-plugin"
    plane.rest().patch(config, {"data": {"config.json": "{nodeconfig"}})
    failed = keep(plane, namespace, node, "Failed", name=wish(plane, namespace, node, "mig", name="garbled"))
    assert "config.json is no JSON" in failed["message"]
    plane.rest().delete(config)
    failed = keep(plane, namespace, node, "Failed", name=wish(plane, namespace, node, "mig", name="without"))
    assert "is not there" in failed["message"]


def test_mig_that_cannot_be_turned_off_is_told_in_the_drivers_words_and_the_plugin_stays(
    plane: ControlPlane, namespace: str, node: MigNode
) -> None:
    node.cordon()
    keep(plane, namespace, node, "Done", name=wish(plane, namespace, node, "mig"))
    node.job_says = lambda: "In use by another client"
    failed = keep(plane, namespace, node, "Failed", name=wish(plane, namespace, node, "hami-core"))
    assert failed["message"] == "MIG cannot be turned off: In use by another client"
    assert (node.starts, node.wrongly_whole) == (["hami-core", "mig"], False)

    node.job_says = str
    keep(plane, namespace, node, "Done", name=wish(plane, namespace, node, "hami-core", name="again"))
    assert node.modes == {"hami-core"}


@pytest.mark.parametrize("phase", ["Draining", "Applying", "Verifying"])
def test_each_phase_has_a_deadline_and_a_late_operator_ends_it_in_words(
    plane: ControlPlane, namespace: str, node: MigNode, phase: str
) -> None:
    name, clock = wish(plane, namespace, node, "mig"), ManualClock(datetime.now(UTC))
    said = {"phase": phase, "message": "waits for something", "begun": phase != "Draining"}
    since = clock.now() - LIMITS[ModeChangePhase(phase)] - timedelta(seconds=1)
    path = f"{mode_changes(namespace, name)}/status"
    plane.rest().patch(path, {"status": said | {"since": since.isoformat()}})

    look(plane, namespace, node, clock=clock)

    failed = status(plane, namespace, name)
    assert (failed["phase"], failed["message"]) == ("Failed", f"{phase.lower()} took too long: waits for something")
    with pytest.raises(Refused):  # a late word takes nothing back
        plane.rest().patch(path, {"status": {"phase": "Done"}})
    with pytest.raises(Refused):
        plane.rest().patch(path, {"status": {"begun": False}} if said["begun"] else {"status": {"phase": "Pending"}})


def test_of_two_changes_of_a_node_the_older_comes_first(plane: ControlPlane, namespace: str, node: MigNode) -> None:
    first = wish(plane, namespace, node, "mig", name="a-first")
    second = wish(plane, namespace, node, "hami-core", name="b-second")
    look(plane, namespace, node, times=2)
    assert status(plane, namespace, first)["phase"] == "Draining"
    assert status(plane, namespace, second)["message"] == "waits for the change before it"


# The whole way --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_from_the_request_to_the_card_and_back_with_a_real_operator(
    plane: ControlPlane, namespace: str, node: MigNode, cluster_of: Callable[..., Any]
) -> None:
    """The control plane's rows, its adapter, the operator, HAMi's plugin, and inventory as the operator would tell it."""
    registered, port = (
        a_cluster("kube", kind="kube", kubeconfig="kube", state="pending"),
        cluster_of(plane.kubeconfig()),
    )

    def told() -> None:
        """A beat, and what is heard of beside the documents."""
        row = read_node(plane.rest().get(f"/api/v1/nodes/{NODE}"), node.plugins()).row
        beat(registered, row.model_dump(mode="json"))
        node.cordon(cordoned=NODE in queries.cordoned_nodes(registered.pk))

    def pass_() -> str:
        mode_changes_of_rows.look_after(lambda _cluster: port)
        change = ModeChange.objects.order_by("-pk")[0]
        return f"{change.state} {change.phase}".strip()

    told()
    card = Card.objects.order_by("index")[0]
    for mode in ("mig", "hami-core"):
        change = services.change_mode(by=None, card_id=card.pk, wish=services.ModeWish(mode, whole_node=True))
        assert change is not None
        assert not take(a_quarter())
        told()
        assert pass_() == "applying"
        keep(plane, namespace, node, "Done", name=f"m-{change.pk.hex}")
        assert pass_() == "applying Done"
        assert not take(a_quarter())
        told()
        assert pass_() == "done Done"
        told()
        card.refresh_from_db()
        node_row = Node.objects.get()
        assert (card.mode, card.is_draining, node_row.is_cordoned, node_row.is_unschedulable) == (
            mode,
            False,
            False,
            True,
        )
        told()
        assert not Node.objects.get().is_unschedulable
        assert pass_() == "done Done"
        assert plane.rest().items(mode_changes(namespace)) == [], "nothing is left over"
    assert take(a_quarter())
    assert not node.wrongly_whole


# Rights ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def hamis_own(plane: ControlPlane, kubelet: Kubelet) -> Iterator[MigNode]:
    """HAMi where the rights expect it."""
    with MigNode(plane, kubelet, NODE, hami="kube-system", infra=plane.namespace("infra")) as made:
        yield made
        for pod in made.plugins():
            made.rest.delete(f"/api/v1/namespaces/kube-system/pods/{pod['metadata']['name']}", grace=0)


@pytest.fixture
def account(plane: ControlPlane, namespace: str, hamis_own: MigNode) -> str:
    system = plane.namespace("system")
    install_rights(plane.rest(), "operator", sessions=namespace, system=system, infra=hamis_own.infra)
    made = f"system:serviceaccount:{system}:gshare-operator"
    until(lambda: _is_held(plane, made, hamis_own), within=30, what="the policies are known")
    return made


def _is_held(plane: ControlPlane, account: str, node: MigNode) -> bool:
    """Whether rights and policies are in force; nothing is written."""
    held = 0
    for what in ("a job of another name", "another key of HAMi's settings", "another pod beside HAMi's"):
        method, path, body = _forbidden(node)[what]
        try:
            Acting(plane, account).call(method, path, body, dryRun="All", **_content(method))
        except Refused as refusal:
            held += "GShare's operator" in str(refusal)
    return held == 3


def _content(method: str) -> dict[str, str]:
    return {"content": "application/merge-patch+json"} if method == "PATCH" else {}


def _job(name: str, **fields: Any) -> JSON:
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "i"}],
    } | fields
    return {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}}


def _forbidden(node: MigNode) -> dict[str, tuple[str, str, JSON | None]]:
    jobs, config = f"/apis/batch/v1/namespaces/{node.infra}/jobs", "/api/v1/namespaces/kube-system/configmaps"
    own = "gshare-mig-off-1"
    ours = f"{config}/hami-device-plugin"
    return {
        "a job of another name": ("POST", jobs, _job("miner")),
        "a job with the machine's files": (
            "POST", jobs, _job(own, volumes=[{"name": "root", "hostPath": {"path": "/"}}])),
        "a job on the machine's network": ("POST", jobs, _job(own, hostNetwork=True)),
        "a job among the machine's processes": ("POST", jobs, _job(own, hostPID=True)),
        "a job with an account": ("POST", jobs, _job(own, serviceAccountName="hami")),
        "a job elsewhere": ("POST", "/apis/batch/v1/namespaces/kube-system/jobs", _job(own)),
        "a list of jobs": ("GET", jobs, None),
        "another ConfigMap": ("PATCH", f"{config}/coredns", {"data": {"a": "b"}}),
        "another key of HAMi's settings": ("PATCH", ours, {"data": {"other": "b"}}),
        "labels of HAMi's settings": ("PATCH", ours, {"metadata": {"labels": {"a": "b"}}}),
        "the end of HAMi's settings": ("DELETE", ours, None),
        "another pod beside HAMi's": ("DELETE", "/api/v1/namespaces/kube-system/pods/bystander", None),
        "a pod beside HAMi's": ("POST", "/api/v1/namespaces/kube-system/pods", {
            "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    }  # fmt: skip


@pytest.fixture
def bystander(plane: ControlPlane, hamis_own: MigNode) -> Iterator[None]:
    path = "/api/v1/namespaces/kube-system/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    plane.rest().create(path, {"metadata": {"name": "bystander"}, "spec": spec})
    yield
    plane.rest().delete(f"{path}/bystander", grace=0)


def test_the_operators_rights_are_enough_for_a_change_and_back_and_for_nothing_else(
    plane: ControlPlane, namespace: str, hamis_own: MigNode, bystander: None, account: str
) -> None:
    hamis_own.cordon()
    for mode in ("mig", "hami-core"):
        name = wish(plane, namespace, hamis_own, mode)
        keep(plane, namespace, hamis_own, "Done", name=name, user=account)
        assert hamis_own.modes == {mode}
    again = wish(plane, namespace, hamis_own, "mig", name="over-the-job")
    keep(plane, namespace, hamis_own, "Done", name=again, user=account)
    resource = mode_changes(namespace, again)
    more: dict[str, tuple[str, str, JSON | None]] = {
        "what is asked": ("PATCH", resource, {"spec": {"targetMode": "hami-core"}}),
        "the end of what is asked": ("DELETE", resource, None),
    }
    for what, (method, path, body) in {**_forbidden(hamis_own), **more}.items():
        with pytest.raises(Refused) as refused:
            Acting(plane, account).call(method, path, body, **_content(method))
        assert refused.value.status == 403, what
