"""Who an object belongs to, how it is found again, and whether it still is as it was wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cluster.domain.amounts import amount
from gshare_core.contract import (
    API_GROUP,
    API_VERSION,
    KIND_SESSION,
    LABEL_GROUP,
    LABEL_ORGANISATION,
    LABEL_RUN,
    LABEL_SESSION,
    SessionSpec,
    session_name,
)

Manifest = dict[str, Any]

ANNOTATION_GENERATION = f"{API_GROUP}/generation"
ANNOTATION_CARDS = f"{API_GROUP}/cards"
LABEL_MANAGED = "app.kubernetes.io/managed-by"
MANAGER = "gshare-operator"
NO_ADDRESS = "None"  # as Kubernetes spells it
# Fields whose values are quantities: the API server rewrites them (9000 → 9k).
_QUANTITIES = frozenset({"limits", "requests", "sizeLimit"})
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Owner:
    """The custom resource of a session."""

    name: str
    uid: str

    def reference(self) -> Manifest:
        """The owner reference: the object goes when the resource goes."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND_SESSION,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def metadata(
    spec: SessionSpec, owner: Owner, namespace: str, name: str = "", annotations: Mapping[str, str] = _NOTHING
) -> Manifest:
    """The metadata of an object that belongs to the run; its name is the session's unless another is given."""
    belongs = {LABEL_GROUP: spec.group, LABEL_ORGANISATION: spec.organisation}
    return {
        "name": name or session_name(spec.session_id),
        "namespace": namespace,
        "labels": {
            LABEL_MANAGED: MANAGER,
            LABEL_SESSION: str(spec.session_id),
            LABEL_RUN: str(spec.run),
            **{label: str(whose) for label, whose in belongs.items() if whose is not None},
        },
        "annotations": {ANNOTATION_GENERATION: str(spec.generation), **annotations},
        "ownerReferences": [owner.reference()],
    }


def needs_apply(wanted: Manifest, seen: Mapping[str, Any] | None) -> bool:
    """Whether an object is missing or differs from what is wanted of it, by hand or by a newer document.

    What others added (defaults, status, further annotations) is no difference; the generation alone is none either, so that
    a document that changes nothing writes nothing. Not for pods: they are made once, and admission adds to their lists.
    """
    if seen is None:
        return True
    wanted = as_it_was_born(wanted, seen)
    own = dict(wanted["metadata"])
    own["annotations"] = {key: value for key, value in own["annotations"].items() if key != ANNOTATION_GENERATION}
    return not _covers(seen, {**wanted, "metadata": own})


def as_it_was_born(wanted: Manifest, seen: Mapping[str, Any] | None) -> Manifest:
    """What is wanted of an object that is there, without what cannot be changed of it any more: a service that an earlier
    operator gave an address of its own keeps it."""
    address = ((seen or {}).get("spec") or {}).get("clusterIP")
    if wanted["kind"] != "Service" or not address:
        return wanted
    return {**wanted, "spec": {**wanted["spec"], "clusterIP": address}}


def applied_mark(seen: Mapping[str, Any] | None) -> Manifest | None:
    """What makes an object that was created by us one that we applied; None where nothing has to be done.

    Server-side apply takes away what it no longer says only of what was applied: a port or a label that a first run had and the
    next one has not would stay. (Kubernetes: "Upgrading from client-side apply to server-side apply".)
    """
    metadata = (seen or {}).get("metadata") or {}
    entries = metadata.get("managedFields") or ()
    own = [entry for entry in entries if entry.get("manager") == MANAGER and not entry.get("subresource")]
    if [entry.get("operation") for entry in own] != ["Update"]:
        return None
    marked = [{**entry, "operation": "Apply"} if entry is own[0] else entry for entry in entries]
    return {"metadata": {"managedFields": marked, "resourceVersion": metadata["resourceVersion"]}}


def _covers(seen: Any, wanted: Any, *, quantities: bool = False) -> bool:
    if seen is None and wanted in ({}, []):
        return True  # the API server does not keep what is empty
    if isinstance(wanted, Mapping):
        return isinstance(seen, Mapping) and all(
            _covers(seen.get(key), value, quantities=quantities or key in _QUANTITIES) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(wanted)
            and all(_covers(*pair, quantities=quantities) for pair in zip(seen, wanted, strict=True))
        )
    if quantities and seen != wanted:
        return amount(seen) is not None and amount(seen) == amount(wanted)
    return bool(seen == wanted)
