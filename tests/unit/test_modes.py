"""Which cards can be cut by MIG, and what comes next of a mode change, as a table."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cluster.domain.modes import Limits, Step, Told, can_mig, next_step
from gshare_core.contract import ModeChangePhase as Phase
from gshare_core.contract import mode_change_name, mode_change_of_name
from gshare_core.ids import uuid7

LIMITS = Limits(answer=timedelta(minutes=10), done=timedelta(minutes=60))


@pytest.mark.parametrize(
    "model",
    [
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA A100 80GB PCIe",
        "A30",
        "NVIDIA A30",
        "H100 80GB HBM3",
        "NVIDIA H100 PCIe",
        "NVIDIA H200 NVL",
        "NVIDIA H20",
        "NVIDIA GH200 480GB",
        "NVIDIA B200",
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    ],
)
def test_models_that_mig_can_cut(model: str) -> None:
    assert can_mig(model)


@pytest.mark.parametrize(
    "model",
    ["Tesla T4", "Tesla V100-SXM2-32GB", "NVIDIA A10", "NVIDIA A40", "NVIDIA L40S", "NVIDIA RTX A6000", "NVIDIA A2"],
)
def test_models_that_mig_cannot_cut(model: str) -> None:
    assert not can_mig(model)


def told(minutes: float = 1, **fields: bool) -> Told:
    known = {"is_failed": False, "has_begun": False, "calls_off": False, "confirmed": False} | fields
    return Told(waited=timedelta(minutes=minutes), **known)


@pytest.mark.parametrize(
    ("change", "phase", "is_known", "step"),
    [
        (told(), None, False, Step.TELL),
        (told(), None, True, Step.WAIT),
        (told(11), None, True, Step.WITHDRAW),
        (told(11), Phase.DRAINING, True, Step.WAIT),
        (told(61), Phase.DRAINING, True, Step.WITHDRAW),
        (told(calls_off=True), Phase.DRAINING, True, Step.WITHDRAW),
        (told(calls_off=True, has_begun=True), Phase.APPLYING, True, Step.WAIT),
        (told(has_begun=True), None, False, Step.TELL),
        (told(59, has_begun=True), Phase.APPLYING, True, Step.WAIT),
        (told(61, has_begun=True), Phase.APPLYING, True, Step.FAIL),
        (told(61, has_begun=True), Phase.DONE, True, Step.FAIL),
        (told(has_begun=True), Phase.FAILED, True, Step.FAIL),
        (told(), Phase.FAILED, True, Step.FAIL),
        (told(has_begun=True), Phase.DONE, True, Step.WAIT),
        (told(has_begun=True, confirmed=True), Phase.DONE, True, Step.FINISH),
        (told(has_begun=True, confirmed=True), Phase.VERIFYING, True, Step.WAIT),
        (told(99, is_failed=True, has_begun=True), Phase.APPLYING, True, Step.WAIT),
        (told(99, is_failed=True, has_begun=True), None, False, Step.WAIT),
        (told(99, is_failed=True, has_begun=True, confirmed=True), Phase.DONE, True, Step.FINISH),
    ],
)
def test_what_comes_next(change: Told, phase: Phase | None, is_known: bool, step: Step) -> None:
    assert next_step(change, phase, is_known=is_known, limits=LIMITS)[0] is step


def test_a_mode_changes_name_says_which_it_is() -> None:
    change = uuid7()
    assert mode_change_of_name(mode_change_name(change)) == change
    for other in ("", "m-", f"s-{change.hex}", f"m-{change}", f"m-{change.hex}0"):
        with pytest.raises(ValueError, match="not a mode change"):
            mode_change_of_name(other)
