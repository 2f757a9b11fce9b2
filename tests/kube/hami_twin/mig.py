"""Which MIG instance a request gets: the smallest profile with enough memory that has a free place now.

Profiles of one and three slices prefer the highest start, the others the lowest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.kube.hami_twin.register import Placement, Profile


def choose(
    profiles: Sequence[Profile], occupied: Iterable[Placement], memory_mib: int
) -> tuple[Profile, Placement] | None:
    """The profile and its place; None when nothing that is large enough has one."""
    taken = list(occupied)
    for profile in sorted(profiles, key=lambda profile: (profile.memory_mib, profile.slices)):
        if profile.memory_mib < memory_mib:
            continue
        place = _place(profiles, taken, profile.name)
        if place is not None:
            return profile, place
    return None


def _place(profiles: Sequence[Profile], occupied: Sequence[Placement], name: str) -> Placement | None:
    named = next(profile for profile in profiles if profile.name == name)
    high = name.startswith(("1g.", "3g."))
    for place in sorted(named.placements, key=lambda place: -place.start if high else place.start):
        if not any(place.overlaps(other) for other in occupied):
            return place
    return None
