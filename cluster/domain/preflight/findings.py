"""What the pre-flight test is given, what it expects, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from cluster.domain import nvidia
from cluster.domain.kube import Object
from gshare_core.contract import NAMESPACE_INFRA, NAMESPACE_SESSIONS, NAMESPACE_SYSTEM

Severity = Literal["error", "warning", "note"]
Listed = Sequence[Object] | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: where, what, and what to do."""

    severity: Severity
    code: str
    where: str
    words: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What a cluster listed; None is what could not be listed. `version` is the answer of ``/version``, `api_groups` of ``/apis``."""

    now: datetime
    version: Object | None = None
    nodes: Listed = None
    pods: Listed = None
    namespaces: Listed = None
    storage_classes: Listed = None
    ingress_classes: Listed = None
    runtime_classes: Listed = None
    custom_resources: Listed = None
    daemon_sets: Listed = None
    deployments: Listed = None
    config_maps: Listed = None
    api_groups: Listed = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What sessions will need. `storage_classes`: names that volumes are mapped to; an empty one is the default class.

    `slots`: the denominator of the smallest tier that is rented out: so many sessions share a card. `lends`: whether whole
    cards are lent while their owners are parked, which takes `runtime_class`. `tolerations`: what pods with cards tolerate.
    """

    slots: int = 16
    storage_classes: frozenset[str] = frozenset({""})
    ingress_class: str = "nginx"
    namespaces: tuple[str, ...] = (NAMESPACE_SYSTEM, NAMESPACE_SESSIONS, NAMESPACE_INFRA)
    lends: bool = False
    runtime_class: str = nvidia.RUNTIME_CLASS
    tolerations: tuple[Mapping[str, str], ...] = (nvidia.TOLERATION,)
