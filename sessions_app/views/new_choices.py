"""What the new-session page offers: sizes, GPUs, images, mounts, each with its price, its verdict or its reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from billing.domain import pricing
from catalog.queries import ImageRow, OfferingRow, PresetRow
from cluster.domain.shapes import TIERS
from cluster.loads import CardLoad
from gshare_core.errors import DomainError
from gshare_core.kit import wording
from sessions_app.domain.gates import cuda_version, first_refusal
from sessions_app.overview import CPU_TIER, Offer, TierOffer
from sessions_app.previews import Preview
from sessions_app.views import cards, verdicts, words
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


Judge = Callable[[OfferingRow], Preview | DomainError | None]


def offerings(
    values: Values, offers: list[Offer], loads: list[CardLoad], own: set[Any], judge: Judge, now: datetime
) -> list[dict[str, Any]]:
    """One row a GPU, with what the gates say of the other choices on it."""
    by_model = cards.by_model(loads)
    if values.preset is not None and values.preset.tier == CPU_TIER and not values.custom:
        return []
    rows = [_offering(values, offer, by_model.get(offer.row.model, []), own) for offer in offers]
    for row, offer in zip(rows, offers, strict=True):
        if not row["reason"]:
            tier = tier_of(offer, values.preset) if values.preset and not values.custom else None
            row["verdict"] = _row_verdict(judge(offer.row), tier, now)
    return rows


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
        "more": cards.strip_rest(loads),
        "words": f"{offer.row.name}: {cards.strip_words(loads)}",
        "verdict": {"outcome": "", "title": "", "text": ""},
        "rate_micro_per_hour": rate,
        "chosen": values.offering is not None and offer.row.id == values.offering.id,
        "reason": reason,
    }


def _custom_rate(values: Values, offer: Offer) -> int:
    vram, core = values.numbers.get("vram_mib", 0), values.numbers.get("core_percent", 0)
    share = max(Fraction(vram, offer.row.vram_mib), Fraction(core, 100))
    return pricing.hourly_micro(pricing.Price(offer.rate, share)) if offer.rate and share > 0 else 0


def _row_verdict(found: Preview | DomainError | None, tier: TierOffer | None, now: datetime) -> dict[str, str]:
    """What would happen on a GPU, in the few words that a row has room for."""
    if found is None:
        return {"outcome": "refused", "title": _("Not complete"), "text": ""}
    if isinstance(found, DomainError):
        return {"outcome": "refused", "title": _("Not possible"), "text": verdicts.refusal(found).detail}
    said = verdict(found, now)
    if said["outcome"] == "starts":
        return said | {"text": _free_text(tier) if tier else ""}
    if said["outcome"] == "queues":
        return said | {"text": _about_when(found, now)}
    refusal = first_refusal(found.verdicts)
    assert refusal is not None
    name = str(words.GATES[refusal.gate]).lower()
    detail = verdicts.refusal(refusal, verdicts.names_of(found.facts)).detail
    return said | {"title": _("Refused: %(gate)s") % {"gate": name}, "text": detail}


def verdict(found: Preview, now: datetime) -> dict[str, str]:
    """What Start would do, why, and about when."""
    refusal = first_refusal(found.verdicts)
    if refusal is not None:
        title = _("Refused at gate %(number)d, %(name)s") % {
            "number": int(refusal.gate),
            "name": str(words.GATES[refusal.gate]).lower(),
        }
        said = verdicts.refusal(refusal, verdicts.names_of(found.facts))
        return {"outcome": "refused", "title": title, "text": said.text}
    if found.outcome == "placed":
        return {"outcome": "starts", "title": _("Starts now"), "text": ""}
    place = _("Queues as %(place)s") % {"place": wording.ordinal(found.queue_length + 1)}
    why = words.missing_text(found.no_place.short) if found.no_place else _("others are before it")
    text = _("%(why)s, %(when)s") % {"why": why, "when": _about_when(found, now)} if why else _about_when(found, now)
    return {"outcome": "queues", "title": place, "text": capfirst(text)}


def _about_when(found: Preview, now: datetime) -> str:
    """Whoever joins starts after the last who waits; where that one's start is not known, neither is his."""
    if found.after is None or found.after <= now:
        return _("time unknown")
    return _("after %(time)s") % {"time": wording.clock(found.after, now)}


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
