"""Verdicts of the admission gates: never a boolean, always what, why and what would change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from gshare_core.errors import DomainError

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Gate(IntEnum):
    """The eight gates of admission, in the order in which they judge."""

    REFERENCES = 1
    MOUNTS = 2
    WALLET = 3
    POLICY = 4
    BUDGET = 5
    HOLD = 6
    RESERVATION = 7
    HANDOFF = 8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one gate said. `code` is None when it passed; `detail` is for people, `facts` for programs."""

    gate: Gate
    passed: bool
    detail: str
    code: str | None = None
    remedy: str | None = None
    facts: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)

    def as_error(self) -> DomainError:
        """The refusal as an exception. Raises ValueError when the gate passed."""
        if self.passed or self.code is None:
            raise ValueError(f"gate {self.gate} passed, there is nothing to refuse")
        return DomainError(self.code, self.detail, remedy=self.remedy, facts=self.facts, gate=int(self.gate))

    def as_dict(self) -> dict[str, Any]:
        """The form of the API's preview."""
        return {
            "gate": int(self.gate),
            "passed": self.passed,
            "code": self.code,
            "detail": self.detail,
            "remedy": self.remedy,
            "facts": dict(self.facts),
        }


def passed(gate: Gate, detail: str, **facts: Any) -> Verdict:
    """A passing verdict; kept too, so that the form can show why."""
    return Verdict(gate, True, detail, facts=facts)


def refused(gate: Gate, code: str, detail: str, remedy: str, **facts: Any) -> Verdict:
    """A refusing verdict."""
    return Verdict(gate, False, detail, code=code, remedy=remedy, facts=facts)
