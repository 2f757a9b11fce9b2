"""Which pauses end by themselves for who asked for it (`auto_resume`). Pure.

A pause that somebody wanted (the owner, an administrator, the idle rule, a policy's limit) is kept. One that the want of
credits made ends when there are credits again; one that the infrastructure made (node or cluster lost, stopped or drained,
the pod evicted) ends as soon as there is a place; so does one that made room for a higher priority, behind which it goes back
in line. Disk that was exceeded would be exceeded again, a right that was revoked
stays revoked.
"""

from __future__ import annotations

from datetime import datetime, timedelta

FOR_WANT_OF_CREDITS = frozenset({"credit_exhausted", "budget_exhausted"})
BY_THE_INFRASTRUCTURE = frozenset({"cluster_lost", "cluster_stopped", "drained", "evicted", "node_lost", "vanished"})
TO_MAKE_ROOM = frozenset({"preempted"})


def wakes_at(reason: str, *, at: datetime, woken_at: datetime | None, pause: timedelta) -> datetime | None:
    """When a session that was paused for this reason is first tried again by itself; None when it stays paused.

    Between two such resumes lies at least `pause`: what ends again and again does not spin.
    """
    if reason not in FOR_WANT_OF_CREDITS | BY_THE_INFRASTRUCTURE | TO_MAKE_ROOM:
        return None
    return at if woken_at is None else max(at, woken_at + pause)
