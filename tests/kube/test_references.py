"""A cluster's kubeconfig is found by the name of a reference, and takes effect when it changes."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
import yaml
from django.conf import settings
from django.test import Client

from cluster.adapters import port_of
from cluster.adapters.kube import KubeCluster, references
from cluster.port import Rejected, Unavailable
from gshare_core.kit import clock
from tests.builders import a_cluster, a_super_admin
from tests.kube.rest import Refused

pytestmark = pytest.mark.django_db
SECRET = "hunter2-do-not-echo"


@pytest.fixture
def folder(tmp_path, gshare):
    gshare(kubeconfig_dir=tmp_path, kube_local_addresses=True, kube_service_account=tmp_path / "nobody")
    return tmp_path


@pytest.fixture
def cluster(folder):
    return a_cluster(kind="kube", kubeconfig="main")


@pytest.fixture(scope="module")
def ours(plane):
    """The namespaces that an installed GShare has."""
    for name in ("gshare-sessions", "gshare-system"):
        try:
            plane.rest().create("/api/v1/namespaces", {"metadata": {"name": name}})
        except Refused as error:
            if error.status != 409:
                raise
    return plane


def test_a_file_of_the_folder_is_the_first_that_is_looked_for(ours, folder, cluster):
    (folder / "main").write_text(ours.kubeconfig())

    port = port_of(cluster)

    assert isinstance(port, KubeCluster)
    assert port.observe() == []


@pytest.mark.parametrize("form", ["text", "base64"])
def test_a_variable_is_the_second(ours, cluster, monkeypatch, form):
    text = ours.kubeconfig()
    value = text if form == "text" else base64.b64encode(text.encode()).decode()
    monkeypatch.setattr(settings, "KUBECONFIGS", {"GSHARE_KUBECONFIG_MAIN": value})

    assert port_of(cluster).observe() == []


def test_a_secret_of_the_control_planes_own_cluster_is_the_third(ours, folder, gshare, monkeypatch):
    account = folder / "account"
    account.mkdir()
    (account / "token").write_text(ours.admin.token + "\n")
    (account / "ca.crt").write_text(ours.ca.read_text())
    gshare(kube_service_account=account)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(ours.port))
    secrets = "/api/v1/namespaces/gshare-system/secrets"
    data = {"kubeconfig": base64.b64encode(ours.kubeconfig().encode()).decode()}
    ours.rest().create(secrets, {"metadata": {"name": "by-secret"}, "data": data})
    ours.rest().create(secrets, {"metadata": {"name": "without"}, "data": {"password": "eA=="}})

    assert port_of(a_cluster(kind="kube", kubeconfig="by-secret")).observe() == []
    with pytest.raises(Rejected, match="'without' has no kubeconfig"):
        port_of(a_cluster(kind="kube", kubeconfig="without"))
    with pytest.raises(Rejected, match="there is no kubeconfig 'absent'"):
        port_of(a_cluster(kind="kube", kubeconfig="absent"))


def test_a_reference_that_is_nowhere_is_named_and_the_folders_own_variable_is_none(cluster, folder, monkeypatch):
    monkeypatch.setattr(settings, "KUBECONFIGS", {"GSHARE_KUBECONFIG_DIR": str(folder)})

    with pytest.raises(Rejected, match="there is no kubeconfig 'main'"):
        port_of(cluster)
    with pytest.raises(Rejected, match="there is no kubeconfig 'dir'"):
        port_of(a_cluster(kind="kube", kubeconfig="dir"))


@pytest.mark.parametrize("name", ["../main", "main/../main", "", ".", "MAIN", "a" * 64, "main\n"])
def test_a_name_that_could_lead_elsewhere_is_refused(folder, name):
    (folder / "main").write_text("x")

    with pytest.raises(Rejected, match="not the name of a reference"):
        references.kubeconfig_of(name)


def test_what_is_wrong_in_a_file_is_named_and_not_echoed(folder, cluster):
    (folder / "main").write_text(f"users: [{{name: u, user: {{exec: {{command: {SECRET}}}}}}}]")
    with pytest.raises(Rejected, match=r"users\[0\]\.user\.exec") as refused:
        port_of(cluster)
    assert SECRET not in str(refused.value)

    (folder / "main").write_bytes(b"\xff\xfe")
    with pytest.raises(Rejected, match="is no text"):
        port_of(cluster)


def test_loopback_is_refused_unless_it_is_allowed(ours, folder, cluster, gshare):
    (folder / "main").write_text(ours.kubeconfig())
    gshare(kube_local_addresses=False)

    with pytest.raises(Rejected, match="server: this address is not allowed"):
        port_of(cluster)


def test_a_new_kubeconfig_takes_effect_with_the_next_call_and_begins_with_a_closed_circuit(
    ours, folder, cluster, gshare
):
    gshare(kube_circuit_failures=1, kube_circuit_pause=timedelta(hours=1))
    (folder / "main").write_text(ours.kubeconfig(server="https://127.0.0.1:1"))
    with pytest.raises(Unavailable, match="cannot be reached"):
        port_of(cluster).observe()
    with pytest.raises(Unavailable, match="is asked again"):
        port_of(cluster).observe()

    (folder / "main").write_text(ours.kubeconfig())

    assert port_of(cluster).observe() == []


def test_a_cluster_that_was_removed_is_refused(ours, folder, cluster):
    (folder / "main").write_text(ours.kubeconfig())
    cluster.removed_at = clock.now()

    with pytest.raises(Rejected, match="was removed"):
        port_of(cluster)


def test_an_administrator_may_test_whether_a_cluster_can_be_written_to(ours, folder, cluster):
    root = Client()
    root.force_login(a_super_admin())
    (folder / "main").write_text(ours.kubeconfig())
    answer = root.post(f"/api/v1/clusters/{cluster.pk}/test").json()
    assert (answer["reachable"], answer["problem"]) == (True, None)

    spoilt = ours.kubeconfig_document()
    spoilt["users"][0]["user"]["token"] = SECRET
    (folder / "main").write_text(yaml.safe_dump(spoilt))
    answer = root.post(f"/api/v1/clusters/{cluster.pk}/test").json()
    assert (answer["reachable"], answer["problem"]) == (False, "401 Unauthorized")
