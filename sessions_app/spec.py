"""What a session's cluster is told: the desired document of its current run.

Guarantees: everything in the document comes from the session, its run and the catalogue; limits are those that were
admitted. Pure but for reading the image and the volumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.conf import settings

from accounts import queries as accounts
from accounts.domain.policies import Effective
from catalog import queries as catalog
from cluster import services as cluster
from cluster.queries import known_pools, volumes_by_id
from gshare_core.contract import (
    Access,
    App,
    Deadlines,
    Desired,
    GpuShare,
    HostResources,
    SessionSpec,
    access_secret_name,
)
from sessions_app.models import Run, Session

PORTS = {"lab": 8888, "terminal": 7681, "code": 8080}


def desired_spec(session: Session, run: Run, image: catalog.ImageRow | None = None) -> SessionSpec:
    """The spec of the session's current run, at its current generation; its image is read when left out."""
    limits, image = settings.GSHARE, image or catalog.image(session.image_id)
    assert image is not None, "the foreign key protects it"
    has_card = session.mode != "cpu"
    return SessionSpec(
        session_id=session.pk,
        run=run.number,
        generation=session.generation,
        desired=Desired(session.wanted),
        session_class="gpu" if has_card else "cpu",
        image=image.reference,
        apps=tuple(App(name=name, port=PORTS[name]) for name in image.apps),
        resources=HostResources(
            cpu_milli=session.cpu_milli, memory_mib=session.memory_mib, scratch_gib=session.scratch_gib
        ),
        gpu=_gpu(session, run) if has_card else None,
        node=run.node or None,
        volumes=cluster.volume_mounts(session.mounts),
        access=Access(host=session_host(session.pk), token_secret=access_secret_name(session.pk)),
        privileged=session.privileged,
        deadlines=Deadlines(
            start_seconds=int(limits.start_timeout.total_seconds()),
            pull_seconds=int(limits.pull_timeout.total_seconds()),
            stop_grace_seconds=0 if session.forced else int(limits.stop_grace.total_seconds()),
        ),
        group=session.group_id,
        organisation=session.organisation_id,
    )


def session_host(session_id: object) -> str:
    """The host name of a session's own origin, without port."""
    return f"{session_id}.{settings.GSHARE.sessions_domain}"


def lane_of(session: Session) -> str:
    """The line that this session waits in: its offering and the pools that its group may use, where its volumes are."""
    return lanes_of([session])[session.pk]


def lanes_of(sessions: Sequence[Session]) -> dict[UUID, str]:
    """The lines of several sessions, by session: as `gather` names them at admission."""
    first = {session.pk: volume for session in sessions if (volume := _first_volume(session)) is not None}
    volumes = volumes_by_id(set(first.values())) if first else {}
    bound = accounts.effective_of(((session.owner_id, session.group_id) for session in sessions), ("shared_pool",))
    pools, keys = known_pools(), dict[tuple[UUID, UUID, UUID | None, bool], str]()
    lanes = {}
    for session in sessions:
        mounted = volumes.get(first[session.pk]) if session.pk in first else None
        where = session.cluster_id or (mounted.cluster_id if mounted else None)
        shared = shared_pool_open(bound[session.owner_id, session.group_id])
        whose = (session.group_id, session.organisation_id, where, shared)
        if whose not in keys:
            eligible = pools.eligible(
                group_id=session.group_id, organisation_id=session.organisation_id, shared=shared, cluster_id=where
            )
            keys[whose] = eligible.lane_key
        lanes[session.pk] = f"{session.offering_id}|{keys[whose]}"
    return lanes


def shared_pool_open(effective: Mapping[str, Effective]) -> bool:
    """Whether the shared pools are open to whom these values bind; unset they are."""
    value = effective["shared_pool"].value
    return value is None or value > 0


def _first_volume(session: Session) -> UUID | None:
    """The volume whose cluster is the session's; None without one, or where the row cannot be read."""
    try:
        return UUID(session.mounts[0]["volume"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _gpu(session: Session, run: Run) -> GpuShare:
    return GpuShare(
        mode="exclusive" if session.mode == "exclusive" else "fractional",
        node=run.node,
        cards=tuple(run.card_uuids),
        vram_mib=session.vram_mib,
        core_percent=session.core_percent,
    )
