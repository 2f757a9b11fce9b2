"""One written form per e-mail address, so that "the same address" is plain equality.

Guarantees: the result is lower-case ASCII (the domain in its IDNA form). Refuses what cannot be brought there: letters
outside ASCII before the @ look like others (the Kelvin sign is a K to a case-insensitive comparison).
"""

from __future__ import annotations


def normalise_email(text: str) -> str:
    """The address in its stored form; text that cannot be one comes back as it is, only trimmed and in lower case."""
    local, at, domain = text.strip().rpartition("@")
    try:
        ascii_domain = domain.encode("idna").decode("ascii")
    except UnicodeError:
        ascii_domain = domain
    return f"{local}{at}{ascii_domain}".lower()


def is_plain(email: str) -> bool:
    """Is a normalised address free of letters that only look like others?"""
    return email.isascii()
