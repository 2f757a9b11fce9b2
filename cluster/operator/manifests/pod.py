"""The pod of a run: one container, restricted, ready when its first app answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.domain.amounts import cores, gibibytes, mebibytes
from cluster.operator.manifests.environment import environment
from cluster.operator.manifests.gpu import GpuParts, gpu_parts
from cluster.operator.manifests.settings import ManifestSettings, PodSettings
from cluster.operator.manifests.stamps import ANNOTATION_CARDS, Manifest, Owner, metadata
from gshare_core.contract import App, SessionSpec, session_name

CONTAINER = "session"
PORT_ACTIVITY = "activity"
LABEL_HOSTNAME = "kubernetes.io/hostname"
# The writable layer and logs need something even where no scratch was asked for.
_LEAST_SCRATCH_GIB = 1
# What Pod Security's baseline lets a container have, and container runtimes give by default.
_BASELINE_CAPABILITIES = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
    "SETPCAP", "SETUID", "SYS_CHROOT",
)  # fmt: skip


def pod_name(spec: SessionSpec) -> str:
    """The pod's name: the session's and the run."""
    return f"{session_name(spec.session_id)}-{spec.run}"


def pod(spec: SessionSpec, owner: Owner, settings: ManifestSettings, *, profile_mib: int | None = None) -> Manifest:
    """The pod. Raises `Unbuildable`."""
    pods = settings.pods
    parts = gpu_parts(
        spec, scheduler=pods.scheduler, runtime_class=pods.runtime_class_of_borrowers, profile_mib=profile_mib
    )
    annotations = dict(parts.annotations)
    if spec.gpu is not None:
        annotations[ANNOTATION_CARDS] = ",".join(spec.gpu.cards)
    head = metadata(spec, owner, settings.namespace, pod_name(spec), annotations)
    head["labels"] |= parts.labels
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": _pod_spec(spec, pods, parts)}


def _pod_spec(spec: SessionSpec, pods: PodSettings, parts: GpuParts) -> Manifest:
    tolerations = [*pods.tolerations, *(pods.gpu_tolerations if spec.gpu else ())]
    optional: dict[str, Any] = {
        "schedulerName": parts.scheduler,
        "runtimeClassName": parts.runtime_class,
        "priorityClassName": pods.priority_class,
        "nodeSelector": {LABEL_HOSTNAME: spec.pinned_node} if spec.pinned_node else {},
        "tolerations": [dict(toleration) for toleration in tolerations],
        "imagePullSecrets": [{"name": name} for name in pods.image_pull_secrets],
    }
    return {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.deadlines.stop_grace_seconds,
        "securityContext": _pod_security(spec, pods),
        "containers": [_container(spec, pods, parts)],
        "volumes": _volumes(spec, pods),
        **{name: value for name, value in optional.items() if value},
    }


def _container(spec: SessionSpec, pods: PodSettings, parts: GpuParts) -> Manifest:
    resources = spec.resources
    host = {
        "cpu": cores(resources.cpu_milli),
        "memory": mebibytes(resources.memory_mib),
        "ephemeral-storage": gibibytes(max(resources.scratch_gib, _LEAST_SCRATCH_GIB)),
    }
    return {
        "name": CONTAINER,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "env": environment(spec, pods, parts.environment),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in (*((app.name, app.port) for app in spec.apps), (PORT_ACTIVITY, pods.activity_port))
        ],
        "readinessProbe": _readiness(spec.apps[0]),
        "resources": {"requests": {**host, **parts.limits}, "limits": {**host, **parts.limits}},
        "securityContext": _container_security(spec),
        # The last lines of the log are the container's own words when it crashes.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(spec, pods),
    }


def _readiness(app: App) -> Manifest:
    """Whether the app answers. Jupyter tells its version without the token; ttyd tells nothing without it."""
    http = {"lab": "/lab/api", "code": "/healthz"}
    asked: Mapping[str, Any] = (
        {"httpGet": {"path": http[app.name], "port": app.port, "scheme": "HTTP"}}
        if app.name in http
        else {"tcpSocket": {"port": app.port}}
    )
    return {**asked, "periodSeconds": 2, "timeoutSeconds": 2, "successThreshold": 1, "failureThreshold": 3}


def _pod_security(spec: SessionSpec, pods: PodSettings) -> Manifest:
    """Restricted; a privileged one may be anybody inside, root included."""
    owner = {
        "fsGroup": pods.user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if spec.privileged:
        return {**owner, "runAsUser": 0, "runAsGroup": 0}
    return {**owner, "runAsNonRoot": True, "runAsUser": pods.user, "runAsGroup": pods.user}


def _container_security(spec: SessionSpec) -> Manifest:
    """A privileged session is what the baseline profile allows, never Kubernetes' `privileged: true`."""
    if spec.privileged:
        return {
            "allowPrivilegeEscalation": True,
            "privileged": False,
            "capabilities": {"drop": ["ALL"], "add": list(_BASELINE_CAPABILITIES)},
        }
    return {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]}}


def _has_home(spec: SessionSpec, pods: PodSettings) -> bool:
    return any(mount.mount_path == pods.home for mount in spec.volumes)


def _volumes(spec: SessionSpec, pods: PodSettings) -> list[Manifest]:
    claims: dict[str, bool] = {}
    for mount in spec.volumes:
        claims[mount.claim] = claims.get(mount.claim, True) and mount.read_only
    found: list[Manifest] = [
        {"name": claim, "persistentVolumeClaim": {"claimName": claim, **({"readOnly": True} if read_only else {})}}
        for claim, read_only in claims.items()
    ]
    if not _has_home(spec, pods):
        scratch = gibibytes(max(spec.resources.scratch_gib, _LEAST_SCRATCH_GIB))
        found.append({"name": "home", "emptyDir": {"sizeLimit": scratch}})
    # Data loaders share memory between processes; it counts in the memory limit.
    shared = mebibytes(max(64, spec.resources.memory_mib // 2))
    return [*found, {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": shared}}]


def _mounts(spec: SessionSpec, pods: PodSettings) -> list[Manifest]:
    found: list[Manifest] = [
        {"name": mount.claim, "mountPath": mount.mount_path, **({"readOnly": True} if mount.read_only else {})}
        for mount in spec.volumes
    ]
    if not _has_home(spec, pods):
        found.append({"name": "home", "mountPath": pods.home})
    return [*found, {"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 (inside the pod)
