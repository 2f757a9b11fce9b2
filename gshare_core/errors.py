"""Refusals with a code. What a caller did wrong, or cannot have now, is a `DomainError`; a broken invariant is not.

The table of codes and HTTP statuses is the contract of the API; codes that are not in it cannot be raised.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATUS_OF_CODE: Mapping[str, int] = {
    "invalid": 400,
    "idempotency_key_required": 400,
    "reason_required": 400,
    "unauthenticated": 401,
    "insufficient_credit": 402,
    "forbidden": 403,
    "password_change_required": 403,
    "mount_forbidden": 403,
    "wallet_forbidden": 403,
    "csrf_failed": 403,
    "not_found": 404,
    "quota_exceeded": 409,
    "budget_exceeded": 409,
    "mount_conflict": 409,
    "no_capacity": 409,
    "invalid_transition": 409,
    "conflict": 409,
    "in_use": 409,
    "insufficient_pool": 409,
    "grant_exceeds_parent": 409,
    "already_decided": 409,
    "image_incompatible": 422,
    "never_fits": 422,
    "asymmetric_shape": 422,
    "mount_path_invalid": 422,
    "yield_impossible": 422,
    "idempotency_mismatch": 422,
    "throttled": 429,
    "not_implemented": 501,
    "unavailable": 503,
}


class DomainError(Exception):
    """An expected refusal: what (`code`), why (`detail`), what would change it (`remedy`).

    `errors` maps a field's name to its messages, `facts` carries numbers for programs, `gate` is 1–8 when admission
    refused. Raises ValueError when the code is not one of the contract's.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        remedy: str | None = None,
        errors: Mapping[str, list[str]] | None = None,
        facts: Mapping[str, Any] | None = None,
        gate: int | None = None,
    ) -> None:
        if code not in STATUS_OF_CODE:
            raise ValueError(f"unknown error code {code!r}")
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.remedy = remedy
        self.errors = dict(errors or {})
        self.facts = dict(facts or {})
        self.gate = gate

    @property
    def status(self) -> int:
        """The HTTP status that carries this refusal."""
        return STATUS_OF_CODE[self.code]


def not_found(what: str) -> DomainError:
    """What does not exist and what is not yours look the same."""
    return DomainError("not_found", f"There is no such {what}.", remedy="Check the address, or ask who owns it.")


def invalid(field: str, message: str, *, remedy: str | None = None) -> DomainError:
    """One field's value is not acceptable."""
    return DomainError("invalid", f"{field}: {message}", errors={field: [message]}, remedy=remedy)
