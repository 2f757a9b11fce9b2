"""Initial passwords: made by the machine, read aloud by people.

Guarantees: 16 characters from 31 that cannot be mistaken for each other (79 bits), in groups of four.
"""

from __future__ import annotations

import secrets

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
GROUPS, GROUP_LENGTH = 4, 4


def initial_password() -> str:
    """A fresh initial password, such as ``k7mp-x2he-rt9a-bd4n``."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(GROUP_LENGTH)) for _ in range(GROUPS))
