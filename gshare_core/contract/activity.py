"""What a run does, measured where it runs: CPU, GPU, and what people and kernels last did in its applications.

Every figure is what a source says, unjudged; `sessions_app.domain.idle` drops what cannot be and judges the rest. Times
are on the sender's clock, counters are cumulative over the run, so that a lost sample costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated
from uuid import UUID

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from gshare_core.contract.wire import AppName, BadRow, Document, Moment, Natural, Positive, read_rows


class GpuSource(StrEnum):
    """Who measured the GPU.

    `hami`: HAMi's monitor, the pod's own slice. `mig`: DCGM's GR_ENGINE_ACTIVE of (UUID, instance). `dcgm`: DCGM's figure of
    the card, for whole cards without monitor series and for borrowers. `nvml`: NVML's figures of the run's own processes.
    `declared`: a file in a local operator's folder.
    """

    HAMI = "hami"
    MIG = "mig"
    DCGM = "dcgm"
    NVML = "nvml"
    DECLARED = "declared"


def _none_if_implausible(value: object, read: ValidatorFunctionWrapHandler) -> object:
    """A stamp that is no time (or says 1970 for never) costs itself only, not the sample."""
    try:
        return read(value)
    except ValidationError:
        return None


Stamp = Annotated[Moment | None, WrapValidator(_none_if_implausible)]
Figure = Annotated[float, Field(allow_inf_nan=False)]


class GpuUse(Document):
    """The run's own slice. `healthy`: its node's monitor answers. `present`: there is a series of this run."""

    source: GpuSource
    healthy: bool
    present: bool = False
    last_kernel_at: Stamp = None
    use_percent: Figure | None = None
    vram_mib: Figure | None = None


class AppUse(Document):
    """One application: `known` (it could be asked), `busy` (it executes something), and when it was last used.

    Use is a kernel that executes, a kernel's last activity, or input in a terminal; never an open connection or a poll.
    """

    app: AppName
    known: bool = True
    busy: bool = False
    last_activity_at: Stamp = None


class Activity(Document):
    """One sample of one run. `cpu_usec`: CPU time of all its processes since it began.

    `cpu_epoch`: the counter began later than the run; readings of one epoch belong together, another one began anew, and
    nobody knows what was used between.
    """

    at: Moment
    cpu_usec: int | None = None
    cpu_epoch: Natural | None = None
    memory_bytes: int | None = None
    gpu: GpuUse | None = None
    apps: tuple[AppUse, ...] = ()


class UsageRow(Document):
    """A row of `POST /internal/v1/agent/samples`: what a node's agent counted of one run since it began."""

    session: UUID
    run: Positive
    at: Moment
    cpu_usec: Natural
    memory_bytes: Natural | None = None

    @classmethod
    def read(cls, payload: object) -> tuple[tuple[UsageRow, ...], tuple[BadRow, ...]]:
        """The rows of a batch, and those that could not be read. Raises ValueError when it is no list."""
        if not isinstance(payload, list):
            raise ValueError("the samples must be a list")  # noqa: TRY004 (bad input, whatever its type)
        return read_rows(cls, payload, "samples")

    @staticmethod
    def newest(rows: Iterable[UsageRow]) -> dict[tuple[UUID, int], UsageRow]:
        """The last of each run: counters are cumulative, so those before it cost nothing."""
        found: dict[tuple[UUID, int], UsageRow] = {}
        for row in rows:
            known = found.get((row.session, row.run))
            if known is None or row.at > known.at:
                found[row.session, row.run] = row
        return found
