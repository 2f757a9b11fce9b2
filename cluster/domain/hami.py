"""What HAMi writes on nodes and pods, read tolerantly: registers in all encodings, allotted devices, MIG instances, node locks.

Guarantees: unknown is unknown, never zero. A card that does not say how much it has is left out and named in `unreadable`;
one row that cannot be read hides no other. Where HAMi's own reader takes an absent field for something (index 0, not healthy),
so does this. Nothing is concluded from the place of a container in a list: HAMi 2.10 drops empty places.
Formats: `hami.io/node-nvidia-register` is a JSON list from HAMi 2.8 on, and ``UUID,count,MiB,cores,type,numa,health[,index,mode]:``
before (9 fields, or 7 still earlier). `hami.io/vgpu-devices-allocated` is ``UUID,type,MiB,cores:`` per card and ``;`` per
container. `hami.io/mutex.lock` is ``<RFC 3339>,<namespace>,<pod>``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from gshare_core.contract import CardRow, MigPlacement, MigProfile

REGISTER = "hami.io/node-nvidia-register"
CORDON = "hami.io/device-cordon"
NODE_LOCK = "hami.io/mutex.lock"
ASSIGNED_NODE = "hami.io/vgpu-node"
ALLOCATED = "hami.io/vgpu-devices-allocated"
MIG_ALLOCATIONS = "hami.io/vgpu-mig-allocations"

MODES = ("hami-core", "mig", "mps")
_CSV_FIELDS = (7, 9)
_DEVICE_FIELDS = 4
_TRUE, _FALSE = {"1", "t", "true"}, {"0", "f", "false"}
# HAMi 2.9 wrote the slot of a MIG layout behind the UUID.
_LAYOUT_SLOT = re.compile(r"\[\d+-\d+\]$")
_CONTENTION = re.compile(r"node lock contention|has been locked within|node \S+ is locked")


@dataclass(frozen=True, slots=True)
class Register:
    """A node's cards. `encoding` is ``json``, ``csv-9``, ``csv-7`` or empty; `unreadable` says in words what is unknown."""

    cards: tuple[CardRow, ...] = ()
    encoding: str = ""
    unreadable: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether everything that the node said could be read."""
        return bool(self.encoding) and not self.unreadable


def read_register(text: str | None) -> Register:
    """The register of a node; None and what cannot be read at all are unknown, an empty JSON list is no card."""
    if text is None or not text.strip():
        return Register(unreadable=("the node does not say which cards it has",))
    if text.lstrip().startswith("["):
        return _read_json(text)
    return _read_csv(text)


def _read_json(text: str) -> Register:
    try:
        rows = json.loads(text)
    except ValueError:
        return Register(unreadable=("the node's register is no JSON",))
    return _collect(rows, "json", _row_of_json)


def _read_csv(text: str) -> Register:
    rows = [row.split(",") for row in text.strip().split(":") if row.strip()]
    lengths = {len(row) for row in rows}
    if not rows or not lengths <= set(_CSV_FIELDS):
        return Register(unreadable=("the node's register has a form that is not known",))
    return _collect(list(enumerate(rows)), f"csv-{max(lengths)}", _row_of_csv)


def _collect(rows: list[Any], encoding: str, read: Callable[[Any], Mapping[str, Any]]) -> Register:
    cards: dict[str, CardRow] = {}
    unreadable: list[str] = []
    for place, row in enumerate(rows):
        try:
            card = CardRow.model_validate(read(row))
        except (ValidationError, ValueError, TypeError, AttributeError) as error:
            unreadable.append(f"card {place + 1} of the node cannot be read: {_plainly(error)}")
            continue
        if card.uuid in cards:
            unreadable.append(f"card {card.uuid} is there twice")
        cards.setdefault(card.uuid, card)
    ordered = tuple(sorted(cards.values(), key=lambda card: (card.index, card.uuid)))
    return Register(ordered, encoding, tuple(unreadable))


def _plainly(error: Exception) -> str:
    if isinstance(error, ValidationError):
        names = {".".join(map(str, problem["loc"])) for problem in error.errors(include_url=False)}
        return f"nothing usable is said of its {', '.join(sorted(names))}"
    return str(error)


def _row_of_json(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise ValueError("it is no object")  # noqa: TRY004 (bad input, whatever its type)
    mode = row.get("mode") or MODES[0]
    return {
        "uuid": row.get("id"),
        "index": row.get("index") or 0,
        "model": model_name(row.get("type")),
        "vram_mib": _count(row.get("devmem")),
        "core_percent": _count(row.get("devcore")),
        "slots": _count(row.get("count")),
        "mode": mode,
        "healthy": row.get("health", False) is True,
        "mig_profiles": _profiles(row.get("migProfiles")) if mode == "mig" else (),
    }


def _row_of_csv(placed: tuple[int, list[str]]) -> Mapping[str, Any]:
    place, fields = placed
    index, mode = (fields[7], fields[8]) if len(fields) == max(_CSV_FIELDS) else (str(place), MODES[0])
    health = fields[6].strip().lower()
    if health not in _TRUE | _FALSE:
        raise ValueError("nothing usable is said of its health")
    return {
        "uuid": fields[0],
        "index": _number(index),
        "model": model_name(fields[4]),
        "vram_mib": _number(fields[2]),
        "core_percent": _number(fields[3]),
        "slots": _number(fields[1]),
        "mode": mode,
        "healthy": health in _TRUE,
    }


def _count(value: Any) -> Any:
    """A number that must be one: truth values are none, whatever Python thinks."""
    return None if isinstance(value, bool) else value


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\s*\d{1,15}\s*", text) else None


def model_name(reported: Any) -> Any:
    """The card's model without the prefix that the plugin adds: ``NVIDIA-Tesla T4`` is a ``Tesla T4``."""
    return reported.removeprefix("NVIDIA-") if isinstance(reported, str) else reported


