"""When a list of ends is too long to be believed: both sides brake before they tear a cluster down by mistake.

An operator that is told, or a control plane that concludes, that much of what a cluster runs is wanted by nobody has more
likely met an empty or restored database than the truth.
"""

from __future__ import annotations

ABSURD_PERCENT = 20
BELIEVED_ENDS = 2


def is_absurd(ends: int, of: int, *, percent: int = ABSURD_PERCENT, believed: int = BELIEVED_ENDS) -> bool:
    """Whether ending `ends` of the `of` that a cluster runs is more than `percent` of them, and more than `believed`.

    `believed` is the floor for small clusters: one of two is 50 %, and still may be an ordinary stray. Whoever has no
    record at all of what would end passes 0.
    """
    return ends > believed and ends * 100 > percent * of
