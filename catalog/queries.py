"""What can be rented, as frozen values. Nothing here locks or changes anything.

Guarantees: only what is offered now is found; an image that somebody may not see answers like one that does not exist; a
price is the revision in force at a time, never a default.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet

from accounts.models import Membership, User
from catalog.models import Image, Offering, Preset, PriceRevision, Visibility


@dataclass(frozen=True, slots=True)
class OfferingRow:
    """A full-card GPU model; `preemptible_factor_milli` in thousandths of the price."""

    id: UUID
    name: str
    model: str
    vram_mib: int
    min_cuda: str | None
    tiers: tuple[str, ...]
    yield_allowed: bool
    preemptible_factor_milli: int


@dataclass(frozen=True, slots=True)
class PresetRow:
    """A size: host resources with a tier (`cpu`: no card), `cards` when it is exclusive."""

    id: UUID
    name: str
    tier: str
    cards: int
    cpu_milli: int
    memory_mib: int
    scratch_gib: int


@dataclass(frozen=True, slots=True)
class ImageRow:
    """An image by digest, the CUDA that it carries (None: none) and the apps that it serves."""

    id: UUID
    name: str
    reference: str
    cuda: str | None
    apps: tuple[str, ...]


def offering(offering_id: UUID) -> OfferingRow | None:
    """An offering that is offered; None otherwise."""
    row = Offering.objects.filter(pk=offering_id, is_active=True).first()
    return _offering(row) if row else None


def active_offerings() -> list[OfferingRow]:
    """All that is offered, by name."""
    return [_offering(row) for row in Offering.objects.filter(is_active=True).order_by("name", "pk")]


def preset(preset_id: UUID) -> PresetRow | None:
    """A size that is offered; None otherwise."""
    row = Preset.objects.filter(pk=preset_id, is_active=True).first()
    return _preset(row) if row else None


def active_presets() -> list[PresetRow]:
    """All sizes, in their order."""
    return [_preset(row) for row in Preset.objects.filter(is_active=True).order_by("position", "name")]


def image_for(image_id: UUID, *, user: User) -> ImageRow | None:
    """An image that the user may see; None otherwise."""
    row = visible_images(user).filter(pk=image_id).first()
    return _image(row) if row else None


def images_of(user: User) -> list[ImageRow]:
    """The images that the user may see, in their order."""
    return [_image(row) for row in visible_images(user).order_by("position", "name", "pk")]


def visible_images(user: User) -> QuerySet[Image]:
    """Public ones, those of his groups and of his organisations; all for a super administrator."""
    rows = Image.objects.filter(is_active=True)
    if user.is_super_admin:
        return rows
    seats = Membership.objects.filter(user=user)
    groups = list(seats.filter(group__isnull=False).values_list("group_id", "group__organisation_id"))
    organisations = {organisation for _group, organisation in groups}
    organisations |= set(seats.filter(organisation__isnull=False).values_list("organisation_id", flat=True))
    if user.organisation_id is not None:
        organisations.add(user.organisation_id)
    return rows.filter(
        Q(visibility=Visibility.PUBLIC)
        | Q(visibility=Visibility.GROUP, group__in=[group for group, _organisation in groups])
        | Q(visibility=Visibility.ORGANISATION, organisation__in=organisations)
    )


def price_at(offering_id: UUID, at: datetime) -> int | None:
    """Micro-credits of a card-hour at a time; None when no price had started: nothing can be launched then."""
    return prices_at([offering_id], at).get(offering_id)


def prices_at(offering_ids: Iterable[UUID], at: datetime) -> dict[UUID, int]:
    """The same for several, in one statement."""
    rows = PriceRevision.objects.filter(offering__in=list(offering_ids), starts_at__lte=at)
    newest = rows.order_by("offering_id", "-starts_at", "-id").distinct("offering_id")
    return dict(newest.values_list("offering_id", "rate_micro_per_hour"))


def _offering(row: Offering) -> OfferingRow:
    return OfferingRow(
        row.pk,
        row.name,
        row.model,
        row.vram_mib,
        row.min_cuda,
        tuple(row.tiers),
        row.yield_allowed,
        row.preemptible_factor_milli,
    )


def _preset(row: Preset) -> PresetRow:
    return PresetRow(row.pk, row.name, row.tier, row.cards, row.cpu_milli, row.memory_mib, row.scratch_gib)


def _image(row: Image) -> ImageRow:
    return ImageRow(row.pk, row.name, row.reference, row.cuda, tuple(row.apps))
