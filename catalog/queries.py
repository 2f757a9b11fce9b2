"""Nouns about what can be rented, as frozen rows. Nothing here locks or changes anything.

Guarantees: the singular questions answer only what is offered now (`None` for what does not exist, is switched off or is
not visible to the asker: they look the same); a price is never 0, and an offering without one has no price at all.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery

from accounts.permissions import visible_groups, visible_organisations
from catalog.models import Image, Offering, Preset, PriceRevision
from gshare_core.kit.rows import Prepared, prepared, sample

if TYPE_CHECKING:
    from accounts.models import User


@dataclass(frozen=True, slots=True)
class OfferingRow:
    """A full-card GPU model. `min_cuda` None: any. `preemptible_factor_milli` in thousandths of the price."""

    id: UUID
    name: str
    model: str
    vram_mib: int
    min_cuda: str | None
    tiers: tuple[str, ...]
    yield_allowed: bool
    preemptible_factor_milli: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class PresetRow:
    """A size. `tier` is one of XL, L, M, S, exclusive, cpu; `cards` is 0 unless exclusive."""

    id: UUID
    name: str
    tier: str
    cards: int
    cpu_milli: int
    memory_mib: int
    scratch_gib: int
    position: int
    is_active: bool


@dataclass(frozen=True, slots=True)
class ImageRow:
    """A session image. `cuda` None: without CUDA."""

    id: UUID
    name: str
    reference: str
    cuda: str | None
    apps: tuple[str, ...]
    visibility: str
    organisation_id: UUID | None
    group_id: UUID | None
    is_active: bool


# Offerings and prices ------------------------------------------------------------------------------------------------


def offering(offering_id: UUID) -> OfferingRow | None:
    """The offering, if it is offered."""
    row = _OFFERING.first(offering_id)
    return offering_row(row) if row else None


_OFFERING = Prepared(lambda offering: Offering.objects.filter(pk=offering, is_active=True), sample(1))


def offering_names(offering_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The names of offerings, whether offered now or not. One statement."""
    return dict(Offering.objects.filter(pk__in=list(offering_ids)).values_list("pk", "name"))


def active_offerings() -> list[OfferingRow]:
    """What is offered, by name."""
    return [offering_row(row) for row in Offering.objects.filter(is_active=True).order_by("name", "pk")]


def price_at(offering_id: UUID, at: datetime) -> int | None:
    """Micro-credits a card-hour at `at`: the latest revision that has started; None means it cannot be launched."""
    row = _PRICE.first(offering_id, at)
    return row.rate_micro_per_hour if row else None


_PRICE = Prepared(
    lambda offering, at: PriceRevision.objects.filter(offering_id=offering, starts_at__lte=at).order_by(
        "-starts_at", "-id"
    )[:1],
    sample(1),
    datetime(1970, 1, 2, tzinfo=UTC),
)


def price_revisions(offering_id: UUID) -> QuerySet[PriceRevision]:
    """Every price of an offering, each with `ends_at`: when the next one begins (None: none is set). Unordered.

    One that ends when it starts was replaced by a later one of the same moment and never counts from then on.
    """
    later = Q(starts_at__gt=OuterRef("starts_at")) | Q(starts_at=OuterRef("starts_at"), pk__gt=OuterRef("pk"))
    following = PriceRevision.objects.filter(later, offering=OuterRef("offering")).order_by("starts_at", "pk")
    return PriceRevision.objects.filter(offering_id=offering_id).annotate(
        ends_at=Subquery(following.values("starts_at")[:1])
    )


def prices_at(offering_ids: Iterable[UUID], at: datetime) -> dict[UUID, int]:
    """The same for many, in one statement; offerings without a price are not in the answer."""
    rows = (
        PriceRevision.objects.filter(offering_id__in=list(offering_ids), starts_at__lte=at)
        .order_by("offering_id", "-starts_at", "-id")
        .distinct("offering_id")
    )
    return dict(rows.values_list("offering_id", "rate_micro_per_hour"))


# Presets -------------------------------------------------------------------------------------------------------------


def preset(preset_id: UUID) -> PresetRow | None:
    """The preset, if it is offered."""
    row = _PRESET.first(preset_id)
    return preset_row(row) if row else None


_PRESET = Prepared(lambda preset: Preset.objects.filter(pk=preset, is_active=True), sample(1))


def active_presets() -> list[PresetRow]:
    """The sizes that are offered, in their order."""
    return [preset_row(row) for row in Preset.objects.filter(is_active=True).order_by("position", "name", "pk")]


# The whole shelf -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shelf:
    """What is offered: sizes in their order, offerings by name, what has a price its price; images where a person asks."""

    presets: tuple[PresetRow, ...]
    offerings: tuple[OfferingRow, ...]
    rates: Mapping[UUID, int]
    images: tuple[ImageRow, ...] = ()


_SHELF = f"""
    SELECT 'preset', to_jsonb(preset), NULL::bigint FROM {Preset._meta.db_table} preset WHERE preset.is_active
    UNION ALL
    SELECT 'offering', to_jsonb(offering), (
        SELECT price.rate_micro_per_hour FROM {PriceRevision._meta.db_table} price
        WHERE price.offering_id = offering.id AND price.starts_at <= %s
        ORDER BY price.starts_at DESC, price.id DESC LIMIT 1
    )
    FROM {Offering._meta.db_table} offering WHERE offering.is_active
"""  # noqa: S608 -- the names are the models' own


