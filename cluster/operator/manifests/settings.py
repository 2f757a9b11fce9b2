"""What a cluster's operator sets for all of its sessions' objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cluster.domain import nvidia
from gshare_core.contract import NAMESPACE_SESSIONS, NAMESPACE_SYSTEM

Strings = Mapping[str, str]
_NONE: Strings = MappingProxyType({})

# RFC 1918, 6598, 3927 and 4193 and what else is not the internet: nodes, services, pods, metadata addresses.
PRIVATE_IPV4 = (
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
)
PRIVATE_IPV6 = ("::/127", "64:ff9b::/96", "fc00::/7", "fe80::/10", "ff00::/8")


@dataclass(frozen=True, slots=True)
class PodSettings:
    """`user`: who the container is. `environment`: variables of this cluster's own, for every session.

    `activity_port`: where the image's reporter of terminals and edits listens (`deploy/images/activity.py`).
    """

    scheduler: str = "hami-scheduler"
    runtime_class_of_borrowers: str = nvidia.RUNTIME_CLASS
    user: int = 1000
    home: str = "/home/work"
    activity_port: int = 8790
    environment: Strings = field(default_factory=lambda: _NONE)
    image_pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""
    tolerations: tuple[Mapping[str, str], ...] = ()
    gpu_tolerations: tuple[Mapping[str, str], ...] = (nvidia.TOLERATION,)


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """The controller in front of sessions.

    `annotations` stand on every ingress of a session, `auth` on those of its apps (``{session}`` is the session's id),
    `strip` on those of apps whose prefix is cut off; `strip_path` is their path, with ``{app}`` for the prefix. `tls_secret`
    names the wildcard's secret, if TLS ends at the controller.
    """

    class_name: str = "nginx"
    annotations: Strings = field(default_factory=lambda: _NONE)
    auth: Strings = field(default_factory=lambda: _NONE)
    strip: Strings = field(default_factory=lambda: _NONE)
    strip_path: str = "/{app}/"
    strip_path_type: str = "Prefix"
    tls_secret: str = ""
    edge_service: str = "gshare-edge"
    edge_port: int = 80


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Who reaches sessions and what they reach. The operator asks what is done in them. `closed`: further networks that they must not (the API server's address
    where it is public); `open`: private ones that they may (a package mirror). IPv4 and IPv6."""

    controller_namespace: str = "ingress-nginx"
    controller_labels: Strings = field(default_factory=lambda: _NONE)
    operator_namespace: str = NAMESPACE_SYSTEM
    operator_labels: Strings = field(default_factory=lambda: {"app.kubernetes.io/name": "gshare-operator"})
    dns_namespace: str = "kube-system"
    dns_labels: Strings = field(default_factory=lambda: {"k8s-app": "kube-dns"})
    dns_networks: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ManifestSettings:
    """Everything."""

    namespace: str = NAMESPACE_SESSIONS
    pods: PodSettings = field(default_factory=PodSettings)
    ingress: IngressSettings = field(default_factory=IngressSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)


def nginx_profile(internal_url: str, console_url: str, **fields: Any) -> IngressSettings:
    """The settings for ingress-nginx: forward-auth at `verify`, its answer's credential and cookie passed on.

    `internal_url` is the control plane's internal listener as the controller reaches it, `console_url` the console, whose
    page of the session somebody without access is led to.
    """
    prefix = "nginx.ingress.kubernetes.io"
    own: dict[str, Any] = {
        "annotations": {
            f"{prefix}/proxy-body-size": "0",
            f"{prefix}/proxy-read-timeout": "3600",
            f"{prefix}/proxy-send-timeout": "3600",
            f"{prefix}/proxy-buffering": "off",
        },
        "auth": {
            f"{prefix}/auth-url": f"{internal_url.rstrip('/')}/internal/v1/access/verify",
            f"{prefix}/auth-signin": f"{console_url.rstrip('/')}/sessions/{{session}}/",
            f"{prefix}/auth-response-headers": "Authorization",
            f"{prefix}/auth-always-set-cookie": "true",
        },
        "strip": {f"{prefix}/use-regex": "true", f"{prefix}/rewrite-target": "/$1"},
        "strip_path": "/{app}/(.*)",
        "strip_path_type": "ImplementationSpecific",
    }
    return IngressSettings(**(own | fields))
