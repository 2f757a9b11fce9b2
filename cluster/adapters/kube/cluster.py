"""A Kubernetes cluster: its documents are custom resources, applied through a kubeconfig that a reference names.

Guarantees: one call writes a document; the API server itself refuses what is not newer (`gshare_core.contract.crds`), so that
writers may be late, doubled and many. A list is whole and of one version, or Unavailable. A cluster that does not answer
costs its callers no time-outs after the first few (a circuit a cluster and process). Tests and callers see two errors only.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings

from cluster.adapters.kube.api import APPLY, Api, Gone, Json, Refusal
from cluster.adapters.kube.circuit import Circuit
from cluster.adapters.kube.facts import read_facts
from cluster.adapters.kube.kubeconfig import read_kubeconfig
from cluster.adapters.kube.modes import ModeChanges
from cluster.adapters.kube.references import kubeconfig_of, limits
from cluster.domain.logs import last_lines
from cluster.domain.preflight.findings import Facts
from cluster.models import Cluster
from cluster.port import LOG_CHARACTERS_MAX, LOG_LINES_MAX, ModeSeen, NoLogs, Observed, Rejected, Unavailable
from gshare_core.contract import (
    API_GROUP,
    FIELD_MANAGER,
    LABEL_RUN,
    LABEL_SESSION,
    NAMESPACE_SESSIONS,
    PLURAL_SESSIONS,
    DesiredDocument,
    session_name,
)
from gshare_core.contract.crds import FENCE
from gshare_core.contract.resources import ModeChange, document_of, session_resource

log = logging.getLogger(__name__)

_CONFLICTS = 3
_LISTS = 3
# A kubelet counts from the first of the lines that are asked for, and keeps none longer than 16 KiB: all of them fit.
_LOG_BYTES = LOG_LINES_MAX * 16_384
_LOG_SECONDS = 8.0


class KubeCluster:
    """`ClusterPort` over the custom resources of one namespace."""

    def __init__(self, api: Api, *, namespace: str = NAMESPACE_SESSIONS) -> None:
        self._api, self._namespace = api, namespace
        self._sessions = f"/apis/{API_GROUP}/v1/namespaces/{namespace}/{PLURAL_SESSIONS}"
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._modes = ModeChanges(api, namespace)

    def apply(self, document: DesiredDocument) -> None:
        """See `ClusterPort.apply`. Rejects what the cluster's definition of the resource refuses, naming the field."""
        if document.spec is None and document.run is None:
            known = self._known(document.session)
            if known is None:
                return
            run, generation = _order(known)
            document = document.model_copy(update={"run": run, "generation": generation})
        resource = session_resource(document)
        path = f"{self._sessions}/{session_name(document.session)}"
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        for left in reversed(range(_CONFLICTS)):
            try:
                self._api.call("PATCH", path, resource, content=APPLY, query=query)
                return
            except Refusal as error:
                if _is_fence(error):
                    return
                if _is_on_its_way_out(error):
                    raise Unavailable(str(error)) from error
                if error.status != 409:
                    raise
                if not left:  # others write the same resource at the same instant, again and again
                    raise Unavailable(str(error)) from error

    def remove(self, session: UUID) -> None:
        """See `ClusterPort.remove`. Until its operator lets go of the resource it stays there, observed no more."""
        try:
            self._api.call("DELETE", f"{self._sessions}/{session_name(session)}")
        except Refusal as error:
            if error.status != 404:
                raise

    def observe(self) -> Sequence[Observed]:
        """See `ClusterPort.observe`. What cannot be read, or is being deleted, counts as not there: it is applied again."""
        for _ in range(_LISTS):
            try:
                return self._list()
            except Gone:
                continue  # the pages' version was compacted away: a part of a list is none
        raise Unavailable("its list does not come to an end")

    def logs(self, session: UUID, run: int, *, lines: int) -> str:
        """See `ClusterPort.logs`. Lines are told apart by the container that wrote them."""
        until = time.monotonic() + _LOG_SECONDS
        selector = f"{LABEL_SESSION}={session},{LABEL_RUN}={run}"
        found = self._api.call("GET", self._pods, query={"labelSelector": selector}, within=_LOG_SECONDS)
        tails = [
            (container["name"], tail)
            for pod in found.get("items") or []
            for container in pod["spec"]["containers"]
            if (tail := self._tail(pod["metadata"]["name"], container["name"], lines, until)) is not None
        ]
        if not tails:
            raise NoLogs(f"there are no logs of run {run} of session {session}")
        return "\n".join(f"[{container}] {line}" for container, tail in tails for line in tail)

    def change_mode(self, change: UUID, wanted: ModeChange) -> None:
        """See `ClusterPort.change_mode`. Rejects another wish of the same id: a mode change is never edited."""
        self._modes.write(change, wanted)

    def modes(self) -> Sequence[ModeSeen]:
        """See `ClusterPort.modes`. What cannot be read, or is being deleted, counts as not there."""
        for _ in range(_LISTS):
            try:
                return self._modes.seen()
            except Gone:
                continue
        raise Unavailable("its list does not come to an end")

    def withdraw_mode(self, change: UUID) -> bool:
        """See `ClusterPort.withdraw_mode`. The operator begins by writing the same resource: one of the two is refused."""
        return self._modes.withdraw(change)

    def forget_mode(self, change: UUID) -> None:
        """See `ClusterPort.forget_mode`."""
        self._modes.remove(change)

    def facts(self, *, now: datetime) -> Facts:
        """What the pre-flight test judges (`facts`). Raises Unavailable, Rejected."""
        return read_facts(self._api, now=now)

    # Parts ---------------------------------------------------------------------------------------------------------------

    def _known(self, session: UUID) -> DesiredDocument | None:
        try:
            return document_of(self._api.call("GET", f"{self._sessions}/{session_name(session)}"))
        except Refusal as error:
            if error.status == 404:
                return None
            raise
        except ValueError as error:
            raise Rejected(f"what the cluster has of session {session} cannot be read: {error}") from None

    def _list(self) -> list[Observed]:
        found = [_observed(each) for page in self._api.pages(self._sessions) for each in page.get("items") or ()]
        return sorted((each for each in found if each is not None), key=lambda each: each.session)

    def _tail(self, pod: str, container: str, lines: int, until: float) -> list[str] | None:
        """The container's last lines; None when it has not started yet."""
        left = until - time.monotonic()
        if left <= 0:
            raise Unavailable("its logs did not come in time")
        asked = min(lines, LOG_LINES_MAX)
        query = {"container": container, "tailLines": asked, "limitBytes": _LOG_BYTES}
        try:
            text = self._api.text(f"{self._pods}/{pod}/log", query=query, within=left)
        except Refusal as error:
            if error.status in {400, 404}:
                return None
            raise
        return last_lines(text, asked, LOG_CHARACTERS_MAX)