def shelf(at: datetime) -> Shelf:
    """All that is offered to everybody at `at`, with its prices. One statement."""
    return _shelf(_SHELF, [at])


def shelf_for(user: User, at: datetime) -> Shelf:
    """The same with the images that this user may see, in their order. One statement."""
    images, parameters = visible_images(user).query.sql_with_params()
    statement = f"{_SHELF} UNION ALL SELECT 'image', to_jsonb(image), NULL FROM ({images}) image"  # noqa: S608 -- Django's SQL
    return _shelf(statement, [at, *parameters])


_WANTED = f"""
    SELECT 'preset', to_jsonb(preset), NULL::bigint FROM {Preset._meta.db_table} preset
    WHERE preset.is_active AND preset.id = ANY(%s::uuid[])
    UNION ALL
    SELECT 'offering', to_jsonb(offering), (
        SELECT price.rate_micro_per_hour FROM {PriceRevision._meta.db_table} price
        WHERE price.offering_id = offering.id AND price.starts_at <= %s
        ORDER BY price.starts_at DESC, price.id DESC LIMIT 1
    )
    FROM {Offering._meta.db_table} offering WHERE offering.is_active AND offering.id = ANY(%s::uuid[])
    UNION ALL
    SELECT 'image', to_jsonb(image), NULL FROM {Image._meta.db_table} image
    WHERE image.is_active AND image.visibility = 'public' AND image.id = ANY(%s::uuid[])
"""  # noqa: S608 -- the names are the models' own


def wanted(*, presets: Collection[UUID], offerings: Collection[UUID], images: Collection[UUID], at: datetime) -> Shelf:
    """Of these what is offered to everybody at `at`, with its prices. One statement."""
    with prepared() as cursor:
        cursor.execute(_WANTED, [list(presets), at, list(offerings), list(images)])
        return _on_shelf(cursor.fetchall())


def _shelf(statement: str, parameters: Sequence[Any]) -> Shelf:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return _on_shelf(cursor.fetchall())


def _on_shelf(rows: Iterable[tuple[str, str, int | None]]) -> Shelf:
    presets, offerings, images, rates = [], [], [], {}
    for kind, document, rate in rows:
        columns = json.loads(document)
        columns |= {name: UUID(columns[name]) for name in ("id", "organisation_id", "group_id") if columns.get(name)}
        if kind == "preset":
            presets.append(preset_row(Preset(**columns)))
        elif kind == "image":
            images.append(Image(**columns))
        else:
            offerings.append(offering_row(Offering(**columns)))
            if rate is not None:
                rates[columns["id"]] = rate
    presets.sort(key=lambda row: (row.position, row.name, row.id))
    offerings.sort(key=lambda row: (row.name, row.id))
    images.sort(key=lambda row: (row.position, row.name, row.pk))
    return Shelf(tuple(presets), tuple(offerings), rates, tuple(image_row(row) for row in images))


# Images --------------------------------------------------------------------------------------------------------------


_IMAGE = Prepared(lambda image: Image.objects.filter(pk=image), sample(1))


def visible_images(user: User) -> QuerySet[Image]:
    """Public images and those of the organisations and groups that the user sees; all for super administrators."""
    rows = Image.objects.filter(is_active=True)
    if user.is_super_admin:
        return rows
    return rows.filter(
        Q(visibility="public")
        | Q(organisation_id__in=visible_organisations(user).values("pk"))
        | Q(group_id__in=visible_groups(user).values("pk"))
    )


def image(image_id: UUID) -> ImageRow | None:
    """The image, whoever may see it and offered or not: for what runs already."""
    row = _IMAGE.first(image_id)
    return image_row(row) if row else None


def public_image(image_id: UUID) -> ImageRow | None:
    """The image, if it is offered to everybody."""
    row = _PUBLIC_IMAGE.first(image_id)
    return image_row(row) if row else None


_PUBLIC_IMAGE = Prepared(lambda image: Image.objects.filter(pk=image, is_active=True, visibility="public"), sample(1))


def image_for(image_id: UUID, *, user: User) -> ImageRow | None:
    """The image, if it is offered to this user."""
    row = visible_images(user).filter(pk=image_id).first()
    return image_row(row) if row else None


# Rows ----------------------------------------------------------------------------------------------------------------


def offering_row(row: Offering) -> OfferingRow:
    """The frozen form of a row."""
    return OfferingRow(
        id=row.pk,
        name=row.name,
        model=row.model,
        vram_mib=row.vram_mib,
        min_cuda=row.min_cuda,
        tiers=tuple(row.tiers),
        yield_allowed=row.yield_allowed,
        preemptible_factor_milli=row.preemptible_factor_milli,
        is_active=row.is_active,
    )


def preset_row(row: Preset) -> PresetRow:
    """The frozen form of a row."""
    return PresetRow(
        id=row.pk,
        name=row.name,
        tier=row.tier,
        cards=row.cards,
        cpu_milli=row.cpu_milli,
        memory_mib=row.memory_mib,
        scratch_gib=row.scratch_gib,
        position=row.position,
        is_active=row.is_active,
    )


def image_row(row: Image) -> ImageRow:
    """The frozen form of a row."""
    return ImageRow(
        id=row.pk,
        name=row.name,
        reference=row.reference,
        cuda=row.cuda,
        apps=tuple(row.apps),
        visibility=row.visibility,
        organisation_id=row.organisation_id,
        group_id=row.group_id,
        is_active=row.is_active,
    )
