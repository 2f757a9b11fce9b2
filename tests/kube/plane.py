"""A real Kubernetes control plane for one test process: etcd, kube-apiserver and, when asked for, kube-scheduler.

Everything is on loopback and in one folder, ready in seconds and gone afterwards. There is no kubelet and no controller
manager: nodes are objects that tests write (`nodes.py`), `kubelet.py` stands in for what runs on them, owner references
are not collected, namespaces do not go away.
"""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.kube.prepare import binaries
from tests.kube.processes import Died, Program, free_ports, run
from tests.kube.rest import Refused, Rest
from tests.waiting import until

READY_WITHIN = 90.0
_TRIES = 3


@dataclass(frozen=True)
class Person:
    """Somebody with a token. Groups as RBAC sees them."""

    name: str
    token: str
    groups: tuple[str, ...] = ()


class ControlPlane:
    """One cluster's control plane below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.admin = Person("admin", secrets.token_hex(16), ("system:masters",))
        self._programs: dict[str, Program] = {}
        self._people = [self.admin]
        self._rest: dict[str, Rest] = {}
        self.port = self.etcd_port = 0

    # Life ----------------------------------------------------------------------------------------------------------------

    def start(self) -> ControlPlane:
        """Start etcd and the API server and wait until they serve. Raises NoControlPlane or Died."""
        self.folder.mkdir(parents=True, exist_ok=True)
        run(["openssl", "genrsa", "-out", "sa.key", "2048"], self.folder)
        run(["openssl", "rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"], self.folder)
        for left in reversed(range(_TRIES)):
            try:
                self._start_all()
                return self
            except Died:
                # Somebody took a port between finding and using it.
                self.stop()
                if not left:
                    raise
        return self

    def stop(self) -> None:
        """End everything; the API server before etcd."""
        for rest in self._rest.values():
            rest.close()
        self._rest.clear()
        for name in ("scheduler", "api", "etcd"):
            if name in self._programs:
                self._programs.pop(name).stop(5)

    def stop_api(self) -> None:
        """Take the API server away; what it stored stays."""
        self._programs["api"].stop(5)

    def start_api(self) -> None:
        """Let it serve again, at the same address, with the same certificate and people."""
        self._write_people()
        self._programs["api"].start()
        self._wait()
        until(self._serves_custom_resources, within=READY_WITHIN, what="the storage of custom resources")

    def restart_api(self) -> None:
        """Take the API server away and let it serve again."""
        self.stop_api()
        self.start_api()

    def start_scheduler(self) -> None:
        """The real kube-scheduler, once; `schedulerName: default-scheduler` is its."""
        if "scheduler" in self._programs:
            return
        (self.folder / "scheduler.kubeconfig").write_text(self.kubeconfig(), encoding="utf-8")
        (self.folder / "scheduler.yaml").write_text(yaml.safe_dump(self.scheduler_configuration()), encoding="utf-8")
        command = [binaries() / "kube-scheduler", "--config", self.folder / "scheduler.yaml", "--secure-port=0"]
        self._programs["scheduler"] = Program(command, self.folder / "scheduler.log")
        self._programs["scheduler"].start()

    def scheduler_configuration(self) -> dict[str, Any]:
        """`KubeSchedulerConfiguration` as it is run here; tests may add profiles and extenders to theirs."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.folder / "scheduler.kubeconfig")},
        }

    # Access --------------------------------------------------------------------------------------------------------------

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        """The certificate that the server is trusted by."""
        return self.folder / "certs" / "apiserver.crt"

    def rest(self, person: Person | None = None) -> Rest:
        """The tests' own client, as an administrator unless somebody is named."""
        token = (person or self.admin).token
        if token not in self._rest:
            self._rest[token] = Rest(self.server, str(self.ca), token=token)
        return self._rest[token]

    def kubeconfig(self, person: Person | None = None, *, server: str | None = None) -> str:
        """A kubeconfig with a token, everything inside."""
        return yaml.safe_dump(self.kubeconfig_document(person, server=server))

    def kubeconfig_document(self, person: Person | None = None, *, server: str | None = None) -> dict[str, Any]:
        """The same before it is written; tests spoil it."""
        ca = base64.b64encode(self.ca.read_bytes()).decode()
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "contexts": [{"name": "main", "context": {"cluster": "main", "user": "main"}}],
            "clusters": [
                {"name": "main", "cluster": {"server": server or self.server, "certificate-authority-data": ca}}
            ],
            "users": [{"name": "main", "user": {"token": (person or self.admin).token}}],
        }

    def add_person(self, name: str, *groups: str) -> Person:
        """Somebody without rights of his own; known from the next start of the API server on."""
        person = Person(name, secrets.token_hex(16), groups)
        self._people.append(person)
        return person

    def namespace(self, prefix: str = "test", labels: dict[str, str] | None = None) -> str:
        """A new namespace of a name that nothing else has."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.rest().create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        return name

    def process_ids(self) -> dict[str, int]:
        """Of each program that runs."""
        found = {name: program.process for name, program in self._programs.items()}
        return {name: process.pid for name, process in found.items() if process is not None}

    def compact(self) -> None:
        """Forget every revision but the newest in etcd, so that whoever follows an older one is told 410 Gone."""
        with httpx.Client(base_url=f"http://127.0.0.1:{self.etcd_port}", trust_env=False) as etcd:
            found = etcd.post("/v3/kv/range", json={"key": "AA=="}).raise_for_status().json()
            etcd.post("/v3/kv/compaction", json={"revision": found["header"]["revision"], "physical": True})

    # Programs ------------------------------------------------------------------------------------------------------------

    def _start_all(self) -> None:
        self.etcd_port, peers, self.port = free_ports(3)
        self._write_people()
        folder = binaries()
        self._programs = {
            "etcd": Program([folder / "etcd", *self._etcd_options(peers)], self.folder / "etcd.log"),
            "api": Program([folder / "kube-apiserver", *self._api_options()], self.folder / "api.log"),
        }
        for program in self._programs.values():
            program.start()
        self._wait()

    def _wait(self) -> None:
        until(self._is_ready, within=READY_WITHIN, what="the API server")

    def _is_ready(self) -> bool:
        for program in self._programs.values():
            program.check()
        if not self.ca.exists():
            return False
        try:
            with httpx.Client(verify=False, trust_env=False) as probe:
                headers = {"Authorization": f"Bearer {self.admin.token}"}
                return probe.get(f"{self.server}/readyz", headers=headers).status_code == 200
        except httpx.TransportError:
            return False

    def _serves_custom_resources(self) -> bool:
        """Their storage comes a moment after the server is ready; until then it answers 429."""
        try:
            for version in ({}, {"resourceVersion": "0"}):  # from the store, and from what is kept in memory
                self.rest().get("/apis/gshare.io/v1/gsharesessions", limit=1, **version)
        except Refused as error:
            return error.status == 404  # they were never installed
        return True

    def _write_people(self) -> None:
        rows = [f'{each.token},{each.name},{each.name},"{",".join(each.groups)}"' for each in self._people]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    def _etcd_options(self, peers: int) -> list[str]:
        clients, others = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peers}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={others}",
            f"--initial-advertise-peer-urls={others}",
            f"--initial-cluster=default={others}",
        ]

    def _api_options(self) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.folder / 'certs'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'sa.pub'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            # Without a controller manager nobody makes service accounts or takes the taint of a new node away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--endpoint-reconciler-type=none",
            "--profiling=false",
            "--allow-privileged",
        ]
