"""Reading objects of Kubernetes without believing that anything is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cluster.domain.amounts import amount
from gshare_core.contract import LABEL_SESSION

Object = Mapping[str, Any]


def part(thing: object, *keys: str) -> Object:
    """The object at a path of keys; an empty one where there is none."""
    for key in keys:
        thing = thing.get(key) if isinstance(thing, Mapping) else None
    return thing if isinstance(thing, Mapping) else {}


def rows(thing: object, *keys: str) -> Sequence[Object]:
    """The objects of the list at a path of keys; none where there is none."""
    *above, last = keys
    found = part(thing, *above).get(last)
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list) else []


def text(thing: object, *keys: str) -> str:
    """The text at a path of keys; empty where there is none."""
    *above, last = keys
    found = part(thing, *above).get(last)
    return found if isinstance(found, str) else ""


def number(thing: object, *keys: str) -> int:
    """The whole number at a path of keys; 0 where there is none."""
    *above, last = keys
    found = part(thing, *above).get(last)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def moment(thing: object, *keys: str) -> datetime | None:
    """The time at a path of keys; None where there is none or it cannot be read."""
    try:
        found = datetime.fromisoformat(text(thing, *keys))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def name(thing: object) -> str:
    """The name of an object."""
    return text(thing, "metadata", "name")


def full_name(thing: object) -> str:
    """Namespace and name of an object."""
    return f"{text(thing, 'metadata', 'namespace') or 'default'}/{name(thing)}"


def annotation(thing: object, key: str) -> str | None:
    """An annotation's text; None where there is none."""
    found = part(thing, "metadata", "annotations").get(key)
    return found if isinstance(found, str) else None


def label(thing: object, key: str) -> str | None:
    """A label's text; None where there is none."""
    found = part(thing, "metadata", "labels").get(key)
    return found if isinstance(found, str) else None


def session_of(pod: Object) -> UUID | None:
    """The session that a pod is labelled with; None for a foreign one."""
    try:
        return UUID(label(pod, LABEL_SESSION) or "")
    except ValueError:
        return None


def condition(thing: object, kind: str) -> Object:
    """The condition of that type; an empty object where there is none."""
    return next((found for found in rows(thing, "status", "conditions") if found.get("type") == kind), {})


def in_order(events: Sequence[Object]) -> list[Object]:
    """Events by the time at which they were last seen, oldest first; those without a time come first."""
    return sorted(events, key=lambda event: max(_times(event), default=_LONG_AGO))


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _times(event: Object) -> list[datetime]:
    found = (
        moment(event, "lastTimestamp"),
        moment(event, "eventTime"),
        moment(event, "series", "lastObservedTime"),
        moment(event, "metadata", "creationTimestamp"),
    )
    return [at for at in found if at is not None]


def has_ended(pod: Object) -> bool:
    """Whether nothing of the pod runs any more by its own phase."""
    return text(pod, "status", "phase") in ("Succeeded", "Failed")


def asks(pod: Object, resource: str) -> int:
    """How much of a resource the pod needs, in its own unit, rounded up: cores of CPU are given in thousandths.

    As the scheduler counts it: the greater of what the containers and sidecars ask together and of what one init container
    asks beside the sidecars.
    """
    before = rows(pod, "spec", "initContainers")
    sidecars = sum(_asked(each, resource) for each in before if each.get("restartPolicy") == "Always")
    together = sum(_asked(container, resource) for container in rows(pod, "spec", "containers"))
    alone = max((_asked(each, resource) for each in before if each.get("restartPolicy") != "Always"), default=0)
    return max(together, alone) + sidecars + _scaled(part(pod, "spec", "overhead").get(resource), resource)


def _asked(container: Object, resource: str) -> int:
    for kind in ("requests", "limits"):
        given = part(container, "resources", kind).get(resource)
        if given is not None:
            return _scaled(given, resource)
    return 0


def _scaled(quantity: object, resource: str) -> int:
    value = amount(quantity)
    if value is None or value <= 0:
        return 0
    return -int(-(value * (1000 if resource == "cpu" else 1)) // 1)