def _profiles(rows: Any) -> tuple[MigProfile, ...]:
    """The profiles that can be read; HAMi 2.9 names none on the node."""
    found = []
    for row in rows if isinstance(rows, list) else ():
        try:
            found.append(
                MigProfile(
                    name=row["name"],
                    vram_mib=row["memoryMB"],
                    core_percent=min(100, row["core"]),
                    placements=tuple(
                        MigPlacement(start=spot["start"], size=spot["size"]) for spot in row["placements"] or ()
                    ),
                )
            )
        except (KeyError, TypeError, ValidationError):
            continue
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Device:
    """What one container was allotted of one card, or a pod in all; each allotment takes a slot."""

    uuid: str
    vram_mib: int
    core_percent: int
    slots: int = 1


def read_devices(text: str | None) -> tuple[tuple[Device, ...], ...] | None:
    """What each container that HAMi lists was allotted; None when it is not said or cannot be read."""
    if not text:
        return None
    parts = text.split(";")
    try:
        return tuple(
            tuple(_device(item) for item in part.split(":") if item.strip(", 0"))
            for part in (parts if parts[-1].strip() else parts[:-1])
        )
    except ValueError:
        return None


def _device(item: str) -> Device:
    fields = item.split(",")
    if len(fields) < _DEVICE_FIELDS or not fields[0]:
        raise ValueError("a device is not whole")
    vram, core = _number(fields[2]), _number(fields[3])
    if vram is None or core is None:
        raise ValueError("what is held is no number")
    return Device(_LAYOUT_SLOT.sub("", fields[0]), vram, core)


def held(
    containers: tuple[tuple[Device, ...], ...], *, init_containers: int = 0, app_containers: int = 1
) -> Mapping[str, Device]:
    """What a pod holds of each card: the greater of what its init containers need at once and what the others share.

    Where the list does not have a place for every container nobody can tell them apart, and everything is added up.
    """
    first = init_containers if len(containers) == init_containers + app_containers else 0
    found: dict[str, Device] = {}
    for devices in containers[first:]:
        for device in devices:
            found[device.uuid] = _both(found.get(device.uuid), device, _sum)
    for devices in containers[:first]:
        for device in devices:
            found[device.uuid] = _both(found.get(device.uuid), device, max)
    return found


def _both(had: Device | None, device: Device, one_of: Callable[[int, int], int]) -> Device:
    if had is None:
        return device
    return Device(
        device.uuid,
        one_of(had.vram_mib, device.vram_mib),
        one_of(had.core_percent, device.core_percent),
        one_of(had.slots, device.slots),
    )


def _sum(one: int, other: int) -> int:
    return one + other


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance of a pod; `mig_uuid` and `gpu_instance` (its number on the card) once the device plugin has made it."""

    gpu_uuid: str
    profile: str
    start: int
    size: int
    mig_uuid: str = ""
    gpu_instance: str = ""


def read_instances(text: str | None) -> tuple[Instance, ...] | None:
    """The MIG instances of a pod; none where it has none, None where they cannot be read."""
    if not text:
        return ()
    try:
        return tuple(
            Instance(
                str(row["gpuUUID"]),
                str(row["profile"]),
                int(row["placement"]["start"]),
                int(row["placement"]["size"]),
                str(row.get("migUUID") or ""),
                str(row.get("gpuInstanceID", "")),
            )
            for row in json.loads(text)
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class NodeLock:
    """Who holds a node's lock since when; namespace and pod are empty in the oldest form."""

    since: datetime
    namespace: str = ""
    pod: str = ""


def read_lock(text: str | None) -> NodeLock | None:
    """The lock on a node; None where there is none or it cannot be read."""
    parts = (text or "").split(",")
    try:
        since = datetime.fromisoformat(parts[0])
    except ValueError:
        return None
    if since.tzinfo is None or len(parts) not in (1, 3):
        return None
    return NodeLock(since, *parts[1:])


def is_lock_contention(message: str) -> bool:
    """Whether a message of the scheduler says that another pod's binding holds the node."""
    return _CONTENTION.search(message) is not None
