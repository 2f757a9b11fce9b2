"""Reads the new-session form, from a GET that asks or a POST that starts, into values and an `Ask`.

Guarantees: whatever is sent, values come out that the page can show again; what cannot be understood is an error of its
field, never a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import QueryDict

from catalog.queries import ImageRow, OfferingRow, PresetRow, Shelf
from cluster.queries import MountChoice
from gshare_core.ids import uuid7
from gshare_core.kit import names
from sessions_app.api.serializers import AskSerializer
from sessions_app.domain.facts import Ask
from sessions_app.overview import CPU_TIER

CUSTOM_FIELDS = ("cpu_milli", "memory_mib", "scratch_gib", "vram_mib", "core_percent")
HOME = "/home/work"


@dataclass(slots=True)
class Values:
    """What the form holds now; `cards` of the whole-cards size, `custom` an own shape instead of the size."""

    name: str
    group: str
    preset: PresetRow | None
    offering: OfferingRow | None
    image: ImageRow | None
    cards: int = 1
    custom: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    mounts: list[dict[str, str]] = field(default_factory=list)
    priority: int = 0
    preemptible: bool = False
    auto_resume: bool = False
    pause_mode: str = "cold"
    cluster: str = ""
    idempotency_key: str = ""

    def body(self) -> dict[str, Any]:
        """The same as the API's body of create."""
        is_cpu = self.preset is not None and self.preset.tier == CPU_TIER and not self.custom
        return {
            "name": self.name,
            "group": self.group,
            "offering": None if is_cpu or self.offering is None else str(self.offering.id),
            "preset": None if self.custom or self.preset is None else str(self.preset.id),
            "image": str(self.image.id) if self.image else None,
            "custom": {**self.numbers, "cards": 0} if self.custom else None,
            "cluster": self.cluster or None,
            "volumes": self.mounts,
            "priority": self.priority,
            "preemptible": self.preemptible,
            "auto_resume": self.auto_resume,
            "pause_mode": self.pause_mode,
        }


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What can be chosen."""

    groups: Sequence[Any]
    shelf: Shelf
    mounts: Sequence[MountChoice]

    @property
    def volumes(self) -> Sequence[Any]:
        """What can be mounted."""
        return [choice.volume for choice in self.mounts]

    @property
    def busy(self) -> frozenset[UUID]:
        """Single-writer volumes that some session holds."""
        return frozenset(
            choice.volume.pk for choice in self.mounts if choice.volume.is_single_writer and choice.is_held
        )

    @property
    def images(self) -> Sequence[ImageRow]:
        """What can be run."""
        return self.shelf.images

    @property
    def presets(self) -> Sequence[PresetRow]:
        """The sizes."""
        return self.shelf.presets

    @property
    def offerings(self) -> Sequence[OfferingRow]:
        """The GPUs."""
        return self.shelf.offerings


def read(data: QueryDict, catalogue: Catalogue, *, group: UUID | None, default_name: str) -> Values:
    """The values of a form; what is missing or unknown becomes the first that can be had."""
    asked = "preset" in data or "image" in data
    preset = _preset(data, catalogue)
    offering = _by_id(catalogue.offerings, data.get("offering", "")) or next(iter(catalogue.offerings), None)
    image = _by_id(catalogue.images, data.get("image", "")) or _first_image(catalogue.images, offering, preset)
    values = Values(
        name=data.get("name", "").strip() if asked else default_name,
        group=data.get("group") or str(group or ""),
        preset=preset,
        offering=offering,
        image=image,
        cards=_number(data, "cards", 1),
        custom=data.get("custom") == "1",
        numbers={name: _number(data, name, default) for name, default in _numbers(preset, offering).items()},
        mounts=_mounts(data, catalogue, asked=asked),
        priority=_number(data, "priority", 0),
        preemptible=data.get("preemptible") == "1",
        auto_resume=data.get("auto_resume") == "1",
        pause_mode="yield" if data.get("pause_mode") == "yield" else "cold",
        cluster=data.get("cluster", ""),
        idempotency_key=data.get("idempotency_key") or str(uuid7()),
    )
    if data.get("mount") == "1":
        _add_mount(values, data)
    values.mounts = [mount for mount in values.mounts if mount["volume"] != data.get("unmount")]
    return values


def ask_of(values: Values) -> tuple[Ask | None, dict[str, str]]:
    """The form as admission takes it, or the errors by field."""
    body = AskSerializer(data=values.body())
    if body.is_valid():
        return body.ask(), {}
    errors = {str(name): _first(messages) for name, messages in body.errors.items()}
    if "name" in errors:
        errors["name"] = str(names.WORDS)
    return None, errors


def _first(messages: Any) -> str:
    while isinstance(messages, (list, dict)) and messages:
        messages = next(iter(messages.values())) if isinstance(messages, dict) else messages[0]
    return str(messages)


def _by_id(rows: Sequence[Any], wanted: str) -> Any:
    return next((row for row in rows if str(row.id) == wanted), None)


def _preset(data: QueryDict, catalogue: Catalogue) -> PresetRow | None:
    """The chosen size; among whole cards the one with as many as were asked for."""
    chosen: PresetRow | None = _by_id(catalogue.presets, data.get("preset", ""))
    if chosen is None:
        chosen = next((row for row in catalogue.presets if row.tier == "L"), next(iter(catalogue.presets), None))
    if chosen is not None and chosen.tier == "exclusive":
        cards = _number(data, "cards", 1)
        same = [row for row in catalogue.presets if row.tier == "exclusive"]
        return next((row for row in same if row.cards == cards), chosen)
    return chosen


def _first_image(images: Sequence[ImageRow], offering: OfferingRow | None, preset: PresetRow | None) -> ImageRow | None:
    """The first image that would work."""
    needs_cuda = preset is None or preset.tier != CPU_TIER
    fitting = [image for image in images if bool(image.cuda) == needs_cuda]
    return next(iter(fitting or images), None)


def _numbers(preset: PresetRow | None, offering: OfferingRow | None) -> dict[str, int]:
    """Where an own shape begins: the chosen size."""
    return {
        "cpu_milli": preset.cpu_milli if preset else 4000,
        "memory_mib": preset.memory_mib if preset else 8192,
        "scratch_gib": preset.scratch_gib if preset else 10,
        "vram_mib": offering.vram_mib // 4 if offering else 0,
        "core_percent": 25 if offering else 0,
    }


def _number(data: QueryDict, name: str, default: int) -> int:
    text = data.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else default


def _mounts(data: QueryDict, catalogue: Catalogue, *, asked: bool) -> list[dict[str, str]]:
    rows = zip(data.getlist("volume"), data.getlist("path"), data.getlist("mode"), strict=False)
    mounts = [{"volume": v, "path": p, "mode": m if m in {"ro", "rw"} else "rw"} for v, p, m in rows if _is_id(v)]
    if asked or mounts:
        return mounts
    homes = [volume for volume in catalogue.volumes if volume.kind == "home"]
    home = next((volume for volume in homes if volume.pk not in catalogue.busy), None)
    return [{"volume": str(home.id), "path": HOME, "mode": "rw"}] if home else []


def _add_mount(values: Values, data: QueryDict) -> None:
    volume, path = data.get("add_volume", ""), data.get("add_path", "").strip()
    if _is_id(volume) and path and volume not in {mount["volume"] for mount in values.mounts}:
        mode = "ro" if data.get("add_mode") == "ro" else "rw"
        values.mounts.append({"volume": volume, "path": path, "mode": mode})


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
