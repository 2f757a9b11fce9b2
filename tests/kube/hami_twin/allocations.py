"""How HAMi writes down what it chose: the device list of a pod, and the list of its MIG instances.

``pod = container* ; container = device* ";" ; device = UUID "," TYPE "," MiB "," CORES ":"``. What a pod takes of a card is
the greater of its init containers' peak and its other containers' sum, told apart by their place in the list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.kube.hami_twin import words
from tests.kube.hami_twin.register import Placement


@dataclass(frozen=True, slots=True)
class Device:
    """What one container got of one card; the instance on a card in MIG mode."""

    uuid: str
    memory_mib: int
    cores: int
    profile: str = ""
    placement: Placement | None = None
    type: str = words.VENDOR


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pod takes of a card in all."""

    uuid: str
    memory_mib: int
    cores: int
    slots: int


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A reserved instance."""

    gpu_uuid: str
    profile: str
    placement: Placement


Containers = Sequence[Sequence[Device]]


def encode(containers: Containers) -> str:
    """The device list."""
    return "".join(
        "".join(f"{device.uuid},{device.type},{device.memory_mib},{device.cores}:" for device in devices) + ";"
        for devices in containers
    )


def decode(text: str) -> Containers:
    """The containers of a device list; raises ValueError when one cannot be read."""
    return [[_device(item) for item in part.split(":") if "," in item] for part in text.split(";")]


def _device(item: str) -> Device:
    fields = item.split(",")
    if len(fields) < 4:
        raise ValueError("pod annotation format error, missing fields, do not use nodeName in task spec")
    return Device(fields[0], _int32(fields[2]), _int32(fields[3]), type=fields[1])


def _int32(text: str) -> int:
    value = int(text)
    if not -(2**31) <= value < 2**31 or "_" in text or text != text.strip():
        raise ValueError(f"{text!r} is no 32-bit number")
    return value


def encode_mig(containers: Containers) -> str | None:
    """The list of MIG instances; None when there are none."""
    rows = [
        {
            "containerIndex": container,
            "deviceIndex": index,
            "gpuUUID": device.uuid,
            "profile": device.profile,
            "placement": {"start": device.placement.start, "size": device.placement.size},
        }
        for container, devices in enumerate(containers)
        for index, device in enumerate(devices)
        if device.profile and device.placement is not None and device.placement.size
    ]
    return json.dumps(rows, separators=(",", ":")) if rows else None


def decode_mig(text: str) -> list[MigInstance]:
    """The instances. Raises ValueError for an incomplete, half-realised or repeated one."""
    if not text:
        return []
    found: list[MigInstance] = []
    seen = set()
    for row in json.loads(text) or []:
        key = (row.get("containerIndex") or 0, row.get("deviceIndex") or 0)
        spot = row.get("placement") or {}
        placement = Placement(spot.get("start") or 0, spot.get("size") or 0)
        if min(key) < 0 or not row.get("gpuUUID") or not row.get("profile") or not placement.size:
            raise ValueError("a MIG allocation is incomplete")
        realised = [
            bool(row.get("migUUID")),
            row.get("gpuInstanceID") is not None,
            row.get("computeInstanceID") is not None,
        ]
        if any(realised) and not all(realised):
            raise ValueError("a MIG allocation has a partial runtime identity")
        if key in seen:
            raise ValueError("a MIG allocation is there twice")
        seen.add(key)
        found.append(MigInstance(row["gpuUUID"], row["profile"], placement))
    return found


def taken_by(containers: Containers, init_containers: int, *, init_done: bool = False) -> tuple[Taken, ...]:
    """What the pod takes of each card, by UUID; after its init containers have ended only what the others have."""
    peaks: dict[str, Taken] = {}
    sums: dict[str, Taken] = {}
    for index, devices in enumerate(containers):
        for device in devices:
            if index < init_containers:
                had = peaks.get(device.uuid, Taken(device.uuid, 0, 0, 1))
                peaks[device.uuid] = Taken(
                    device.uuid, max(had.memory_mib, device.memory_mib), max(had.cores, device.cores), 1
                )
            else:
                had = sums.get(device.uuid, Taken(device.uuid, 0, 0, 0))
                sums[device.uuid] = Taken(
                    device.uuid, had.memory_mib + device.memory_mib, had.cores + device.cores, had.slots + 1
                )
    if init_done:
        return tuple(sums[uuid] for uuid in sorted(sums))
    return tuple(_greater(uuid, peaks, sums) for uuid in sorted(peaks.keys() | sums.keys()))


def _greater(uuid: str, *sides: Mapping[str, Taken]) -> Taken:
    found = [side[uuid] for side in sides if uuid in side]
    return Taken(
        uuid,
        _most(taken.memory_mib for taken in found),
        _most(taken.cores for taken in found),
        max(1, _most(taken.slots for taken in found)),
    )


def _most(values: Iterable[int]) -> int:
    return max(0, *values)
