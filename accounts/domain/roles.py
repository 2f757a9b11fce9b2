"""Roles, their order, and where each may sit.

Guarantees: `rank` is a total order, so that "outranks" and "below one's own" mean the same everywhere.
"""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What somebody is in a group, in an organisation, or everywhere."""

    GUEST = "guest"
    MEMBER = "member"
    GROUP_ADMIN = "group_admin"
    ORG_ADMIN = "org_admin"
    SUPER_ADMIN = "super_admin"

    @property
    def rank(self) -> int:
        """Higher outranks lower; 0 is a guest's."""
        return _ORDER.index(self)


_ORDER = tuple(Role)

GROUP_ROLES = (Role.GUEST, Role.MEMBER, Role.GROUP_ADMIN)
ORGANISATION_ROLES = (Role.ORG_ADMIN,)
