"""The storage claims that a session mounts. They outlive it: no owner, no label of a session."""

from __future__ import annotations

from collections.abc import Mapping

from cluster.domain.amounts import gibibytes
from cluster.operator.manifests.settings import ManifestSettings
from cluster.operator.manifests.stamps import LABEL_MANAGED, MANAGER, Manifest
from gshare_core.contract import Mount, SessionSpec


def claims(spec: SessionSpec, settings: ManifestSettings, known_gib: Mapping[str, int]) -> tuple[Manifest, ...]:
    """Each claim once. An older document never shrinks one: Kubernetes would refuse the whole apply."""
    by_name: dict[str, Mount] = {}
    for mount in spec.volumes:
        other = by_name.get(mount.claim)
        by_name[mount.claim] = mount if other is None or mount.size_gib > other.size_gib else other
    return tuple(_claim(mount, settings.namespace, known_gib.get(name, 0)) for name, mount in by_name.items())


def _claim(mount: Mount, namespace: str, known_gib: int) -> Manifest:
    storage = gibibytes(max(mount.size_gib, known_gib))
    # Left out, it is the cluster's default class; an empty one would mean none at all.
    where = {"storageClassName": mount.storage_class} if mount.storage_class else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": mount.claim,
            "namespace": namespace,
            "labels": {LABEL_MANAGED: MANAGER},
            "annotations": {},
        },
        "spec": {
            "accessModes": [mount.access_mode],
            "resources": {"requests": {"storage": storage}},
            **where,
        },
    }
