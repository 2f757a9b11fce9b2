"""Calls of one API server: bounded in time and size, behind a circuit, their answers sorted into the port's two errors.

`Unavailable`: it did not answer in time, is busy (429), starting or failing (5xx); nothing is known about the effect.
`Rejected`: it understood and refuses (other 4xx, a redirect), or the target itself is not allowed. Neither carries a
credential: the server's own words about the object are cut to a line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client import ApiClient, ApiException
from urllib3.response import BaseHTTPResponse

from cluster.adapters.kube.circuit import Circuit
from cluster.adapters.kube.connection import api_client
from cluster.adapters.kube.kubeconfig import Target
from cluster.port import PortError, Rejected, Unavailable

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_JSON = "application/json"
_WORDS = 300
_BUSY = frozenset({408, 425, 429})

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Of every call. `total_seconds` bounds a whole answer, also one that comes a byte at a time."""

    connect_seconds: float = 3.0
    read_seconds: float = 10.0
    total_seconds: float = 30.0
    answer_bytes: int = 64 << 20


class Refusal(Rejected):
    """What an API server refuses: `status` is HTTP's, `causes` are its (field, message)."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.reason = str(body.get("reason") or "")
        details = body.get("details")
        causes = details.get("causes") if isinstance(details, Mapping) else None
        self.causes = tuple(
            (str(each.get("field") or ""), str(each.get("message") or ""))
            for each in (causes if isinstance(causes, list) else ())
            if isinstance(each, Mapping)
        )
        super().__init__(f"{status} {_line(body.get('message'))}".strip())


class Gone(Unavailable):
    """The version that was asked for is not kept any more (410): list again."""


class Api:
    """One API server. Threads may share it; a process that forks makes its own."""

    def __init__(
        self, target: Target, *, allow_local: bool = False, limits: Limits | None = None, circuit: Circuit | None = None
    ) -> None:
        self._client: ApiClient = api_client(target, allow_local=allow_local)
        self._server = target.server
        self.limits = limits or Limits()
        self.circuit = circuit or Circuit()

    def close(self) -> None:
        """Let go of its connections."""
        self._client.rest_client.close()

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = _JSON,
        query: Mapping[str, object] | None = None,
        within: float | None = None,
    ) -> Json:
        """One call and its JSON answer, within so many seconds if they are given. Raises Unavailable, Refusal, Rejected."""
        limits = self._limits(within)
        deadline = time.monotonic() + limits.total_seconds
        with self._asked(method, path, body, content=content, query=query, limits=limits) as response:
            read = self._read(response, deadline)
        try:
            answer = json.loads(read)
        except ValueError:
            raise Unavailable("it answered something that is no JSON") from None
        if not isinstance(answer, dict):
            raise Unavailable("it answered something that is no object")
        return answer

    def text(self, path: str, *, query: Mapping[str, object] | None = None, within: float | None = None) -> str:
        """A plain answer that a node gives through the server. Raises as `call`.

        A node that does not answer is no failure of the server: it opens no circuit.
        """
        limits = self._limits(within)
        deadline = time.monotonic() + limits.total_seconds
        with self._asked("GET", path, query=query, limits=limits, of_node=True) as response:
            return self._read(response, deadline, of_node=True).decode(errors="replace")

    def _limits(self, within: float | None) -> Limits:
        if within is None:
            return self.limits
        known = self.limits
        return Limits(
            min(known.connect_seconds, within),
            min(known.read_seconds, within),
            min(known.total_seconds, within),
            known.answer_bytes,
        )

    def pages(self, path: str, *, query: Mapping[str, object] | None = None, limit: int = 500) -> Iterator[Json]:
        """The pages of a list, all of one version. Raises as `call`, and Gone when it took too long: begin again."""
        token = ""
        while True:
            wanted = {**(query or {}), "limit": limit} | ({"continue": token} if token else {})
            page = self.call("GET", path, query=wanted)
            yield page
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return

    # How it is asked -----------------------------------------------------------------------------------------------------

    def _asked(self, method: str, path: str, body: object = None, **how: Any) -> Released:
        return Released(self._ask(method, path, body, **how))

    def _ask(
        self,
        method: str,
        path: str,
        body: object,
        *,
        content: str = _JSON,
        query: Mapping[str, object] | None = None,
        limits: Limits | None = None,
        of_node: bool = False,
    ) -> BaseHTTPResponse:
        """The answer with its body unread. Raises for whatever is no success."""
        self.circuit.enter()
        url = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json, */*", "Content-Type": content, **self._client.default_headers}
        bounds = limits or self.limits
        timeout = (bounds.connect_seconds, bounds.read_seconds)
        try:
            answer = self._client.call_api(method, url, headers, body, _request_timeout=timeout)
        except (urllib3.exceptions.HTTPError, ApiException, OSError) as error:
            self._failed(of_node)
            raise Unavailable(_why(error)) from None
        except PortError:
            self.circuit.succeed()  # it is not the cluster that keeps us waiting
            raise
        response: BaseHTTPResponse = answer.response
        if 200 <= response.status < 300:
            self.circuit.succeed()
            return response
        raise self._error(response, of_node)

    def _failed(self, of_node: bool) -> None:
        if not of_node:
            self.circuit.fail()

    def _error(self, response: BaseHTTPResponse, of_node: bool) -> PortError:
        with Released(response):
            try:
                read = json.loads(self._read(response, time.monotonic() + self.limits.read_seconds, most=1 << 20))
            except (ValueError, Unavailable):
                read = {}
        body = read if isinstance(read, dict) else {}
        status = response.status
        if status in _BUSY or status >= 500:
            self._failed(of_node)
            return Unavailable(f"{status} {_line(body.get('message'))}".strip())
        self.circuit.succeed()
        if status == 410:
            return Gone("410 the version is not kept any more")
        return Refusal(status, body)

    def _read(
        self, response: BaseHTTPResponse, deadline: float, *, most: int | None = None, of_node: bool = False
    ) -> bytes:
        """The whole body. A drip keeps nobody longer than the deadline and one read."""
        most = most or self.limits.answer_bytes
        parts: list[bytes] = []
        size = 0
        try:
            while part := response.read1(1 << 16):
                parts.append(part)
                size += len(part)
                if size > most:
                    raise Unavailable("it answered more than can be read")
                if time.monotonic() > deadline:
                    raise Unavailable("it did not finish its answer in time")
        except (urllib3.exceptions.HTTPError, OSError) as error:
            self._failed(of_node)
            raise Unavailable(_why(error)) from None
        return b"".join(parts)


class Released:
    """A response whose connection is given back if it was read to its end, and closed otherwise."""

    def __init__(self, response: BaseHTTPResponse) -> None:
        self._response = response

    def __enter__(self) -> BaseHTTPResponse:
        return self._response

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._response.close()
        self._response.release_conn()


def _why(error: Exception) -> str:
    """What kept it from answering, without addresses or anything that a kubeconfig says."""
    text = " ".join(type(each).__name__ for each in _chain(error))
    if "Certificate" in text or "SSL" in text:
        return "its certificate is not trusted, or it speaks no TLS"
    if "NameResolution" in text:
        return "its name is not known"
    if "Timeout" in text:
        return "it did not answer in time"
    return "it cannot be reached, or broke off"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        reason = getattr(error, "reason", None)
        error = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__


def _line(text: object) -> str:
    plain = "".join(char if char.isprintable() else " " for char in str(text or ""))
    return plain if len(plain) <= _WORDS else plain[:_WORDS] + "…"
