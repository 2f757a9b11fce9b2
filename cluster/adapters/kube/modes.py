"""Mode changes as custom resources of one namespace: written, looked at, withdrawn.

Guarantees: a withdrawal and the operator's beginning are writes of one resource, each with the version that it has seen, so
that exactly one of them comes about.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from uuid import UUID

from cluster.adapters.kube.api import APPLY, Api, Json, Refusal
from cluster.port import ModeSeen, Unavailable
from gshare_core.contract import (
    API_GROUP,
    FIELD_MANAGER,
    PLURAL_MODE_CHANGES,
    mode_change_name,
    mode_change_of_name,
)
from gshare_core.contract.resources import ModeChange, mode_change_of, mode_change_resource

log = logging.getLogger(__name__)

_CONFLICTS = 3


class ModeChanges:
    """See the module; `cluster.adapters.kube.cluster` says what each call promises."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self._path = f"/apis/{API_GROUP}/v1/namespaces/{namespace}/{PLURAL_MODE_CHANGES}"

    def write(self, change: UUID, wanted: ModeChange) -> None:
        """Have it there."""
        resource = mode_change_resource(mode_change_name(change), wanted)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        self._api.call("PATCH", self._one(change), resource, content=APPLY, query=query)

    def seen(self) -> list[ModeSeen]:
        """All of them. Raises Gone when the list took too long."""
        found = [_seen(item) for page in self._api.pages(self._path) for item in page.get("items") or ()]
        return sorted((each for each in found if each is not None), key=lambda each: each.change)

    def withdraw(self, change: UUID) -> bool:
        """Delete what was looked at and had not begun."""
        for _ in range(_CONFLICTS):
            try:
                resource = self._api.call("GET", self._one(change))
                if has_begun(resource):
                    return False
                metadata = resource["metadata"]
                seen = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
                self._delete(change, {"preconditions": seen})
            except Refusal as error:
                if error.status == 404:
                    return True
                if error.status != 409:
                    raise
            else:
                return True
        raise Unavailable("others write the mode change at the same instant")

    def remove(self, change: UUID) -> None:
        """Delete it."""
        try:
            self._delete(change, {})
        except Refusal as error:
            if error.status != 404:
                raise

    def _delete(self, change: UUID, options: Json) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        self._api.call("DELETE", self._one(change), body)

    def _one(self, change: UUID) -> str:
        return f"{self._path}/{mode_change_name(change)}"


def has_begun(resource: Mapping[str, object]) -> bool:
    """Whether the operator may have changed something; what cannot be read may mean anything."""
    try:
        _wanted, status = mode_change_of(resource)
    except ValueError:
        return True
    return status is not None and status.begun


def _seen(resource: Json) -> ModeSeen | None:
    metadata = resource.get("metadata") or {}
    name = str(metadata.get("name"))
    if metadata.get("deletionTimestamp"):
        return None
    try:
        change = mode_change_of_name(name)
        _wanted, status = mode_change_of(resource)
    except ValueError as error:
        log.warning("mode change %s cannot be read and is passed over: %s", name, error)
        return None
    if status is None:
        return ModeSeen(change, None, "", begun=False)
    return ModeSeen(change, status.phase, status.message, begun=status.begun)
