"""Answers that put several applications together for one person: who he is, what he can rent, what limits him."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from accounts import queries as accounts
from accounts.domain.policies import Kind, Limit
from billing import queries as billing
from billing.domain import pricing
from catalog import queries as catalog
from cluster import fleets
from cluster.domain.availability import free_now
from cluster.domain.shapes import Host, Shape, tier_shape
from cluster.queries import known_pools, used_storages
from gshare_core.errors import DomainError, not_found
from gshare_core.kit import clock
from gshare_core.money import format_credits
from sessions_app import counters, queries
from sessions_app.spec import shared_pool_open

if TYPE_CHECKING:
    from accounts.models import User

CPU_TIER = "cpu"
STORAGE = "storage_gib"


@dataclass(frozen=True, slots=True)
class TierOffer:
    """One tier of an offering: its limits, what an hour costs, how many would start now."""

    tier: str
    cards: int
    shape: Shape
    hourly: int
    free_now: int


@dataclass(frozen=True, slots=True)
class Offer:
    """An offering with its tiers and its line."""

    row: catalog.OfferingRow
    rate: int | None
    tiers: tuple[TierOffer, ...]
    queue_length: int


def offers(
    pools: Collection[UUID], shelf: catalog.Shelf | None = None, lengths: Mapping[UUID, int] | None = None
) -> list[Offer]:
    """Every active offering with what is free of it in these pools; three statements, fewer for who has read shelf or lines."""
    shelf = catalog.shelf(clock.now()) if shelf is None else shelf
    lengths = queries.queue_lengths() if lengths is None else lengths
    nodes = fleets.snapshot()
    found = []
    for row in shelf.offerings:
        rate = shelf.rates.get(row.id)
        tiers = (_tier_offer(row, rate, preset, nodes, pools) for preset in shelf.presets)
        found.append(Offer(row, rate, tuple(tier for tier in tiers if tier), lengths.get(row.id, 0)))
    return found


def usable_pools(user: User) -> frozenset[UUID]:
    """The pools that somebody's groups may use, whichever of them he works in. Four statements."""
    seats = [(seat.group_id, seat.organisation_id) for seat in accounts.seats_of(user) if seat.active and seat.group_id]
    policies = accounts.effective_of((user.pk, group) for group, _organisation in seats)
    known = known_pools()
    found: set[UUID] = set()
    for group, organisation in seats:
        shared = shared_pool_open(policies[user.pk, group])
        found.update(known.eligible(group_id=group, organisation_id=organisation, shared=shared).pool_ids)
    return frozenset(found)


def _tier_offer(
    row: catalog.OfferingRow, rate: int | None, preset: catalog.PresetRow, nodes: Any, pools: Collection[UUID]
) -> TierOffer | None:
    if preset.tier == CPU_TIER or preset.tier not in row.tiers:
        return None
    host = Host(preset.cpu_milli, preset.memory_mib, preset.scratch_gib)
    shape = tier_shape(preset.tier, offering_vram_mib=row.vram_mib, host=host, cards=preset.cards)
    if not isinstance(shape, Shape):
        return None
    hourly = pricing.hourly_micro(pricing.Price(rate, shape.occupancy)) if rate else 0
    room = free_now(nodes, model=row.model, shape=shape, pools=pools)
    return TierOffer(preset.tier, preset.cards, shape, hourly, room)


def offerings(user: User) -> list[dict[str, Any]]:
    """The API's `/offerings`. Every signed-in person sees all active ones, guests too; free is what his groups may use."""
    return [
        {
            "id": str(offer.row.id),
            "name": offer.row.name,
            "model": offer.row.model,
            "vram_mib": offer.row.vram_mib,
            "min_cuda": offer.row.min_cuda,
            "yield_allowed": offer.row.yield_allowed,
            "hourly_credits": format_credits(offer.rate) if offer.rate else None,
            "tiers": {
                _tier_name(tier): {
                    "vram_mib": tier.shape.vram_mib,
                    "core_percent": tier.shape.core_percent,
                    "cards": tier.shape.cards,
                    "hourly_credits": format_credits(tier.hourly),
                    "free_now": tier.free_now,
                    "queue_length": offer.queue_length,
                }
                for tier in offer.tiers
            },
        }
        for offer in offers(usable_pools(user))
    ]


