"""Which cards can be cut by MIG, and what comes next of a change of mode.

Guarantees: a change is applied only to cards that hold nothing; it is done only when the operator says so *and* an inventory of
after that word shows every card cut as wanted; what has not begun can be called off, and a deadline gives it up; what has
begun is followed to its end, however late. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from gshare_core.contract import ModeChangePhase

# NVIDIA's MIG user guide, supported GPUs; names as NVML says them. (HAMi keeps a list of its own, and its plugin does not
# start on a node with another card: then the change fails in its words.)
_CAPABLE = re.compile(
    r"\b(A(30|100)X?|A800|H(20|100|200|800)|GH200|GB200|GB300|B200|B300|RTX PRO (5000|6000) Blackwell)\b", re.IGNORECASE
)


def can_mig(model: str) -> bool:
    """Whether cards of this model can be cut by MIG."""
    return _CAPABLE.search(model) is not None


class Step(StrEnum):
    """What to do of a change that its cluster was, or may have been, told of."""

    WAIT = "wait"
    TELL = "tell"
    WITHDRAW = "withdraw"
    FAIL = "fail"
    FINISH = "finish"


@dataclass(frozen=True, slots=True)
class Told:
    """A change as the rows know it: for how long its phase has been what it is, our own deafness apart."""

    is_failed: bool
    has_begun: bool
    calls_off: bool
    waited: timedelta
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an operator may say nothing, and how long it may take."""

    answer: timedelta
    done: timedelta


def next_step(told: Told, phase: ModeChangePhase | None, *, is_known: bool, limits: Limits) -> tuple[Step, str]:
    """What comes next, and why where it is an end. `phase` is what the operator says, `is_known` whether the cluster has it.

    What failed for a deadline is looked at on: an operator that was only late has the last word.
    """
    if phase is ModeChangePhase.DONE and told.confirmed:
        return Step.FINISH, ""
    if told.is_failed:
        return Step.WAIT, ""
    if phase is ModeChangePhase.FAILED:
        return Step.FAIL, ""
    late = told.waited > (limits.answer if phase is None else limits.done)
    if not told.has_begun and (told.calls_off or late):
        return Step.WITHDRAW, ""
    if late:
        unconfirmed = "the operator is done, but no inventory shows the cards so"
        return (
            Step.FAIL,
            unconfirmed if phase is ModeChangePhase.DONE else "the operator did not come to an end in time",
        )
    return (Step.WAIT if is_known else Step.TELL), ""
