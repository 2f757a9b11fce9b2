"""What an ask means before anything is locked: catalogue rows, shape, price, lane, and whether it can ever fit.

Guarantees: nothing here touches what admission must hold still; what one walk or page reads again and again is read once
(`Sight`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from django.conf import settings

from accounts import queries as accounts
from accounts.domain.policies import Effective, Limit
from accounts.domain.rights import Standing
from billing import queries as billing_queries
from billing.domain import pricing
from catalog import queries as catalog
from cluster import queries as cluster_queries
from cluster import services as cluster
from cluster.domain.placement import NoPlace, Request
from cluster.domain.shapes import EXCLUSIVE, TIERS, Host, Shape, custom_shape, tier_shape
from gshare_core.errors import invalid
from gshare_core.verdicts import Gate, Verdict, refused
from sessions_app.domain.facts import (
    Ask,
    ImageFact,
    MountAsk,
    MountFact,
    OfferingFact,
    Requester,
)
from sessions_app.domain.lifecycle import State
from sessions_app.models import Session
from sessions_app.requesters import Who
from sessions_app.spec import shared_pool_open

CPU_TIER = "cpu"
T = TypeVar("T")
Policy = tuple[Sequence[Limit], Mapping[str, Effective]]
"""Limits and rights of somebody in a group."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an ask means before anything is locked: catalogue rows, shape, price, lane, and whether it can ever fit."""

    ask: Ask
    offering: OfferingFact | None
    preset_found: bool
    tier: str
    image: ImageFact | None
    cluster_found: bool
    shape: Shape | None
    refusal: Verdict | None
    price: pricing.Price | None
    hold: int
    lane: str | None
    request: Request | None
    only_shared: bool = False
    policy: Policy = ((), MappingProxyType({}))
    after_the_wait: bool = False  # whether it was read when the locks were held already

    @property
    def needs_card(self) -> bool:
        """Whether it is for a GPU."""
        return self.shape is not None and self.shape.mode != CPU_TIER


class Sight:
    """What one walk along the line has read of catalogue, pools and limits already, so that it is read once for all.

    Good for as long as nothing of it has to be held still: `fresh` says when it is too old to go by.
    """

    _LONGEST = timedelta(seconds=2)

    def __init__(self, at: datetime) -> None:
        self._at = at
        self._known: dict[tuple[Hashable, ...], Any] = {}

    def fresh(self, at: datetime) -> bool:
        """Whether it may still be gone by."""
        return timedelta(0) <= at - self._at < self._LONGEST

    def once(self, key: tuple[Hashable, ...], read: Callable[[], T]) -> T:
        """What was read under this key, read now if it was not."""
        if key not in self._known:
            self._known[key] = read()
        found: T = self._known[key]
        return found

    wallet: billing_queries.WalletRow | None = None
    """The wallet of whom it is about, where it has been read already."""
    standing: Standing | None = None
    """His roles, the same."""
    volumes: Mapping[UUID, cluster_queries.MountFact] | None = None
    """All volumes that he may mount, the same."""

    def his(self, key: tuple[Hashable, ...], read: Callable[[], T]) -> T:
        """The same for what is one person's, his limits, use and money: read anew each time."""
        return read()

    def know(self, found: Mapping[tuple[Hashable, ...], Any]) -> None:
        """Take in what has been read already."""
        self._known |= found

    def know_catalogue(self, shelf: catalog.Shelf) -> None:
        """Take in what is offered to everybody whom it is about."""
        self.know({("offering", row.id): offering_fact(row, shelf.rates.get(row.id)) for row in shelf.offerings})
        self.know({("preset", row.id): row for row in shelf.presets})
        self.know({("image", row.id): row for row in shelf.images})


def read_plan(
    ask: Ask,
    person: Who,
    *,
    at: datetime,
    session: Session | None = None,
    sight: Sight | None = None,
    policy: Policy | None = None,
) -> Plan:
    """Everything about an ask that needs no lock. A session that exists keeps its shape; limits may be known already.

    Raises DomainError("invalid") for numbers that mean nothing.
    """
    sight = sight or Sight(at)
    offering = sight.once(("offering", ask.offering), lambda: _offering(ask.offering, at))
    image = _image(ask.image, person, sight)
    preset = sight.once(("preset", ask.preset), lambda: catalog.preset(ask.preset) if ask.preset else None)
    tier = session.tier if session is not None else (preset.tier if preset else "")
    shape: Shape | Verdict | None
    shape = shape_of(session) if session is not None else _shape(ask, preset, offering)
    refusal = shape if isinstance(shape, Verdict) else None
    plan = Plan(
        ask=ask,
        offering=offering,
        preset_found=ask.preset is None or preset is not None,
        tier=tier,
        image=image,
        cluster_found=ask.cluster is None or cluster_queries.cluster_exists(ask.cluster),
        shape=None if isinstance(shape, Verdict) else shape,
        refusal=refusal,
        price=None,
        hold=0,
        lane=None,
        request=None,
    )
    return _with_place(_with_price(plan), person, sight, policy)