def _tier_name(tier: TierOffer) -> str:
    return tier.tier if tier.tier != "exclusive" or tier.cards == 1 else f"{tier.tier}-{tier.cards}"


def me(user: User) -> dict[str, Any]:
    """The API's `/me`."""
    return {
        "user": {"id": str(user.pk), "email": user.email, "name": user.name, "language": user.language},
        "organisation": str(user.organisation_id) if user.organisation_id else None,
        "groups": [
            {"id": str(seat.group_id), "name": seat.group_name, "role": seat.role} for seat in accounts.seats_of(user)
        ],
        "super_admin": user.is_super_admin,
        "wallet": billing.wallet_document(user.pk),
        "must_change_password": user.must_change_password,
    }


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A number in force, the scope that set it, and what is used and left of it; None where nothing adds up.

    What is left of a person's own number is what every bound leaves, totals of group and organisation too.
    """

    field: str
    value: int | None
    scope: str | None
    used: int | None
    remaining: int | None


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """A person's numbers, one for every field, and the totals that bind him with everybody else."""

    fields: tuple[LimitUse, ...]
    totals: tuple[LimitUse, ...]

    @property
    def shared_pool(self) -> bool:
        """Whether the shared pools are open to him; unset they are."""
        return all(limit.value is None or limit.value > 0 for limit in self.fields if limit.field == "shared_pool")


def limits_in_force(user_id: UUID, group_id: UUID | None, organisation_id: UUID | None = None) -> LimitsInForce:
    """What binds a person in a group, with the use that it is held against; without a group: in his home organisation.

    A statement less for who knows the group's organisation.
    """
    bounds, effective = accounts.limits_and_effective(user_id, group_id, organisation_id=organisation_id)
    everything = f"user:{user_id}"  # what a field that nobody bounds is counted in
    used = dict(counters.read(tuple({everything, *(bound.usage_scope for bound in bounds)})))
    # Storage is counted where the volumes are; a personal volume belongs to no group, and so counts for the person alone.
    counted_in = {
        bound.usage_scope: everything if bound.kind is Kind.PER_USER else bound.usage_scope
        for bound in bounds
        if bound.field == STORAGE
    }
    stored = used_storages(counted_in.values())
    used |= {(scope, STORAGE): stored[counted] for scope, counted in counted_in.items()}
    left: dict[str, int] = {}
    for bound in bounds:
        rest = max(0, bound.limit - used.get((bound.usage_scope, bound.field), 0))
        left[bound.field] = min(left.get(bound.field, rest), rest)
    against = {bound.field: bound.usage_scope for bound in bounds if bound.kind is Kind.PER_USER}
    fields = (
        LimitUse(
            field,
            value.value,
            value.scope,
            used.get((against.get(field, everything), field), 0) if accounts.FIELDS[field].counted else None,
            left.get(field),
        )
        for field, value in effective.items()
    )
    return LimitsInForce(tuple(fields), tuple(_total(bound, used) for bound in bounds if bound.kind is Kind.TOTAL))


def _total(bound: Limit, used: Mapping[tuple[str, str], int]) -> LimitUse:
    use = used.get((bound.usage_scope, bound.field), 0)
    return LimitUse(bound.field, bound.limit, bound.scope, use, max(0, bound.limit - use))


def effective_policy(by: User, parameters: Any) -> dict[str, Any]:
    """The API's `/policies/effective?user=&group=`. Raises DomainError `invalid`, `not_found`."""
    group = _uuid(parameters, "group") if parameters.get("group") else None
    user = _uuid(parameters, "user") if parameters.get("user") else by.pk
    if not accounts.may_see_limits(by, user_id=user, group_id=group):
        raise not_found("policy")
    found = limits_in_force(user, group)
    return {
        "fields": {limit.field: _document(limit) for limit in found.fields},
        "totals": [{"field": total.field} | _document(total) for total in found.totals],
    }


def _document(limit: LimitUse) -> dict[str, Any]:
    return {"value": limit.value, "scope": limit.scope, "used": limit.used, "remaining": limit.remaining}


def _uuid(parameters: Any, name: str) -> UUID:
    try:
        return UUID(parameters.get(name, ""))
    except ValueError as error:
        raise DomainError(
            "invalid", f"{name}: give an id.", errors={name: ["Give an id."]}, remedy=f"Add ?{name}=<id>."
        ) from error