def _observed(resource: Json) -> Observed | None:
    metadata = resource.get("metadata") or {}
    if metadata.get("deletionTimestamp"):
        return None
    try:
        document = document_of(resource)
    except ValueError as error:
        log.warning("custom resource %s cannot be read and is passed over: %s", metadata.get("name"), error)
        return None
    return Observed(document.session, *_order(document), document.spec is None)


def _order(document: DesiredDocument) -> tuple[int, int]:
    """What makes one document newer than another, of one that was read from a resource."""
    if document.spec is not None:
        return document.spec.order
    assert document.run is not None and document.generation is not None, "a resource always says them"
    return document.run, document.generation


def _is_fence(error: Refusal) -> bool:
    """Whether the only thing wrong with a document is that it is not newer."""
    return error.status == 422 and bool(error.causes) and all(FENCE in message for _field, message in error.causes)


def _is_on_its_way_out(error: Refusal) -> bool:
    """Whether its operator has let go of a resource that is being deleted, which somebody else's finalizer still keeps.

    The document would bring our finalizer back, and that is all that is wrong with it: later there is room for a new one.
    """
    fields = {field for field, _message in error.causes}
    return error.status == 422 and fields == {"metadata.finalizers"}


# One client a cluster and process ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Open:
    process: int
    digest: str
    api: Api


_open: dict[UUID, _Open] = {}
_lock = threading.Lock()


def kube_cluster(cluster: Cluster) -> KubeCluster:
    """The port of a registered Kubernetes cluster. Raises Rejected for a bad or missing kubeconfig, Unavailable.

    The reference is read each time: a new kubeconfig takes effect with the next call, and begins with a closed circuit.
    """
    if cluster.removed_at is not None:
        raise Rejected(f"{cluster.name} was removed")
    text = kubeconfig_of(cluster.kubeconfig)
    known = settings.GSHARE
    how = f"{known.kube_local_addresses} {limits()} {text}"
    digest = hashlib.sha256(how.encode()).hexdigest()
    with _lock:
        opened = _open.get(cluster.pk)
        if opened is None or opened.digest != digest or opened.process != os.getpid():
            api = Api(
                read_kubeconfig(text, allow_local=known.kube_local_addresses),
                allow_local=known.kube_local_addresses,
                limits=limits(),
                circuit=Circuit(
                    failures=known.kube_circuit_failures,
                    first_pause=known.kube_circuit_pause.total_seconds(),
                    longest_pause=known.kube_circuit_pause_max.total_seconds(),
                ),
            )
            # The one before may be in use by another thread: it is let go of, not closed.
            opened = _open[cluster.pk] = _Open(os.getpid(), digest, api)
    return KubeCluster(opened.api)
