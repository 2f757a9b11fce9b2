"""Passwords: initial ones, made by the machine and read aloud by people, and what is too plain to be one.

Guarantees: an initial password has 16 characters from 31 that cannot be mistaken for each other (79 bits), in groups of four.
"""

from __future__ import annotations

import secrets

ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
GROUPS, GROUP_LENGTH = 4, 4
FEWEST_CHARACTERS = 5


def initial_password() -> str:
    """A fresh initial password, such as ``k7mp-x2he-rt9a-bd4n``."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(GROUP_LENGTH)) for _ in range(GROUPS))


def is_monotonous(password: str) -> bool:
    """Whether it is one short thing again and again, or made of very few characters: `passwordpassword`, `aaaaaaaabbbb`."""
    text = password.lower()
    return len(set(text)) < FEWEST_CHARACTERS or text in (text + text)[1:-1]
