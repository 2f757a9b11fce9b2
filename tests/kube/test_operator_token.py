"""An operator's token on Kubernetes: issued as a Secret by one command, renewed there by the operator itself."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.core.management import call_command
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_kube_config_from_dict

from cluster import keys, tokens
from cluster.operator.client import ControlPlane as Client
from cluster.operator.substrates.kubernetes.api import Api
from cluster.operator.substrates.kubernetes.token import TokenSecret
from gshare_core.kit import clock
from tests.builders import a_cluster
from tests.kube.plane import ControlPlane
from tests.kube.test_operator_rights import operator_account

__all__ = ["operator_account"]

pytestmark = pytest.mark.django_db
NAME = "gshare-operator-token"


@pytest.fixture
def signing(tmp_path: Path, gshare: Callable[..., None]) -> None:
    keys.ensure(tmp_path / "keys", at=datetime.now(UTC) - timedelta(hours=1))
    gshare(signing_key_dir=tmp_path / "keys")


def applied(plane: ControlPlane, system: str, cluster: str) -> str:
    """What the command prints, given to the API server as kubectl would; answers the file that a pod would mount."""
    out = StringIO()
    call_command("issue_token", cluster=cluster, manifest=True, namespace=system, stdout=out)
    document = yaml.safe_load(out.getvalue())
    path = f"/api/v1/namespaces/{system}/secrets/{document['metadata']['name']}"
    plane.rest().apply(path, document, manager="kubectl")
    return mounted(plane, system)


def mounted(plane: ControlPlane, system: str) -> str:
    data = plane.rest().get(f"/api/v1/namespaces/{system}/secrets/{NAME}")["data"]
    return base64.b64decode(data["token.json"]).decode()


def test_the_printed_secret_holds_a_token_that_speaks_for_its_cluster(plane: ControlPlane, signing: None) -> None:
    cluster = a_cluster("north", kind="kube", kubeconfig="main")
    held = json.loads(applied(plane, plane.namespace("system"), "north"))
    caller = tokens.verify(held["token"], at=clock.now())
    assert (caller.cluster_id, caller.scope) == (cluster.pk, "operator")
    assert held["cluster_key"] == tokens.cluster_key(cluster.pk).hex()


def test_the_operator_renews_it_in_the_secret_and_a_newer_one_put_there_wins(
    plane: ControlPlane, operator_account: str, signing: None, tmp_path: Path
) -> None:
    a_cluster("north", kind="kube", kubeconfig="main")
    system = operator_account.split(":")[2]
    file = tmp_path / "token.json"
    file.write_text(applied(plane, system, "north"))
    first = json.loads(file.read_text())
    now = clock.now()
    later = now + timedelta(hours=13)
    newer = tokens.renew(tokens.verify(first["token"], at=now), at=later).as_dict()

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/internal/v1/token"
        return httpx.Response(200, json=newer)

    async def renew() -> tuple[bool, bool, str]:
        configuration = Configuration()
        await load_kube_config_from_dict(plane.kubeconfig_document(), client_configuration=configuration)
        async with ApiClient(configuration) as client:
            client.set_default_header("Impersonate-User", operator_account)
            held: Any = TokenSecret(file, Api(client), system, NAME)
            async with Client("http://gshare", held, transport=httpx.MockTransport(answer)) as control_plane:
                early = await control_plane.renew_when_due(now)
                due = await control_plane.renew_when_due(later)
                used = held.read().token
                # An administrator issues another one; kubelet brings it to the mounted file.
                file.write_text(json.dumps(first | {"token": _issued_after(newer["token"], timedelta(hours=1))}))
                assert held.read().token not in {newer["token"], first["token"]}
                return early, due, used

    early, due, used = asyncio.run(renew())
    assert (early, due, used) == (False, True, newer["token"])
    assert json.loads(mounted(plane, system))["token"] == newer["token"], "the next process begins with it"


def _issued_after(token: str, span: timedelta) -> str:
    """A token whose claims say that it was issued so much later than this one; nobody verifies it here."""
    head, payload, sign = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    moved = claims | {key: claims[key] + int(span.total_seconds()) for key in ("iat", "exp")}
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(moved).encode()).decode().rstrip('=')}.{sign}"
