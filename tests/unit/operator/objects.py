"""The objects made of a document, for tests: all of them, the pod, its container, by kind."""

from __future__ import annotations

from typing import Any

from cluster.operator.manifests import Manifest, Manifests, ManifestSettings, Owner, manifests_of, nginx_profile
from gshare_core.contract import SessionSpec, session_name
from tests.unit.operator.build import SESSION

NAME = session_name(SESSION)
OWNER = Owner(NAME, "uid-1")
SETTINGS = ManifestSettings(ingress=nginx_profile("http://control:8001/", "https://console.example/"))


def made(document: SessionSpec, settings: ManifestSettings = SETTINGS, **context: Any) -> Manifests:
    return manifests_of(document, OWNER, "the-token", settings, **context)


def pod_of(document: SessionSpec, settings: ManifestSettings = SETTINGS, **context: Any) -> Manifest:
    return made(document, settings, **context).pod


def container_of(document: SessionSpec, settings: ManifestSettings = SETTINGS, **context: Any) -> Manifest:
    (container,) = pod_of(document, settings, **context)["spec"]["containers"]
    return dict(container)


def variables_of(document: SessionSpec, settings: ManifestSettings = SETTINGS) -> dict[str, str]:
    return {entry["name"]: entry.get("value", "") for entry in container_of(document, settings)["env"]}


def of_kind(document: SessionSpec, kind: str, settings: ManifestSettings = SETTINGS) -> list[Manifest]:
    everything = made(document, settings)
    return [
        each
        for each in (*everything.lasting, *everything.around, *everything.ways, everything.pod)
        if each["kind"] == kind
    ]


def extended(container: Manifest) -> dict[str, str]:
    return {name: value for name, value in container["resources"]["limits"].items() if "/" in name}
