"""Nodes on which people can work: a kubelet whose pods are real processes, storage that is bound, an ingress controller.

What the stand-in of `kubelet.py` only says, this one does: it starts the applications of a session's pod (`containers.py`), asks
their probe, ends them with SIGTERM and after the pod's grace with SIGKILL. `IngressController` follows the objects of a
namespace and has nginx serve them.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.kube.containers import Container
from tests.kube.ingress_nginx import Backend
from tests.kube.kubelet import Kubelet
from tests.kube.nginx import Nginx
from tests.kube.plane import ControlPlane
from tests.kube.rest import JSON, Refused, Rest

_CLAIMS = "/api/v1/persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"


class WorkingKubelet(Kubelet):
    """Every bound pod is a `Container`. Claims are folders that stay."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        super().__init__(plane, folder)
        self.ip_of = lambda pod: self._containers[pod["metadata"]["uid"]].ip
        self._containers: dict[str, Container] = {}
        self._probed: dict[str, tuple[datetime, bool]] = {}

    def __enter__(self) -> WorkingKubelet:
        super().__enter__()
        self.logs.find = self._log
        return self

    def __exit__(self, *given: object) -> None:
        super().__exit__(*given)
        for container in self._containers.values():
            container.kill()

    def is_ready(self, pod: JSON) -> bool:
        """Its probe is asked as often as it says once it has answered, and at every turn before."""
        uid, now = pod["metadata"]["uid"], datetime.now(UTC)
        period = pod["spec"]["containers"][0]["readinessProbe"]["periodSeconds"]
        asked_at, ready = self._probed.get(uid, (now, False))
        if not ready or (now - asked_at).total_seconds() >= period:
            asked_at, ready = self._probed[uid] = now, self._containers[uid].is_ready
        return ready

    def _turn(self) -> None:
        bind_claims(self.plane.rest())
        super()._turn()

    def _care(self, pod: JSON, now: datetime) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._containers and not pod["metadata"].get("deletionTimestamp"):
            self._containers[uid] = self._started(pod)
        super()._care(pod, now)

    def _started(self, pod: JSON) -> Container:
        folder = self._folder / "pods" / pod["metadata"]["name"]
        made = Container(pod, folder, folder / "home")
        claim = _claim_at_home(pod)
        if claim:
            folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "claims" / claim).mkdir(parents=True, exist_ok=True)
            made.home.symlink_to(self._folder / "claims" / claim)
        secrets = f"/api/v1/namespaces/{pod['metadata']['namespace']}/secrets"

        def secret(name: str, key: str) -> str:
            found = self.plane.rest().get(f"{secrets}/{name}")["data"][key]
            return base64.b64decode(found).decode()

        made.start(secret)
        return made

    def _log(self, namespace: str, pod: str, container: str) -> str | None:
        """What the applications of a container wrote, one after the other."""
        del namespace, container
        written = sorted((self._folder / "pods" / pod).glob("*.log"))
        return "".join(path.read_text(errors="replace") for path in written) if written else None

    def _end_pod(self, pod: JSON, now: datetime) -> None:
        container = self._containers.get(pod["metadata"]["uid"])
        if container is not None:
            container.ask_to_end()
            if now >= datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]):
                container.kill()
            if not container.is_gone():
                return
        super()._end_pod(pod, now)


def _claim_at_home(pod: JSON) -> str:
    """The claim that is mounted where the pod's home is; empty for scratch space."""
    container = pod["spec"]["containers"][0]
    home = next(each["value"] for each in container["env"] if each["name"] == "HOME")
    mounted = next((mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == home), "")
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    found: str = volumes.get(mounted, {}).get("persistentVolumeClaim", {}).get("claimName", "")
    return found


def bind_claims(rest: Rest) -> None:
    """What a provisioner and the controller of claims do: a volume for every claim that has none."""
    for claim in rest.items(_CLAIMS):
        if claim["spec"].get("volumeName") or claim["metadata"].get("deletionTimestamp"):
            continue
        name, head = f"pv-{claim['metadata']['uid']}", claim["metadata"]
        same = {"accessModes": claim["spec"]["accessModes"], "capacity": claim["spec"]["resources"]["requests"]}
        whose = {
            "kind": "PersistentVolumeClaim",
            "namespace": head["namespace"],
            "name": head["name"],
            "uid": head["uid"],
        }
        storage = claim["spec"].get("storageClassName", "")
        spec = {**same, "hostPath": {"path": f"/claims/{name}"}, "claimRef": whose, "storageClassName": storage}
        volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
        rest.apply(f"{_VOLUMES}/{name}", volume, manager="provisioner")
        rest.patch(f"{_VOLUMES}/{name}/status", {"status": {"phase": "Bound"}})
        path = f"/api/v1/namespaces/{head['namespace']}/persistentvolumeclaims/{head['name']}"
        bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        rest.patch(path, {"metadata": bound, "spec": {"volumeName": name}})
        rest.patch(f"{path}/status", {"status": {"phase": "Bound", **same}})


class IngressController(threading.Thread):
    """Has nginx serve the ingresses of a namespace and `fixed` ones. `errors`: what it could not do."""

    def __init__(
        self,
        plane: ControlPlane,
        namespace: str,
        nginx: Nginx,
        fixed: tuple[Sequence[JSON], Mapping[Backend, Sequence[str]]],
    ) -> None:
        super().__init__(name="ingress-controller", daemon=True)
        self.errors: list[str] = []
        self._rest, self._namespace, self._nginx, self._fixed = plane.rest(), namespace, nginx, fixed
        self._served: object = None
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.1):
            try:
                self.turn()
            except (httpx.TransportError, Refused):
                continue  # the API server is away
            except Exception as error:  # noqa: BLE001 -- shown at the end; a controller goes on
                self.errors.append(repr(error))

    def turn(self) -> None:
        """Serve what there is now, if it is not served yet."""
        ingresses = self._rest.items(f"/apis/networking.k8s.io/v1/namespaces/{self._namespace}/ingresses")
        endpoints = {**self._fixed[1], **self._endpoints()}
        seen = (
            [
                (each["metadata"]["uid"], each["metadata"]["generation"], each["metadata"]["annotations"])
                for each in ingresses
            ],
            endpoints,
        )
        if seen != self._served:
            self._nginx.serve([*self._fixed[0], *ingresses], endpoints)
            self._served = seen

    def _endpoints(self) -> dict[Backend, list[str]]:
        """The addresses of ready pods behind each port of each service."""
        pods = self._rest.items(f"/api/v1/namespaces/{self._namespace}/pods")
        ready = [pod for pod in pods if _is_ready(pod)]
        found: dict[Backend, list[str]] = {}
        for service in self._rest.items(f"/api/v1/namespaces/{self._namespace}/services"):
            wanted = service["spec"]["selector"].items()
            addresses = [pod["status"]["podIP"] for pod in ready if wanted <= pod["metadata"]["labels"].items()]
            for port in service["spec"]["ports"] if addresses else ():
                backend = (self._namespace, service["metadata"]["name"], port["port"])
                found[backend] = [f"{address}:{port['targetPort']}" for address in addresses]
        return found

    def stop(self) -> None:
        """No more."""
        self._over.set()
        self.join(10)


def _is_ready(pod: JSON) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    is_said = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_said and not pod["metadata"].get("deletionTimestamp")
