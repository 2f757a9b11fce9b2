"""What the new-session page offers: sizes, GPUs, images, mounts, each with its price, its verdict or its reason."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.domain import pricing
from catalog.queries import ImageRow, PresetRow
from cluster.domain.shapes import TIERS
from cluster.loads import CardLoad
from gshare_core.kit import wording
from sessions_app.domain.gates import cuda_version
from sessions_app.overview import CPU_TIER, Offer, TierOffer
from sessions_app.views import cards, words
from sessions_app.views.new_form import Values

WHOLE = "exclusive"


def sizes(values: Values, presets: list[PresetRow], offers: list[Offer]) -> list[dict[str, Any]]:
    """One button a size; the whole cards are one size with a number."""
    offer = next((o for o in offers if values.offering and o.row.id == values.offering.id), None)
    shown, whole_shown = [], False
    for preset in presets:
        if preset.tier == WHOLE:
            if whole_shown:
                continue
            whole_shown = True
        shown.append(_size(values, preset, offer))
    return shown


def _size(values: Values, preset: PresetRow, offer: Offer | None) -> dict[str, Any]:
    chosen = values.preset is not None and (
        preset.id == values.preset.id or (preset.tier == WHOLE and values.preset.tier == WHOLE)
    )
    tier = tier_of(offer, preset) if offer else None
    share = TIERS.get(preset.tier)
    is_cpu = preset.tier == CPU_TIER
    lines = [_("no GPU")] if is_cpu else _size_lines(tier)
    reason = "" if is_cpu or tier is not None else _size_reason(offer, preset)
    rate = 0 if is_cpu else (tier.hourly if tier else None)
    return {
        "id": str(values.preset.id) if chosen and values.preset else str(preset.id),
        "name": _("Cards") if preset.tier == WHOLE else _("CPU") if is_cpu else preset.tier,
        "share": share,
        "bar": share or (Fraction(1) if preset.tier == WHOLE else Fraction(0)),
        "lines": lines,
        "rate_micro_per_hour": rate,
        "chosen": chosen and not values.custom,
        "reason": reason,
    }


def tier_of(offer: Offer, preset: PresetRow) -> TierOffer | None:
    """An offering's tier for a size."""
    return next((t for t in offer.tiers if t.tier == preset.tier and t.cards == preset.cards), None)


def _size_lines(tier: TierOffer | None) -> list[str]:
    if tier is None:
        return []
    memory = " ".join(wording.memory(tier.shape.vram_mib))
    if tier.tier == WHOLE:
        return [_("%(memory)s each") % {"memory": memory}, _("1–8 cards")]
    return [memory, f"{tier.shape.core_percent} %"]


def _size_reason(offer: Offer | None, preset: PresetRow) -> str:
    if offer is None:
        return _("no GPU is offered")
    if preset.tier == WHOLE:
        return _("%(gpu)s is not rented whole") % {"gpu": offer.row.name}
    smallest = min((TIERS[name] for name in offer.row.tiers if name in TIERS), default=None)
    if smallest is not None and TIERS[preset.tier] < smallest:
        return _("%(gpu)s starts at %(share)s") % {"gpu": offer.row.name, "share": wording.fraction(smallest)}
    return _("not offered on %(gpu)s") % {"gpu": offer.row.name}


def offerings(values: Values, offers: list[Offer], loads: list[CardLoad], own: set[Any]) -> list[dict[str, Any]]:
    """One row a GPU, with whether the size would start on it now."""
    by_model = cards.by_model(loads)
    if values.preset is not None and values.preset.tier == CPU_TIER and not values.custom:
        return []
    return [_offering(values, offer, by_model.get(offer.row.model, []), own) for offer in offers]


