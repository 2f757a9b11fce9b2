"""How a session's apps are reached: the secret with their token, the service, the ingresses.

An ingress' annotations bind all of its paths, so the apps, those whose prefix is cut off, and the way in (`/.gshare/`, without
auth, to the control plane's edge) have one each.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from cluster.operator.manifests.environment import TOKEN_KEY
from cluster.operator.manifests.settings import IngressSettings, ManifestSettings
from cluster.operator.manifests.stamps import NO_ADDRESS, Manifest, Owner, metadata
from gshare_core.contract import LABEL_RUN, LABEL_SESSION, SessionSpec, session_name

OWN_PREFIX = "/.gshare/"
#: Apps that live at their root: `/<name>/` is cut off before they see the path.
STRIPPED = frozenset({"code"})

_Path = tuple[str, str, str, int]


def secret(spec: SessionSpec, owner: Owner, token: str, settings: ManifestSettings) -> Manifest:
    """The app token of the run, in the form in which it is read back."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(spec, owner, settings.namespace, spec.access.token_secret),
        "type": "Opaque",
        "data": {TOKEN_KEY: base64.b64encode(token.encode()).decode()},
    }


def service(spec: SessionSpec, owner: Owner, settings: ManifestSettings) -> Manifest:
    """The run's apps by name; a pod of an earlier run gets nothing any more.

    It has no address of its own: ingress controllers go to the pod that it names, and an address would be one more of a range
    that a cluster can run out of, an object more to make, and rules for it on every node.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(spec, owner, settings.namespace),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": NO_ADDRESS,
            "selector": {LABEL_SESSION: str(spec.session_id), LABEL_RUN: str(spec.run)},
            "ports": [
                {"name": app.name, "port": app.port, "targetPort": app.port, "protocol": "TCP"} for app in spec.apps
            ],
        },
    }


def ingresses(spec: SessionSpec, owner: Owner, settings: ManifestSettings) -> tuple[Manifest, ...]:
    """The ways in: apps below their prefix, apps whose prefix is cut off (if any), and `/.gshare/`."""
    ingress, own = settings.ingress, session_name(spec.session_id)
    ports = {app.name: app.port for app in spec.apps}
    plain = [(f"/{app}/", "Prefix", own, port) for app, port in ports.items() if app not in STRIPPED]
    cut = [
        (ingress.strip_path.format(app=app), ingress.strip_path_type, own, port)
        for app, port in ports.items()
        if app in STRIPPED
    ]
    edge = [(OWN_PREFIX, "Prefix", ingress.edge_service, ingress.edge_port)]
    auth = {name: value.format(session=spec.session_id) for name, value in ingress.auth.items()}
    made: tuple[tuple[str, Mapping[str, str], list[_Path]], ...] = (
        (own, auth, plain),
        (f"{own}-cut", {**auth, **ingress.strip}, cut),
        (f"{own}-edge", {}, edge),
    )
    return tuple(
        _ingress(spec, owner, settings, name, annotations, paths) for name, annotations, paths in made if paths
    )


def _ingress(
    spec: SessionSpec,
    owner: Owner,
    settings: ManifestSettings,
    name: str,
    annotations: Mapping[str, str],
    paths: Sequence[_Path],
) -> Manifest:
    ingress = settings.ingress
    head = metadata(spec, owner, settings.namespace, name, {**ingress.annotations, **annotations})
    backends = [_path(*path) for path in paths]
    body: dict[str, Any] = {
        "ingressClassName": ingress.class_name,
        "rules": [{"host": spec.access.host, "http": {"paths": backends}}],
        **_tls(spec, ingress),
    }
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": head, "spec": body}


def _tls(spec: SessionSpec, ingress: IngressSettings) -> dict[str, Any]:
    return {"tls": [{"hosts": [spec.access.host], "secretName": ingress.tls_secret}]} if ingress.tls_secret else {}


def _path(path: str, kind: str, service_name: str, port: int) -> Manifest:
    return {
        "path": path,
        "pathType": kind,
        "backend": {"service": {"name": service_name, "port": {"number": port}}},
    }
