"""Kubernetes' API as the operator calls it: plain documents in and out, over the official client.

Guarantees: an answer counts only when it says 2xx; what passes (no answer, too busy, a fault of the server) is
`Unavailable`, what stands is `Refused` with the server's words; every call ends within its time. Nothing is retried here.
Refuses: nothing for good; what a refusal means is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from pydantic_core import from_json

from cluster.operator.state import Unavailable

FIELD_MANAGER = "gshare-operator"
REQUEST_SECONDS = 15.0
WATCH_SECONDS = 240
_SILENCE_SECONDS = 100.0  # the server sends a bookmark about every minute: who says nothing for so long is gone
_BUSY = frozenset({408, 425, 429})
_JSON, _MERGE, _APPLY = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"

Document = dict[str, Any]


class Refused(Exception):
    """The API server understood and turned it down."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: where the API has it."""

    group_version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The address of the collection, of an object, or of a part of one."""
        parts = ["api" if "/" not in self.group_version else "apis", self.group_version]
        if self.is_namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part is not None]
        return "/" + "/".join(parts)


PODS = Kind("v1", "pods", "Pod")
NODES = Kind("v1", "nodes", "Node", is_namespaced=False)
SECRETS = Kind("v1", "secrets", "Secret")
SERVICES = Kind("v1", "services", "Service")
CLAIMS = Kind("v1", "persistentvolumeclaims", "PersistentVolumeClaim")
INGRESSES = Kind("networking.k8s.io/v1", "ingresses", "Ingress")
POLICIES = Kind("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy")
SESSIONS = Kind("gshare.io/v1", "gsharesessions", "GShareSession")
EVENTS = Kind("v1", "events", "Event")
LEASES = Kind("coordination.k8s.io/v1", "leases", "Lease")
KINDS = {kind.kind: kind for kind in (PODS, NODES, SECRETS, SERVICES, CLAIMS, INGRESSES, POLICIES, SESSIONS)}


def plain_configuration() -> Configuration:
    """The client's configuration without what it would take from its environment: a proxy, or somebody's .netrc.

    It would look for both in a thread of their own at every single call.
    """
    made = Configuration()
    made.client_session_kwargs = {"trust_env": False}
    return made


class Api:
    """Calls of one operator. `client` is closed by who made it."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Document | None:
        """An object, None when there is none of that name."""
        try:
            return await self._call("GET", kind.path(namespace, name))
        except Refused as refusal:
            if refusal.status == 404:
                return None
            raise

    async def list(self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = "") -> Document:
        """The whole collection, as the server has it now."""
        return await self._call("GET", kind.path(namespace), query=_selectors(labels, fields))

    async def create(self, kind: Kind, namespace: str | None, document: Document) -> Document:
        """Make an object. Raises Refused 409 when there is one of that name."""
        return await self._call("POST", kind.path(namespace), document, query={"fieldManager": FIELD_MANAGER})

    async def make(self, kind: Kind, namespace: str | None, document: Document) -> None:
        """Make an object whose like is not expected to be there: Refused 409 where it is. The answer is not read.

        Half of what `apply` costs the API server, which would look for it first and read the document as YAML.
        """
        query = {"fieldManager": FIELD_MANAGER}
        await self._call("POST", kind.path(namespace), document, query=query, is_read=False)

    async def apply(self, kind: Kind, namespace: str | None, document: Document) -> Document:
        """Make an object, or bring the fields that are ours to what the document says (server-side apply)."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = kind.path(namespace, document["metadata"]["name"])
        return await self._call("PATCH", path, document, query=query, content_type=_APPLY)

    async def merge(
        self, kind: Kind, namespace: str | None, name: str, changes: Document, *, subresource: str | None = None
    ) -> Document:
        """Change single fields (JSON merge patch). Raises Refused 404, 409."""
        query = {"fieldManager": FIELD_MANAGER}
        return await self._call(
            "PATCH", kind.path(namespace, name, subresource), changes, query=query, content_type=_MERGE
        )

    async def delete(
        self, kind: Kind, namespace: str | None, name: str, *, grace_seconds: int | None = None, uid: str | None = None
    ) -> bool:
        """Ask for an object's end, of just this one when its `uid` is given; False when there is none (of that uid)."""
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._call("DELETE", kind.path(namespace, name), options)
        except Refused as refusal:
            if refusal.status in {404, 409}:
                return False
            raise
        return True

    async def watch(
        self, kind: Kind, namespace: str | None, *, since: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Document]:
        """Changes since a version of the collection, until the server ends the watch. Raises Refused 410 when it is too old."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(WATCH_SECONDS),
            **_selectors(labels, fields),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=_SILENCE_SECONDS)
        try:
            response = await self._send("GET", kind.path(namespace), None, query, _JSON, timeout)
            try:
                if response.status // 100 != 2:
                    _raise(response.status, await response.read())
                async for line in response.response.content:
                    yield _event(line)
            finally:
                response.response.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"the watch of {kind.plural} broke off: {type(error).__name__}") from error

    async def _call(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = _JSON,
        is_read: bool = True,
    ) -> Document:
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        try:
            response = await self._send(method, path, body, query or {}, content_type, timeout)
            content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(f"{method} {path}: {type(error).__name__}") from error
        if response.status // 100 != 2:
            _raise(response.status, content)
        return _document(content) if is_read else {}

    async def _send(
        self,
        method: str,
        path: str,
        body: Document | None,
        query: Mapping[str, str],
        content_type: str,
        within: aiohttp.ClientTimeout,
    ) -> Any:
        headers = {**self._client.default_headers, "Content-Type": content_type, "Accept": _JSON}
        # Not by the client's `param_serialize`: it walks through every body for values that JSON lacks, and ours are plain.
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = f"{self._client.configuration.host}{path}"
        if query:
            url += "?" + urlencode(query)
        return await self._client.call_api(method, url, headers, body, _request_timeout=within)


def _selectors(labels: str, fields: str) -> dict[str, str]:
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in given.items() if value}


def _event(line: bytes) -> Document:
    event = _document(line)
    if event.get("type") == "ERROR":
        status = event.get("object", {})
        raise _fault(int(status.get("code", 500)), str(status.get("reason", "")), str(status.get("message", "")))
    return event


def _document(content: bytes) -> Document:
    try:
        found = from_json(content)  # in two thirds of the time of `json`
    except ValueError as error:
        raise Unavailable("the API server's answer is no JSON") from error
    if not isinstance(found, dict):
        raise Unavailable("the API server's answer is no object")
    return found


def _raise(status: int, content: bytes) -> None:
    try:
        said = json.loads(content)
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    raise _fault(status, str(said.get("reason", "")), str(said.get("message", ""))[:1000])


def _fault(status: int, reason: str, message: str) -> Exception:
    if status in _BUSY or status >= 500:
        return Unavailable(f"{status} {reason}: {message}")
    return Refused(status, reason, message)
