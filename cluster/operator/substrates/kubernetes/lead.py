"""Which of several operators leads a Kubernetes cluster: a Lease, as client-go's leader election uses it.

Guarantees: at any time at most one believes that it leads, as long as writes of the lease are the API server's (each carries the
version that it has seen). Whether another's lease is over is judged by one's own clock alone: it is, when it has not changed
for its whole duration. Who cannot renew in time gives the lead up before anybody may take it. (The official client has such an
election too; in release 37 its lease lock cannot create a lease.)
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

from cluster.operator.state import Unavailable
from cluster.operator.substrates.kubernetes.api import LEASES, Api, Document, Refused

log = logging.getLogger(__name__)

DURATION_SECONDS, RENEW_WITHIN_SECONDS, RETRY_SECONDS = 15, 10.0, 2.0


class LeaseLeadership:
    """`acquire`, then `keep` beside the work; `release` at a wanted end."""

    def __init__(self, api: Api, namespace: str, name: str, identity: str) -> None:
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._seen: tuple[str, float] = ("", 0.0)  # a version of the lease, and when it was first met
        self._version = ""

    async def acquire(self) -> None:
        """Wait until the lead is ours."""
        while not await self._try():  # noqa: ASYNC110 -- what is waited for is another process: no event tells
            await asyncio.sleep(RETRY_SECONDS)
        log.info("leading as %s", self._identity)

    async def keep(self) -> None:
        """Renew the lease; returns when it could not be renewed in time, or is somebody else's."""
        loop = asyncio.get_running_loop()
        renewed_at = loop.time()
        while loop.time() - renewed_at < RENEW_WITHIN_SECONDS:
            await asyncio.sleep(RETRY_SECONDS)
            try:
                async with asyncio.timeout_at(renewed_at + RENEW_WITHIN_SECONDS):
                    await self._write({"renewTime": _now()})
            except (Unavailable, TimeoutError) as error:
                log.warning("the lease cannot be renewed: %s", error)
            except Refused as refusal:
                log.error("the lease is somebody else's: %s", refusal)  # noqa: TRY400 -- says it all
                return
            else:
                renewed_at = loop.time()
        log.error("the lease was not renewed in time")

    async def release(self) -> None:
        """Give the lead to whoever waits, at once."""
        try:
            await self._write({"holderIdentity": "", "renewTime": _now()})
        except (Unavailable, Refused) as error:
            log.warning("the lease runs out by itself: %s", error)

    async def _try(self) -> bool:
        try:
            lease = await self._api.get(LEASES, self._namespace, self._name)
            if lease is None:
                await self._create()
                return True
            if not self._is_over(lease):
                return False
            spec = lease.get("spec") or {}
            self._version = lease["metadata"]["resourceVersion"]
            await self._write(self._claim(int(spec.get("leaseTransitions") or 0) + 1))
        except Refused as refusal:
            if refusal.status != 409:
                log.error("the lease is refused: %s", refusal)  # noqa: TRY400 -- says it all
            return False
        except Unavailable as error:
            log.warning("the lease cannot be asked for: %s", error)
            return False
        return True

    def _is_over(self, lease: Document) -> bool:
        spec, version = lease.get("spec") or {}, str(lease["metadata"]["resourceVersion"])
        if not spec.get("holderIdentity"):
            return True
        now = asyncio.get_running_loop().time()
        if self._seen[0] != version:
            self._seen = (version, now)
        return now - self._seen[1] >= int(spec.get("leaseDurationSeconds") or DURATION_SECONDS)

    def _claim(self, transitions: int) -> Document:
        now = _now()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": DURATION_SECONDS,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }

    async def _create(self) -> None:
        document: Document = {
            "apiVersion": LEASES.group_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._claim(0),
        }
        made = await self._api.create(LEASES, self._namespace, document)
        self._version = made["metadata"]["resourceVersion"]

    async def _write(self, spec: Document) -> None:
        """Change the lease that we have seen, and no other version of it."""
        changes: Document = {"metadata": {"resourceVersion": self._version}, "spec": spec}
        written = await self._api.merge(LEASES, self._namespace, self._name, changes)
        self._version = written["metadata"]["resourceVersion"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
