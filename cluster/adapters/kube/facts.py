"""What a cluster lists of itself for its pre-flight test, through the same client as everything else.

Guarantees: what may not be listed, or is not known there, is None, which the test says; a cluster that does not answer is
Unavailable, and nothing is concluded. Of ConfigMaps only HAMi's own are read, by name. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from cluster.adapters.kube.api import Api, Gone, Json, Refusal
from cluster.domain.preflight.findings import Facts
from cluster.port import Unavailable

_LISTED = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
    "storage_classes": "/apis/storage.k8s.io/v1/storageclasses",
    "ingress_classes": "/apis/networking.k8s.io/v1/ingressclasses",
    "runtime_classes": "/apis/node.k8s.io/v1/runtimeclasses",
    "custom_resources": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "daemon_sets": "/apis/apps/v1/daemonsets",
    "deployments": "/apis/apps/v1/deployments",
}
_SETTINGS_OF_HAMI = ("hami-scheduler-device", "hami-device-plugin")
_LISTS = 3


def read_facts(api: Api, *, now: datetime) -> Facts:
    """Everything that the test judges. Raises Unavailable, and Rejected where the cluster does not know us at all."""
    found: dict[str, Any] = {name: _list(api, path) for name, path in _LISTED.items()}
    discovered = _said(api, "/apis")
    groups = None if discovered is None else discovered.get("groups") or []
    return Facts(now=now, version=_said(api, "/version"), config_maps=_settings(api, found), api_groups=groups, **found)


def _list(api: Api, path: str) -> list[Json] | None:
    for _ in range(_LISTS):
        try:
            return [item for page in api.pages(path) for item in page.get("items") or ()]
        except Gone:
            continue  # the pages' version was compacted away: a part of a list is none
        except Refusal as refusal:
            if refusal.status in {403, 404}:
                return None
            raise
    raise Unavailable("its list does not come to an end")


def _said(api: Api, path: str) -> Json | None:
    try:
        return api.call("GET", path)
    except Refusal as refusal:
        if refusal.status in {403, 404}:
            return None
        raise


def _settings(api: Api, found: dict[str, Any]) -> list[Json] | None:
    """HAMi's ConfigMaps, where its workloads are; None where these are not known, or its ConfigMaps may not be read."""
    workloads: Iterable[Json] | None = found["deployments"]
    if workloads is None or found["daemon_sets"] is None:
        return None
    names = {each["metadata"]["namespace"] for each in (*workloads, *found["daemon_sets"]) if _is_hami(each)}
    maps = []
    for namespace in sorted(names):
        for name in _SETTINGS_OF_HAMI:
            try:
                maps.append(api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}"))
            except Refusal as refusal:
                if refusal.status == 403:
                    return None
                if refusal.status != 404:
                    raise
    return maps


def _is_hami(workload: Json) -> bool:
    return "hami" in str(workload["metadata"]["name"]).lower()
