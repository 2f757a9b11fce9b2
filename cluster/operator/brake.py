"""The operator's own brake: a control plane that suddenly wants nothing of much that runs is not believed at once.

A tombstone says that no row wants a session: ordinary ends come as documents that pause or stop. Many tombstones at once
speak for an empty or restored database, and are left aside, as if nothing had been said, until an administrator confirms them
over there (the document says so) or there are fewer. A document that is missing from the feed ends nothing anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from cluster.operator.state import Pod
from gshare_core.contract import DesiredDocument, is_absurd

_NOBODY: frozenset[UUID] = frozenset()


def held_back(documents: Mapping[UUID, DesiredDocument], pods: Sequence[Pod]) -> frozenset[UUID]:
    """The sessions whose tombstones are not believed: more of what runs than `is_absurd` allows.

    Ends that have begun count and go on: what is ending is never revived, and nothing is torn down in small bites.
    """
    living = {pod.session for pod in pods if pod.alive}
    doomed = frozenset(session for session in living if _is_unasked_end(documents.get(session)))
    return doomed if is_absurd(len(doomed), len(living)) else _NOBODY


def _is_unasked_end(document: DesiredDocument | None) -> bool:
    return document is not None and document.spec is None and not document.confirmed
