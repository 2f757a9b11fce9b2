"""The catalogue's verbs: setting a price, offering and withdrawing rows, deleting what nothing uses, filling a catalogue.

Guarantees: a price is a new revision, positive, never a change of an old one; what is withdrawn is hidden from new requests at
the commit, and what lives goes on with it; seeding adds what is missing and never touches what an administrator has changed.
Refuses: who is no super administrator, rates that are not above zero, starts in the past, deleting what is offered or referred to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from django.db import IntegrityError, connection
from django.utils.translation import gettext as _

from accounts import audit
from accounts.domain.rights import EVERYTHING
from accounts.permissions import Act
from accounts.services.common import authorise
from accounts.standings import locked
from catalog import seeds
from catalog.models import Image, Offering, Preset, PriceRevision, reference_validator
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.ids import uuid7
from gshare_core.kit import clock, locks
from gshare_core.kit.idempotency import Once, Reply
from gshare_core.kit.uses import refuse_used, uses_of
from gshare_core.money import MAX_MICRO, format_credits

if TYPE_CHECKING:
    from accounts.models import User


PLANNED_MAX = timedelta(days=3_653)


def set_price(
    *,
    offering_id: UUID,
    rate_micro_per_hour: int,
    by: User | None,
    starts_at: datetime | None = None,
    replaces: UUID | None = None,
    once: Once | None = None,
) -> PriceRevision | Reply:
    """From `starts_at` (now, when left out) on, a card-hour costs this; running runs keep their price.

    A planned price gives way to another of the same moment only when `replaces` names it, so of two administrators who
    plan at once the second learns of the first. Raises DomainError `not_found`, `forbidden`, `invalid`, `conflict`.
    """
    if not 0 < rate_micro_per_hour <= MAX_MICRO:
        raise invalid("hourly_credits", _("A price must be above 0."), remedy=_("Send an amount such as 12.5."))
    with locks.ordered():
        authorise(locked(share=[by.pk if by else None]), by, Act.MANAGE_CATALOGUE, EVERYTHING)
        reply = once.claim() if once is not None else None
        if reply is not None:
            return reply
        offering = Offering.objects.select_for_update(no_key=True).filter(pk=offering_id).first()
        if offering is None:
            raise not_found("offering")
        at = clock.now()
        key = _place_of_price(offering, _start(starts_at, at), replaces)
        price = PriceRevision.objects.create(
            id=key, offering=offering, rate_micro_per_hour=rate_micro_per_hour, starts_at=starts_at or at
        )
        audit.record(
            by=by,
            act="catalogue.price",
            target_kind="offering",
            target_id=offering.pk,
            target_label=offering.name,
            after={"rate": format_credits(rate_micro_per_hour), "starts_at": price.starts_at.isoformat()},
            at=at,
        )
        if once is not None:
            once.keep(price)
        return price


def _start(starts_at: datetime | None, at: datetime) -> datetime:
    """From when a price shall count. Raises `invalid`."""
    if starts_at is None:
        return at
    if starts_at < at:
        raise invalid(
            "starts_at",
            _("A price cannot begin in the past."),
            remedy=_("Name a later moment, or leave it out: the price counts at once."),
        )
    if starts_at > at + PLANNED_MAX:
        raise invalid("starts_at", _("A price is planned ten years ahead at most."), remedy=_("Name a nearer moment."))
    return starts_at


def _place_of_price(offering: Offering, starts_at: datetime, replaces: UUID | None) -> UUID:
    """The id of a price that begins then, after that of the one it replaces, whatever clocks say. Raises `invalid`, `conflict`."""
    planned = offering.prices.filter(starts_at=starts_at).order_by("-pk").first()
    if planned is None:
        if replaces is not None:
            raise invalid(
                "replaces",
                _("This is no price that begins at that moment."),
                remedy=_("Send the id and the start of a planned price, or leave it out."),
            )
        return uuid7()
    if planned.pk != replaces:
        raise DomainError(
            "conflict",
            _("A price of %(rate)s credits an hour begins at that moment already.")
            % {"rate": format_credits(planned.rate_micro_per_hour)},
            remedy=_("Name another starts_at, or send its id as replaces."),
            facts={"price": str(planned.pk), "hourly_credits": format_credits(planned.rate_micro_per_hour)},
        )
    key = uuid7()
    return key if key > planned.pk else UUID(int=planned.pk.int + 1)


KINDS: Mapping[str, type[Offering] | type[Preset] | type[Image]] = {
    "offering": Offering,
    "preset": Preset,
    "image": Image,
}


def set_offered(*, kind: str, row_id: UUID, offered: bool, by: User | None) -> bool:
    """Offer a row of the catalogue to new requests, or withdraw it; answers whether that changed anything.

    What lives goes on; who waits for it, or wants to resume with it, is refused at gate 1. Raises `not_found`, `forbidden`.
    """
    with locks.ordered():
        row = _held(kind, row_id, by)
        if row.is_active == offered:
            return False
        row.is_active = offered
        row.save(update_fields=["is_active"])
        _record_row(by, "change", kind, row, {"is_active": str(offered)})
        return True


def delete_row(*, kind: str, row_id: UUID, by: User | None) -> None:
    """Delete a row that was withdrawn and that nothing refers to: what was used is history, and stays.

    The foreign keys have the last word: a create that commits at the same moment wins or finds nothing.
    Raises `not_found`, `forbidden`, `in_use` with counts.
    """
    with locks.ordered():
        row = _held(kind, row_id, by)
        if row.is_active:
            raise DomainError("in_use", _("It is offered."), remedy=_("Withdraw it first."))
        prices = row.prices.count() if isinstance(row, Offering) else 0
        refuse_used(
            uses_of(kind, row_id) | {"prices": prices},
            remedy=_("Leave it withdrawn: nobody can choose it, and what used it keeps its history."),
        )
        _record_row(by, "delete", kind, row, {})
        try:
            with locks.attempt():
                row.delete()
                with connection.cursor() as cursor:
                    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except IntegrityError as error:  # somebody began to use it, or something else refers to it
            raise DomainError("in_use", _("Something refers to it."), remedy=_("Leave it withdrawn.")) from error


def _held(kind: str, row_id: UUID, by: User | None) -> Offering | Preset | Image:
    """A row of the catalogue, locked, for who may manage it."""
    authorise(locked(share=[by.pk if by else None]), by, Act.MANAGE_CATALOGUE, EVERYTHING)
    row = KINDS[kind].objects.select_for_update(no_key=True).filter(pk=row_id).first()
    if row is None:
        raise not_found(kind)
    return row


def _record_row(by: User | None, act: str, kind: str, row: Offering | Preset | Image, after: dict[str, str]) -> None:
    audit.record(
        by=by,
        act=f"catalogue.{act}",
        target_kind=kind,
        target_id=row.pk,
        target_label=str(row),
        after=after,
        at=clock.now(),
    )


@dataclass(frozen=True, slots=True)
class Seeded:
    """How many rows were new."""

    offerings: int
    presets: int
    images: int


def seed(*, registry: str, digests: Mapping[str, str] | None = None) -> Seeded:
    """Fill the catalogue with real GPU models, sizes and images; what is there by name stays as it is.

    `digests` gives the digests of images that were really built, by repository name, and moves their references there.
    """
    offerings = sum(_seed_offering(seed) for seed in seeds.OFFERINGS)
    presets = sum(_seed_preset(seed, position) for position, seed in enumerate(seeds.PRESETS))
    images = sum(_seed_image(seed, position, registry, digests or {}) for position, seed in enumerate(seeds.IMAGES))
    return Seeded(offerings, presets, images)


def _seed_offering(wanted: seeds.OfferingSeed) -> bool:
    row, is_new = Offering.objects.get_or_create(
        model=wanted.model,
        defaults={
            "name": wanted.name,
            "vram_mib": wanted.vram_mib,
            "min_cuda": wanted.min_cuda,
            "tiers": [tier.value for tier in wanted.tiers],
            "yield_allowed": wanted.yield_allowed,
            "is_active": wanted.is_active,
        },
    )
    if not row.prices.exists():
        PriceRevision.objects.create(
            offering=row, rate_micro_per_hour=wanted.rate_micro_per_hour, starts_at=seeds.PRICES_FROM
        )
    return is_new


def _seed_preset(wanted: seeds.PresetSeed, position: int) -> bool:
    _row, is_new = Preset.objects.get_or_create(
        name=wanted.name,
        defaults={
            "tier": wanted.tier.value,
            "cards": wanted.cards,
            "cpu_milli": wanted.cpu_milli,
            "memory_mib": wanted.memory_mib,
            "scratch_gib": wanted.scratch_gib,
            "position": position,
        },
    )
    return is_new


def _seed_image(wanted: seeds.ImageSeed, position: int, registry: str, digests: Mapping[str, str]) -> bool:
    digest = digests.get(wanted.repository) or f"sha256:{hashlib.sha256(wanted.repository.encode()).hexdigest()}"
    reference = f"{registry}/{wanted.repository}@{digest}"
    reference_validator(reference)
    row, is_new = Image.objects.get_or_create(
        name=wanted.name,
        organisation=None,
        group=None,
        defaults={
            "reference": reference,
            "cuda": wanted.cuda,
            "apps": list(wanted.apps),
            "position": position,
        },
    )
    if wanted.repository in digests and row.reference != reference:
        Image.objects.filter(pk=row.pk).update(reference=reference)
    return is_new
