"""What the gates judge: the request as asked, and everything that was true when it was judged, as frozen values.

Guarantees: no reference to a row survives in here; a verdict can be explained from its facts alone. Amounts are in
micro-credits, MiB, GiB, thousandths of a core and of a card; times are aware UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from cluster.domain.shapes import Shape
from gshare_core.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class MountAsk:
    """A volume at a path, read-only or read-write."""

    volume: UUID
    path: str
    mode: Literal["ro", "rw"]

    def as_json(self) -> dict[str, str]:
        """The form that a session keeps."""
        return {"volume": str(self.volume), "path": self.path, "mode": self.mode}


@dataclass(frozen=True, slots=True)
class CustomAsk:
    """A shape of one's own instead of a preset."""

    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    vram_mib: int
    core_percent: int
    cards: int


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody asks for: the body of create, checked for form only."""

    name: str
    group: UUID
    image: UUID
    offering: UUID | None = None
    preset: UUID | None = None
    custom: CustomAsk | None = None
    wallet: UUID | None = None
    cluster: UUID | None = None
    mounts: tuple[MountAsk, ...] = ()
    priority: int = 0
    preemptible: bool = False
    privileged: bool = False
    pause_mode: Literal["cold", "yield"] = "cold"
    auto_resume: bool = False


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks, in which group; `role` is None for somebody who is no member."""

    user: UUID
    active: bool
    group: UUID
    group_name: str
    organisation: UUID
    group_active: bool
    role: str | None


@dataclass(frozen=True, slots=True)
class OfferingFact:
    """A full-card model and what a card-hour of it costs now; `rate_micro_per_hour` None means it has no price."""

    id: UUID
    name: str
    model: str
    vram_mib: int
    min_cuda: str | None
    tiers: tuple[str, ...]
    yield_allowed: bool
    preemptible_factor_milli: int
    rate_micro_per_hour: int | None


@dataclass(frozen=True, slots=True)
class ImageFact:
    """An image that the requester may see; `cuda` None for images without CUDA."""

    id: UUID
    name: str
    cuda: str | None
    apps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MountFact:
    """What is known of one mount that was asked for. `found` covers "may see it at all"."""

    ask: MountAsk
    name: str
    found: bool
    writable: bool
    single_writer: bool
    cluster: UUID | None
    held_by: UUID | None
    holder_stopping: bool


@dataclass(frozen=True, slots=True)
class LimitFact:
    """One limit that binds: the scope that set it, what is used of it and what this request adds."""

    field: str
    limit: int
    scope: str
    used: int
    asked: int

    @property
    def holds(self) -> bool:
        """Whether the request stays within the limit."""
        return self.asked == 0 or self.used + self.asked <= self.limit

    def as_dict(self) -> dict[str, Any]:
        """The facts of `quota_exceeded`."""
        return {"field": self.field, "limit": self.limit, "used": self.used, "scope": self.scope, "asked": self.asked}


@dataclass(frozen=True, slots=True)
class RightFact:
    """A policy value that allows or bounds something for the requester, and the scope that set it."""

    value: int | None
    scope: str


@dataclass(frozen=True, slots=True)
class BudgetFact:
    """A budget that counts this requester: limit, spent and held in its current period."""

    id: UUID
    scope: str
    limit: int
    spent: int
    held: int
    mode: Literal["warn", "block"]


@dataclass(frozen=True, slots=True)
class MoneyFact:
    """Price of this request and what there is to pay it with. Hourly and hold are 0 for a session without a card."""

    hourly: int
    hold: int
    available: int
    wallet: UUID | None
    budgets: tuple[BudgetFact, ...]


@dataclass(frozen=True, slots=True)
class Rights:
    """What the requester's policy allows beside amounts."""

    privileged: RightFact
    preemptible: RightFact
    max_priority: RightFact
    shared_pool: RightFact
    max_runtime_min: RightFact = RightFact(None, "global")  # 0 and None: no end


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that gates 1 to 6 look at."""

    ask: Ask
    requester: Requester | None
    offering: OfferingFact | None
    preset_found: bool
    image: ImageFact | None
    cluster_found: bool
    shape: Shape | None
    shape_refusal: Verdict | None  # what no card could give, or gives never
    mounts: tuple[MountFact, ...]
    personal_wallet: UUID | None
    limits: tuple[LimitFact, ...]
    queue_limits: tuple[LimitFact, ...]
    rights: Rights
    money: MoneyFact | None
    now: datetime
    session: UUID | None = None  # its own row, at resume and dequeue
    only_shared: bool = False  # no pool that is open to the requester has such a node, the shared ones do

    @property
    def needs_card(self) -> bool:
        """Whether the request is for a GPU."""
        return self.shape is not None and self.shape.mode != "cpu"
