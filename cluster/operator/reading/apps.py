"""When something was last done in a session's applications, from what they answer.

Guarantees: use is a kernel that executes or its last activity, input into a terminal, and a file that was saved; never an open
connection or a poll. Where nobody in the pod tells of terminals, JupyterLab's own are believed to be used whenever they show
something (their `last_activity`), and every other application is unknown. What cannot be read is no answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, get_args

from pydantic import AwareDatetime, BaseModel, TypeAdapter, ValidationError

from gshare_core.contract import AppName, AppUse

# Without the parameter the question itself would be Jupyter's last activity.
KERNELS = "/lab/api/kernels?no_track_activity=1"
TERMINALS = "/lab/api/terminals?no_track_activity=1"
INSIDE = "/activity"


class _Kernel(BaseModel):
    execution_state: str
    last_activity: AwareDatetime


class _Terminal(BaseModel):
    last_activity: AwareDatetime


class _Inside(BaseModel):
    input_at: AwareDatetime | None
    edited_at: AwareDatetime | None
    kernels: list[_Kernel] | None = None


@dataclass(frozen=True, slots=True)
class Kernels:
    """Jupyter's kernels: whether one executes, and the last activity of any."""

    busy: bool
    last_activity_at: datetime | None


@dataclass(frozen=True, slots=True)
class Inside:
    """What the pod's own reporter sees: input into any of its terminals, files that VS Code saved, and what Jupyter tells it of
    its kernels (None: nothing, or the image's reporter is an earlier one)."""

    input_at: datetime | None
    edited_at: datetime | None
    kernels: Kernels | None = None


_Read = TypeVar("_Read")
_KERNELS = TypeAdapter(list[_Kernel])
_TERMINALS = TypeAdapter(list[_Terminal])
_INSIDE = TypeAdapter(_Inside)


def read_kernels(answer: bytes | None) -> Kernels | None:
    """The answer to `KERNELS`."""
    return _kernels(_read(_KERNELS, answer))


def _kernels(found: list[_Kernel] | None) -> Kernels | None:
    if found is None:
        return None
    busy = any(kernel.execution_state == "busy" for kernel in found)
    return Kernels(busy, max((kernel.last_activity for kernel in found), default=None))


def read_terminals(answer: bytes | None) -> datetime | None:
    """The latest that the answer to `TERMINALS` says; None where there is no terminal."""
    return max((terminal.last_activity for terminal in _read(_TERMINALS, answer) or ()), default=None)


def read_inside(answer: bytes | None) -> Inside | None:
    """The answer to `INSIDE`."""
    found = _read(_INSIDE, answer)
    return None if found is None else Inside(found.input_at, found.edited_at, _kernels(found.kernels))


def _read(kind: TypeAdapter[_Read], answer: bytes | None) -> _Read | None:
    if answer is None:
        return None
    try:
        return kind.validate_json(answer)
    except ValidationError:
        return None


def app_uses(
    apps: Collection[str], kernels: Kernels | None, terminals: datetime | None, inside: Inside | None
) -> tuple[AppUse, ...]:
    """A row of each application. Who typed where is not known: it counts for the terminal where there is one."""
    served = [app for app in get_args(AppName) if app in apps]
    typed_in = next((app for app in ("terminal", "lab", "code") if app in served), "")
    rows = []
    for app in served:
        moments = [inside.input_at if inside and app == typed_in else None]
        row: dict[str, Any] = {"app": app, "known": inside is not None}
        if app == "lab":
            row |= {"known": kernels is not None, "busy": kernels is not None and kernels.busy}
            moments += [kernels.last_activity_at if kernels else None, None if inside else terminals]
        elif app == "code":
            moments.append(inside.edited_at if inside else None)
        rows.append(AppUse(**row, last_activity_at=max((at for at in moments if at is not None), default=None)))
    return tuple(rows)