def _offering(values: Values, offer: Offer, loads: list[CardLoad], own: set[Any]) -> dict[str, Any]:
    tier = tier_of(offer, values.preset) if values.preset else None
    reason = ""
    if not values.custom and tier is None and values.preset is not None:
        name = words.size_name(values.preset.tier, values.preset.cards)
        reason = _("not offered in size %(size)s") % {"size": name}
    elif offer.rate is None:
        reason = _("has no price yet")
    rate = tier.hourly if tier and not values.custom else _custom_rate(values, offer)
    memory = tier.shape.vram_mib if tier and not values.custom else values.numbers.get("vram_mib", 0)
    return {
        "id": str(offer.row.id),
        "name": offer.row.name,
        "memory_text": " ".join(wording.memory(memory)),
        "cards": cards.strip(loads, own=own),
        "words": f"{offer.row.name}: {cards.strip_words(loads)}",
        "verdict": _verdict(offer, tier),
        "rate_micro_per_hour": rate,
        "chosen": values.offering is not None and offer.row.id == values.offering.id,
        "reason": reason,
    }


def _custom_rate(values: Values, offer: Offer) -> int:
    vram, core = values.numbers.get("vram_mib", 0), values.numbers.get("core_percent", 0)
    share = max(Fraction(vram, offer.row.vram_mib), Fraction(core, 100))
    return pricing.hourly_micro(pricing.Price(offer.rate, share)) if offer.rate and share > 0 else 0


def _verdict(offer: Offer, tier: TierOffer | None) -> dict[str, str]:
    waiting = offer.queue_length
    if tier is not None and tier.free_now and not waiting:
        return {"outcome": "starts", "title": _("Starts now"), "text": _free_text(tier)}
    place = _("Queues as %(place)s") % {"place": wording.ordinal(waiting + 1)}
    return {"outcome": "queues", "title": place, "text": _("time unknown")}


def _free_text(tier: TierOffer) -> str:
    """How many of its size are free, in one short line."""
    n = tier.free_now
    said = {
        "XL": ngettext("%(n)d half free", "%(n)d halves free", n),
        "L": ngettext("%(n)d quarter free", "%(n)d quarters free", n),
        "M": ngettext("%(n)d eighth free", "%(n)d eighths free", n),
        "S": ngettext("%(n)d sixteenth free", "%(n)d sixteenths free", n),
    }.get(tier.tier)
    if said is None and tier.cards <= 1:
        said = ngettext("%(n)d card free", "%(n)d cards free", n)
    return (said or ngettext("room for %(n)d", "room for %(n)d", n)) % {"n": n}


def images(values: Values, rows: list[ImageRow]) -> list[dict[str, Any]]:
    """One row an image; what the GPU cannot run is disabled with its reason."""
    needs = values.offering.min_cuda if values.offering else None
    is_cpu = values.preset is not None and values.preset.tier == CPU_TIER and not values.custom
    return [
        {
            "id": str(row.id),
            "name": row.name,
            "cuda": f"CUDA {row.cuda}" if row.cuda else _("no CUDA"),
            "apps_text": words.apps_text(list(row.apps)),
            "chosen": values.image is not None and row.id == values.image.id,
            "reason": "" if is_cpu else _image_reason(row, needs, values),
        }
        for row in rows
    ]


def _image_reason(row: ImageRow, needs: str | None, values: Values) -> str:
    if needs is None or (row.cuda is not None and cuda_version(row.cuda) >= cuda_version(needs)):
        return ""
    gpu = values.offering.name if values.offering else ""
    return _("%(gpu)s needs CUDA %(version)s or newer") % {"gpu": gpu, "version": needs}


def custom_bounds(values: Values, errors: dict[str, str]) -> list[dict[str, Any]]:
    """The fields of an own shape with their bounds."""
    vram = values.offering.vram_mib if values.offering else 0
    rows = (
        ("cpu_milli", _("CPU, thousandths of a core"), "m", 100, 1_000_000, 100, ""),
        ("memory_mib", _("Memory"), "MiB", 512, 4_194_304, 256, ""),
        ("scratch_gib", _("Scratch"), "GiB", 0, 100_000, 1, ""),
        ("vram_mib", _("GPU memory"), "MiB", 0, vram, 1, _("0 for a session without a GPU")),
        ("core_percent", _("GPU compute"), "%", 0, 100, 1, _("half to twice the memory's share")),
    )
    return [
        {
            "name": name,
            "label": label,
            "unit": unit,
            "least": least,
            "most": most,
            "step": step,
            "value": values.numbers.get(name, least),
            "hint": hint,
            "error": errors.get(name, ""),
        }
        for name, label, unit, least, most, step, hint in rows
    ]
