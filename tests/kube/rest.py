"""The tests' own plain client of an API server: JSON in, JSON out, errors as they are.

It shares nothing with the adapter and the operator, so that it can judge both.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx

JSON = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Refused(Exception):
    """An answer that is no success: `status` is its code, `body` the Status object."""

    def __init__(self, status: int, body: JSON) -> None:
        super().__init__(f"{status}: {body.get('message', body)}")
        self.status = status
        self.body = body

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Every (field, message) that the server names."""
        details = self.body.get("details") or {}
        return [(cause.get("field", ""), cause.get("message", "")) for cause in details.get("causes") or ()]


class Rest:
    """Calls of one API server with one identity. Paths are the server's own; threads may share it."""

    def __init__(self, server: str, ca: str, *, token: str = "", client: tuple[str, str] | None = None) -> None:
        context = ssl.create_default_context(cafile=ca)
        if client is not None:
            context.load_cert_chain(*client)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=server, verify=context, headers=headers, timeout=30, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def call(
        self, method: str, path: str, body: Any = None, *, accept: str = "", content: str = "", **query: Any
    ) -> JSON:
        """One call. Raises Refused for anything but 2xx, httpx errors when the server cannot be reached."""
        headers = {"Content-Type": content or "application/json"}
        if accept:
            headers["Accept"] = accept
        answer = self._client.request(
            method, path, content=None if body is None else json.dumps(body), headers=headers, params=query
        )
        known = answer.headers.get("content-type", "").startswith("application/json")
        read: JSON = answer.json() if known else {"message": answer.text}
        if not answer.is_success:
            raise Refused(answer.status_code, read)
        return read

    def get(self, path: str, **query: Any) -> JSON:
        return self.call("GET", path, **query)

    def find(self, path: str) -> JSON | None:
        """The object, or None where there is none."""
        try:
            return self.get(path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def items(self, path: str, **query: Any) -> list[JSON]:
        listed: list[JSON] = self.get(path, **query)["items"]
        return listed

    def watch(self, path: str) -> Iterator[JSON]:
        """What is there and what changes, as events, until the server ends it."""
        with self._client.stream("GET", path, params={"watch": "true"}, timeout=None) as events:
            yield from map(json.loads, events.iter_lines())

    def create(self, path: str, body: JSON, **query: Any) -> JSON:
        return self.call("POST", path, body, **query)

    def replace(self, path: str, body: JSON, **query: Any) -> JSON:
        return self.call("PUT", path, body, **query)

    def patch(self, path: str, body: JSON, **query: Any) -> JSON:
        """A merge patch; null removes."""
        return self.call("PATCH", path, body, content=MERGE, **query)

    def apply(self, path: str, body: JSON, *, manager: str, force: bool = True, **query: Any) -> JSON:
        """Server-side apply."""
        query |= {"fieldManager": manager, "force": str(force).lower()}
        return self.call("PATCH", path, body, content=APPLY, **query)

    def delete(self, path: str, *, grace: int | None = None) -> None:
        """Delete; nothing where there is none."""
        try:
            self.call("DELETE", path, **({} if grace is None else {"gracePeriodSeconds": grace}))
        except Refused as error:
            if error.status != 404:
                raise

    def table(self, path: str) -> list[dict[str, Any]]:
        """What `kubectl get` prints: one dictionary a row, by column."""
        answer = self.call("GET", path, accept=TABLE)
        names = [column["name"] for column in answer["columnDefinitions"]]
        return [dict(zip(names, row["cells"], strict=True)) for row in answer["rows"]]
