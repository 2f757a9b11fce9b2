"""The sweep's brake: refusing to end more than can be believed, and an administrator's word that it is meant.

Guarantees: what is refused stands on the cluster's row until it is confirmed or shrinks; a confirmation is for as many
ends as the administrator was shown, so that what grows afterwards is refused anew; it is used up by the pass that acts on
it. Raising the alarm and calling it off are logged.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from django.utils.translation import gettext as _

from accounts import audit
from accounts.permissions import Act
from cluster.models import Cluster
from cluster.services.authority import authorise
from gshare_core.errors import DomainError, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import ordered

if TYPE_CHECKING:
    from accounts.models import User

logger = structlog.get_logger(__name__)


def hold_sweep(*, cluster_id: UUID, ends: int, listed: int, at: datetime) -> None:
    """Refuse to end `ends` of `listed` pods, and raise the alarm; repeating it only keeps the figures true."""
    known = Cluster.objects.present().filter(pk=cluster_id)
    if known.filter(sweep_held_at=None).update(sweep_held_at=at):
        logger.error("sweep_refuses", cluster=str(cluster_id), would_end=ends, of=listed)
    known.update(sweep_ends=ends, sweep_listed=listed)


def release_sweep(*, cluster_id: UUID, restored: bool) -> None:
    """The sweep acts again: the alarm ends, a confirmation is used up. `restored` ends that suspicion too."""
    cleared = {"sweep_held_at": None, "sweep_ends": 0, "sweep_listed": 0, "sweep_confirmed": 0}
    if restored:
        cleared["restored_at"] = None
    held = Cluster.objects.filter(pk=cluster_id).exclude(sweep_held_at=None, sweep_confirmed=0, restored_at=None)
    if held.update(**cleared):
        logger.info("sweep_acts", cluster=str(cluster_id))


def note_restored(*, cluster_id: UUID, at: datetime) -> None:
    """An operator has seen changes that this database does not have: until the sweep knows better, it ends nothing."""
    if Cluster.objects.present().filter(pk=cluster_id, restored_at=None).update(restored_at=at):
        logger.error("database_is_older_than_its_cluster", cluster=str(cluster_id))


def confirm_sweep(*, by: User | None, cluster_id: UUID, ends: int) -> Cluster:
    """Say that the sweep shall end as many pods as it refuses to. `ends` is how many the administrator was shown.

    Raises DomainError: `forbidden`, `not_found`, or `conflict` when nothing is refused or the number is another by now.
    """
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        cluster = Cluster.objects.present().select_for_update(no_key=True).filter(pk=cluster_id).first()
        if cluster is None:
            raise not_found("cluster")
        if cluster.sweep_held_at is None or cluster.sweep_ends != ends:
            raise DomainError(
                "conflict",
                _("The sweep would end %(count)s sessions now.") % {"count": cluster.sweep_ends},
                remedy=_("Look at the cluster again, and confirm the number that it shows."),
                facts={"sweep_ends": cluster.sweep_ends, "held": cluster.sweep_held_at is not None},
            )
        cluster.sweep_confirmed = ends
        cluster.save(update_fields=["sweep_confirmed"])
        audit.record(
            by=by,
            act="cluster.confirm_sweep",
            target_kind="cluster",
            target_id=cluster.pk,
            target_label=cluster.name,
            organisation_id=None,
            group_id=None,
            before=None,
            after={"ends": ends, "listed": cluster.sweep_listed},
            at=clock.now(),
        )
    return cluster