def _with_price(plan: Plan) -> Plan:
    if not plan.needs_card or plan.offering is None or plan.offering.rate_micro_per_hour is None:
        return plan
    assert plan.shape is not None
    factor = plan.offering.preemptible_factor_milli if plan.ask.preemptible else 1000
    price = pricing.Price(plan.offering.rate_micro_per_hour, plan.shape.occupancy, factor)
    return replace(plan, price=price, hold=pricing.hold_micro(price, settings.GSHARE.hold_window))


def _with_place(plan: Plan, person: Who, sight: Sight, policy: Policy | None) -> Plan:
    """The lane, the request to the fleet, and the refusal of what no card could ever hold."""
    if plan.shape is None or person.requester is None:
        return plan
    cluster_id = _cluster_of(plan.ask, person, sight)
    policy = policy or policy_of(person.user.pk, person.requester, sight)
    known_pools = sight.once(("pools",), cluster_queries.known_pools)

    def ask_of_pools(*, shared: bool) -> tuple[Request, str]:
        assert person.requester is not None
        pools = known_pools.eligible(
            group_id=person.requester.group,
            organisation_id=person.requester.organisation,
            shared=shared,
            cluster_id=cluster_id,
        )
        return _request(plan, pools), pools.lane_key

    shared = shared_pool_open(policy[1])
    request, lane_key = ask_of_pools(shared=shared)
    refusal = plan.refusal
    found = sight.once(("look", request.ask), lambda: cluster.look(request))
    if isinstance(found, NoPlace) and found.kind == "never" and refusal is None:
        refusal = _never(found)
    only_shared = not shared and _is_outside(found) and not _is_outside(cluster.look(ask_of_pools(shared=True)[0]))
    lane = f"{plan.ask.offering}|{lane_key}" if plan.needs_card else None
    return replace(plan, request=request, lane=lane, refusal=refusal, only_shared=only_shared, policy=policy)


def policy_of(user_id: UUID, requester: Requester, sight: Sight) -> Policy:
    """Limits and rights of somebody in a group."""
    return sight.his(
        ("policy", user_id, requester.group),
        lambda: accounts.limits_and_effective(user_id, requester.group, organisation_id=requester.organisation),
    )


def _request(plan: Plan, pools: cluster_queries.EligiblePools) -> Request:
    assert plan.shape is not None
    models = (plan.offering.model,) if plan.offering else None
    return Request.for_shape(plan.shape, models=models, pools=pools.pool_ids)


def _is_outside(found: object) -> bool:
    """Whether only nodes outside the pools that were asked for could hold it."""
    return isinstance(found, NoPlace) and "pool" in (found.short or {})


def _cluster_of(ask: Ask, person: Who, sight: Sight) -> UUID | None:
    """The cluster that a session must be on: the one asked for, or the one of its volumes."""
    if ask.cluster is not None or not ask.mounts:
        return ask.cluster
    return next((mount.cluster for mount in known_mounts(ask.mounts, person, sight) if mount.found), None)


def _never(found: NoPlace) -> Verdict:
    largest = dict(found.largest or {})
    remedy = "Take a smaller size."
    if largest:
        remedy = (
            "The largest that would fit: " + ", ".join(f"{name} {amount}" for name, amount in largest.items()) + "."
        )
    return refused(Gate.REFERENCES, "never_fits", found.detail, remedy, largest=largest)


def _offering(offering: UUID | None, at: datetime) -> OfferingFact | None:
    row = catalog.offering(offering) if offering else None
    return offering_fact(row, catalog.price_at(row.id, at)) if row is not None else None


def offering_fact(row: catalog.OfferingRow, rate: int | None) -> OfferingFact:
    """An offering with its price now."""
    return OfferingFact(
        id=row.id,
        name=row.name,
        model=row.model,
        vram_mib=row.vram_mib,
        min_cuda=row.min_cuda,
        tiers=tuple(row.tiers),
        yield_allowed=row.yield_allowed,
        preemptible_factor_milli=row.preemptible_factor_milli,
        rate_micro_per_hour=rate,
    )


def _image(image: UUID, person: Who, sight: Sight) -> ImageFact | None:
    row = sight.once(("image", image), lambda: catalog.public_image(image)) or catalog.image_for(
        image, user=person.user
    )
    return ImageFact(row.id, row.name, row.cuda, tuple(row.apps)) if row else None


def image_row(image: UUID, sight: Sight) -> catalog.ImageRow | None:
    """The image that a plan was made for, with what its sessions are told of it."""
    return sight.once(("image", image), lambda: catalog.public_image(image)) or sight.once(
        ("image row", image), lambda: catalog.image(image)
    )


