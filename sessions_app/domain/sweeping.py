"""What a cluster has against what anybody wants: what to write again, what to end, where the rows are behind.

Guarantees: a pod that is wanted, or whose end its cluster was told already, is never in `ends`; neither is one that was
known to be gone after the cluster looked. What is in `ends` is judged as a whole (`refuses`): more than can be believed is
ended only when somebody confirms. Pure: rows in, a plan out; whoever carries it out judges each session again under its lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from cluster.domain.told import Told
from gshare_core.contract import BELIEVED_ENDS, is_absurd

LAST_GENERATION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """The run that a session holds a place for on this cluster, and the generation of what is wanted of it.

    `lives`: it is meant to be there, so that its absence means something.
    """

    run: int
    generation: int
    lives: bool


@dataclass(frozen=True, slots=True)
class Pod:
    """A run that the cluster listed, with the newest generation that its operator has observed of it."""

    session: UUID
    run: int
    generation: int


@dataclass(frozen=True, slots=True)
class Scene:
    """One cluster. `listed` are its pods as of `observed_at`; `gone` says of the runs in the rows when they were gone.

    `all_listed`: what is not listed does not exist. `orphans` are the ended runs that still block a card, by session.
    """

    wanted: Mapping[UUID, Wanted]
    told: Mapping[UUID, Told]
    listed: tuple[Pod, ...]
    observed_at: datetime
    all_listed: bool
    gone: Mapping[tuple[UUID, int], datetime | None]
    orphans: Mapping[UUID, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class End:
    """A run that nobody wants. `known`: the rows have it; `listed`: a pod of it exists."""

    session: UUID
    run: int
    generation: int
    known: bool
    listed: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """`ends`: what to end, one a session; `pending`: listed pods whose end stands in a tombstone already and is under way.

    `write`: sessions whose document is missing or older than what is wanted. `ahead`: the newest (run, generation)
    that the cluster has seen of sessions whose rows are older. `quiet`: sessions whose run should be there and is not
    listed. `bury`: ends that only have to be written again, since nothing of them is listed.
    """

    ends: tuple[End, ...]
    pending: int
    write: tuple[UUID, ...]
    ahead: Mapping[UUID, tuple[int, int]]
    quiet: tuple[UUID, ...]
    bury: tuple[End, ...]


def plan(scene: Scene, *, settle_before: datetime) -> Plan:
    """What to do about a cluster. Documents written after `settle_before` are too young for an absence to mean anything."""
    ends = tuple(_ends(scene))
    ending = {end.session for end in ends}
    listed = {(pod.session, pod.run) for pod in scene.listed}
    ahead = _ahead(scene)
    return Plan(
        ends=ends,
        pending=sum(_is_pending(scene, pod) for pod in scene.listed),
        write=tuple(
            sorted(
                session
                for session, wanted in scene.wanted.items()
                if session not in ahead and _lacks(scene, session, wanted)
            )
        ),
        ahead=ahead,
        quiet=tuple(
            sorted(
                session
                for session, wanted in scene.wanted.items()
                if wanted.lives
                and session not in ahead
                and (session, wanted.run) not in listed
                and _is_settled(scene, session, settle_before)
            )
        ),
        bury=tuple(
            End(session, run, generation, known=True, listed=False)
            for session, (run, generation) in sorted(scene.orphans.items())
            if session not in scene.told and session not in scene.wanted and session not in ending
        ),
    )


def refuses(plan: Plan, listed: int, *, percent: int, restored: bool) -> bool:
    """Whether ending all of this is absurd: more than `percent` of what the cluster runs, with a floor for small clusters.

    What is already on its way counts too, so that no cluster is torn down in small bites.

    The floor counts only ends that the rows themselves know of: a run without any row speaks for an empty or restored
    database. One that is known to be `restored` ends nothing unasked.
    """
    if not plan.ends or restored:
        return bool(plan.ends)
    total = len(plan.ends) + plan.pending
    believed = BELIEVED_ENDS if all(end.known for end in plan.ends) else 0
    return is_absurd(total, max(listed, total), percent=percent, believed=believed)


def _ends(scene: Scene) -> Iterator[End]:
    """By session, the newest run that exists or is kept alive although nobody wants it and nobody has told it to end."""
    found: dict[UUID, list[Pod]] = {}
    for pod in scene.listed:
        if _is_stray(scene, pod):
            found.setdefault(pod.session, []).append(pod)
    standing = {
        session: Pod(session, told.run, told.generation)
        for session, told in scene.told.items()
        if not told.ends and (session not in scene.wanted or session in found)
    }
    for session in sorted(found.keys() | standing.keys()):
        pods = found.get(session, [])
        newest = max(
            (pod.run, pod.generation) for pod in (*pods, *([standing[session]] if session in standing else []))
        )
        yield End(
            session,
            newest[0],
            min(newest[1] + 1, LAST_GENERATION),
            known=(session, newest[0]) in scene.gone,
            listed=bool(pods),
        )


def _is_stray(scene: Scene, pod: Pod) -> bool:
    """Whether nobody wants the pod, and nothing that its cluster is told ends it."""
    wanted, told = scene.wanted.get(pod.session), scene.told.get(pod.session)
    if wanted is not None and wanted.run >= pod.run:
        return False  # it is the wanted one, or the later run's document ends it
    if told is not None and told.ends and told.run >= pod.run:
        return False
    gone_at = scene.gone.get((pod.session, pod.run))
    return gone_at is None or gone_at < scene.observed_at  # else it was gone after the cluster looked


def _is_pending(scene: Scene, pod: Pod) -> bool:
    told = scene.told.get(pod.session)
    return told is not None and told.is_tombstone and not told.is_confirmed and told.run >= pod.run


def _lacks(scene: Scene, session: UUID, wanted: Wanted) -> bool:
    told = scene.told.get(session)
    return told is None or (told.run, told.generation) != (wanted.run, wanted.generation)


def _ahead(scene: Scene) -> dict[UUID, tuple[int, int]]:
    """Where the cluster has seen more of a session than its row says."""
    seen: dict[UUID, tuple[int, int]] = {}
    for pod in scene.listed:
        seen[pod.session] = max(seen.get(pod.session, (0, 0)), (pod.run, pod.generation))
    for session, told in scene.told.items():
        seen[session] = max(seen.get(session, (0, 0)), (told.run, told.generation))
    return {
        session: order
        for session, order in sorted(seen.items())
        if (wanted := scene.wanted.get(session)) is not None and order > (wanted.run, wanted.generation)
    }


def _is_settled(scene: Scene, session: UUID, settle_before: datetime) -> bool:
    told = scene.told.get(session)
    if told is None or not scene.all_listed:
        return False
    return told.written_at <= settle_before and told.written_at < scene.observed_at
