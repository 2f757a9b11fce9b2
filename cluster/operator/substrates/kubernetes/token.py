"""The operator's token where it is a Secret that is mounted: a file that only the API server can change.

Guarantees: a renewed token is used at once and written to the Secret, where the next process finds it; whichever of the two was
issued later counts, so that a token that an administrator puts there wins over one that was renewed before. What the API server
refuses costs the next process its token, never this one.
"""

from __future__ import annotations

import logging
from pathlib import Path

from cluster.operator.client import Credentials, TokenFile
from cluster.operator.state import Unavailable
from cluster.operator.substrates.kubernetes.api import SECRETS, Api, Refused

log = logging.getLogger(__name__)


class TokenSecret(TokenFile):
    """`path` is the mounted file, whose name is the Secret's key."""

    def __init__(self, path: Path, api: Api, namespace: str, name: str) -> None:
        super().__init__(path)
        self._api, self._namespace, self._name = api, namespace, name
        self._renewed: Credentials | None = None

    def read(self) -> Credentials:
        """The newer of what is mounted and what was renewed. Raises `Unavailable`."""
        mounted, renewed = super().read(), self._renewed
        return renewed if renewed is not None and _issued(renewed) > _issued(mounted) else mounted

    async def keep(self, credentials: Credentials) -> None:
        """Use them from now on, and write them to the Secret."""
        self._renewed = credentials
        change = {"stringData": {self.path.name: credentials.as_json()}}
        try:
            await self._api.merge(SECRETS, self._namespace, self._name, change)
        except (Unavailable, Refused) as error:
            log.error("the renewed token cannot be kept for the next start: %s", error)  # noqa: TRY400 -- says it all


def _issued(credentials: Credentials) -> float:
    return credentials.lifetime[0].timestamp() if credentials.lifetime else 0.0