def _shape(ask: Ask, preset: catalog.PresetRow | None, offering: OfferingFact | None) -> Shape | Verdict | None:
    if ask.custom is not None:
        custom = ask.custom
        host = Host(custom.cpu_milli, custom.memory_mib, custom.scratch_gib)
        return custom_shape(
            vram_mib=custom.vram_mib,
            core_percent=custom.core_percent,
            cards=custom.cards,
            offering_vram_mib=offering.vram_mib if offering else None,
            host=host,
        )
    if preset is None:
        return None
    host = Host(preset.cpu_milli, preset.memory_mib, preset.scratch_gib)
    if preset.tier == CPU_TIER:
        if ask.offering is not None:
            raise invalid("offering", "A size without a GPU takes none.", remedy="Leave the GPU out.")
        return tier_shape(None, offering_vram_mib=0, host=host)
    if ask.offering is None:
        raise invalid("offering", "This size needs a GPU.", remedy="Choose a GPU, or the size without one.")
    if offering is None:
        return None
    if preset.tier not in offering.tiers:
        detail = f"{offering.name} is not offered in size {preset.tier}."
        tiers = _smallest_first(offering.tiers)
        remedy = f"It is offered in: {', '.join(tiers)}."
        return refused(Gate.REFERENCES, "never_fits", detail, remedy, tiers=tiers)
    return tier_shape(preset.tier, offering_vram_mib=offering.vram_mib, host=host, cards=preset.cards)


def _smallest_first(tiers: Iterable[str]) -> list[str]:
    order = [*sorted(TIERS, key=lambda tier: TIERS[tier]), EXCLUSIVE]
    return sorted(tiers, key=order.index)


def shape_of(session: Session) -> Shape:
    """The shape that a session was admitted with."""
    return Shape(
        mode=session.mode,  # type: ignore[arg-type]  # -- the column's choices are the shape's modes
        cards=session.cards,
        vram_mib=session.vram_mib,
        core_milli=session.core_milli,
        core_percent=session.core_percent,
        occupancy=session.occupancy,
        cpu_milli=session.cpu_milli,
        memory_mib=session.memory_mib,
        scratch_gib=session.scratch_gib,
    )


def ask_of(session: Session) -> Ask:
    """What a session asked for at its create, to be judged again."""
    return Ask(
        name=session.name,
        group=session.group_id,
        image=session.image_id,
        offering=session.offering_id,
        preset=session.preset_id,
        cluster=session.cluster_id,
        mounts=tuple(MountAsk(UUID(m["volume"]), m["path"], m["mode"]) for m in session.mounts),
        priority=session.priority,
        preemptible=session.preemptible,
        privileged=session.privileged,
        pause_mode=session.pause_mode,  # type: ignore[arg-type]  # -- the column's choices are the ask's
        auto_resume=session.auto_resume,
    )


# Mounts --


def known_mounts(asks: tuple[MountAsk, ...], person: Who, sight: Sight) -> tuple[MountFact, ...]:
    group = person.requester.group if person.requester else None
    return sight.his(("mounts", group, asks), lambda: mounts_of(asks, person, lock=False, sight=sight))


def mounts_of(
    asks: tuple[MountAsk, ...], person: Who, *, lock: bool, sight: Sight | None = None
) -> tuple[MountFact, ...]:
    if not asks or person.requester is None:
        return ()
    found = sight.volumes if sight else None
    if found is None:
        rows = cluster_queries.mount_facts(
            user_id=person.user.pk,
            group_id=person.requester.group,
            mounts=[(ask.volume, ask.mode) for ask in asks],
            lock=lock,
            standing=sight.standing if sight else None,
        )
        found = {row.volume_id: row for row in rows}
    asked = [found[ask.volume] for ask in asks if ask.volume in found]
    holders = {row.held_by for row in asked if row.held_by is not None}
    ending = set(
        Session.objects.filter(pk__in=holders, state__in=(State.PAUSING, State.STOPPING)).values_list("pk", flat=True)
    )
    return tuple(_mount(ask, found.get(ask.volume), ending) for ask in asks)


def _mount(ask: MountAsk, row: cluster_queries.MountFact | None, ending: set[UUID]) -> MountFact:
    if row is None or not row.readable:
        return MountFact(ask, "", False, False, False, None, None, False)
    return MountFact(
        ask=ask,
        name=row.name,
        found=True,
        writable=row.writable,
        single_writer=row.single_writer,
        cluster=row.cluster_id,
        held_by=row.held_by,
        holder_stopping=row.held_by in ending,
    )


def shape_columns(shape: Shape) -> dict[str, Any]:
    """The columns of a session that say its shape; the occupancy is exact."""
    return {
        "mode": shape.mode,
        "cpu_milli": shape.cpu_milli,
        "memory_mib": shape.memory_mib,
        "scratch_gib": shape.scratch_gib,
        "cards": shape.cards,
        "vram_mib": shape.vram_mib,
        "core_milli": shape.core_milli,
        "core_percent": shape.core_percent,
        "occupancy_numerator": shape.occupancy.numerator,
        "occupancy_denominator": shape.occupancy.denominator,
    }
