"""Registering, judging and leaving clusters.

Guarantees: what is used is not removed; a state gets worse by silence only, our own deafness apart, and better by a beat
only; whatever changes what may be placed is told to all processes in the same transaction. A kubeconfig is the name of a
reference: its content never comes near a row, an answer or an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError
from django.db.models import F
from django.utils.translation import gettext as _

from accounts import audit
from accounts.permissions import Act
from cluster import tokens
from cluster.heartbeat import silent_for
from cluster.models import Card, Claim, Cluster, Desired, Node, Pool, Sequence, Volume
from cluster.models.metal import NAME_PATTERN
from cluster.sequence import tell_of_metal
from cluster.services.authority import authorise
from gshare_core.errors import DomainError, invalid, not_found
from gshare_core.kit import clock
from gshare_core.kit.locks import Rank, attempt, lock_name, lock_rows, ordered
from gshare_core.kit.uses import refuse_used, uses_of

if TYPE_CHECKING:
    from accounts.models import User

SHARED_POOL = "shared"
_STORAGE_CLASS = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class StateChange:
    """A cluster whose state the sweep changed."""

    cluster_id: UUID
    before: str
    after: str


def register_cluster(
    *,
    by: User | None,
    name: str,
    kind: str = Cluster.Kind.LOCAL,
    kubeconfig: str = "",
    storage_classes: Mapping[str, str] | None = None,
) -> Cluster:
    """Make a cluster known, `pending` until its operator speaks, with a shared pool for its nodes.

    Raises DomainError: `forbidden`, `invalid` (names the field, never its value), `conflict` for a name that is taken.
    """
    fields = {"name": name, "kind": kind, "kubeconfig": kubeconfig, "storage_classes": dict(storage_classes or {})}
    _check(fields)
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        at = clock.now()
        cluster = Cluster(created_at=at, **fields)
        _save_named(cluster)
        Sequence.objects.create(cluster=cluster)
        Pool.objects.create(cluster=cluster, name=SHARED_POOL, is_shared=True)
        _record(by, "cluster.register", cluster, at, after=_audited(fields))
    return cluster


def change_cluster(*, by: User | None, cluster_id: UUID, fields: Mapping[str, Any]) -> Cluster:
    """Change name, kubeconfig reference or storage classes. Raises as `register_cluster`, and `not_found`."""
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        cluster = _held(cluster_id)
        before = {name: getattr(cluster, name) for name in fields}
        _check({"kind": cluster.kind, "kubeconfig": cluster.kubeconfig, **fields})
        for name, value in fields.items():
            setattr(cluster, name, value)
        _save_named(cluster)
        tell_of_metal(cluster.pk)
        _record(by, "cluster.change", cluster, clock.now(), before=_audited(before), after=_audited(fields))
    return cluster


def remove_cluster(*, by: User | None, cluster_id: UUID) -> None:
    """Take a cluster out of service for good: its tokens end, its nodes and cards may be registered elsewhere.

    Raises DomainError `in_use` while sessions, documents or volumes are on it.
    """
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        lock_name(Rank.VOLUME, f"cluster:{cluster_id}")  # against a volume that is being made here
        nodes = lock_rows(Rank.NODE, Node.objects.filter(cluster_id=cluster_id, retired_at=None))
        cluster = _held(cluster_id)
        _refuse_when_used(cluster)
        at = clock.now()
        Card.objects.filter(node__in=nodes, retired_at=None).update(retired_at=at)
        Node.objects.filter(pk__in=[node.pk for node in nodes]).update(retired_at=at)
        cluster.removed_at, cluster.token_epoch = at, cluster.token_epoch + 1
        cluster.save(update_fields=["removed_at", "token_epoch"])
        tell_of_metal(cluster.pk)
        _record(by, "cluster.remove", cluster, at)


def issue_cluster_token(*, by: User | None, cluster_id: UUID, scope: str) -> tokens.Issued:
    """A first token for one of the cluster's programs, shown once.

    Raises DomainError `forbidden`, `not_found`, `invalid`, or `unavailable` where no key can sign.
    """
    if scope not in tokens.SCOPES:
        raise invalid("scope", _("Choose one of: %(scopes)s.") % {"scopes": ", ".join(sorted(tokens.SCOPES))})
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        cluster = _held(cluster_id)
        at = clock.now()
        issued = tokens.issue_or_refuse(cluster, scope, at=at)
        _record(by, "cluster.issue_token", cluster, at, after={"scope": scope})
    return issued


def revoke_tokens(*, by: User | None, cluster_id: UUID) -> None:
    """End every token of a cluster at once by raising its epoch."""
    with ordered():
        authorise(by, Act.MANAGE_CLUSTERS)
        cluster = _held(cluster_id)
        Cluster.objects.filter(pk=cluster.pk).update(token_epoch=F("token_epoch") + 1)
        _record(by, "cluster.revoke_tokens", cluster, clock.now())


def judge_clusters(*, at: datetime) -> list[StateChange]:
    """Call silent clusters suspect and lost; each in its own transaction. A tick."""
    changed = []
    for cluster in Cluster.objects.present().exclude(last_beat_at=None).order_by("pk"):
        wanted = _judged(cluster, at)
        if wanted is None:
            continue
        with ordered():
            # Compare-and-set: a beat that arrived meanwhile wins.
            same = Cluster.objects.filter(pk=cluster.pk, state=cluster.state, last_beat_at=cluster.last_beat_at)
            if not same.update(state=wanted):
                continue
            tell_of_metal(cluster.pk)
        changed.append(StateChange(cluster.pk, cluster.state, wanted))
    return changed


def _judged(cluster: Cluster, at: datetime) -> str | None:
    """The worse state that a cluster's silence calls for, if any."""
    if cluster.last_beat_at is None:
        return None
    silence = silent_for(cluster.last_beat_at, at)
    if silence >= settings.GSHARE.cluster_lost_after and cluster.state != Cluster.State.LOST:
        return Cluster.State.LOST
    if silence >= settings.GSHARE.cluster_suspect_after and cluster.state == Cluster.State.CONNECTED:
        return Cluster.State.SUSPECT
    return None


def _held(cluster_id: UUID) -> Cluster:
    """The registered cluster, its row locked. Its row has no rank: nothing is locked after it but the counter."""
    cluster = Cluster.objects.present().select_for_update(no_key=True).filter(pk=cluster_id).first()
    if cluster is None:
        raise not_found("cluster")
    return cluster


def _refuse_when_used(cluster: Cluster) -> None:
    own = {
        "sessions": Claim.objects.holding().filter(node__cluster=cluster).values("session_id").distinct().count(),
        "documents": Desired.objects.filter(cluster=cluster).count(),
        "volumes": Volume.objects.stored().filter(cluster=cluster).count(),
    }
    refuse_used(
        own | uses_of("cluster", cluster.pk),
        remedy=_("Cordon its nodes, stop its sessions and delete its volumes first."),
    )


def _check(fields: Mapping[str, Any]) -> None:
    if "name" in fields and not re.fullmatch(NAME_PATTERN, str(fields["name"])):
        raise invalid("name", _("Use 1 to 63 small letters, digits and hyphens."))
    if fields["kind"] not in Cluster.Kind.values:
        raise invalid("kind", _("Choose local or kube."))
    if fields["kubeconfig"] and not re.fullmatch(NAME_PATTERN, str(fields["kubeconfig"])):
        raise invalid("kubeconfig", _("Give the name of a reference: 1 to 63 small letters, digits and hyphens."))
    if (fields["kind"] == Cluster.Kind.KUBE) != bool(fields["kubeconfig"]):
        raise invalid("kubeconfig", _("A Kubernetes cluster needs the name of its kubeconfig, a local one has none."))
    classes = fields.get("storage_classes", {})
    if not isinstance(classes, Mapping) or not classes.keys() <= set(Volume.Kind.values):
        raise invalid("storage_classes", _("Map home, data and scratch to the names of storage classes."))
    if not all(isinstance(name, str) and _STORAGE_CLASS.fullmatch(name) for name in classes.values()):
        raise invalid("storage_classes", _("The name of a storage class is not valid."))


def _save_named(cluster: Cluster) -> None:
    try:
        with attempt():
            cluster.save()
    except IntegrityError as error:
        raise DomainError(
            "conflict", _("There is a cluster of this name already."), remedy=_("Choose another name.")
        ) from error


def _audited(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as the audit trail names them: of a kubeconfig it knows the reference only."""
    return {"kubeconfig_name" if name == "kubeconfig" else name: value for name, value in fields.items()}


def _record(
    by: User | None,
    act: str,
    cluster: Cluster,
    at: datetime,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    audit.record(
        by=by,
        act=act,
        target_kind="cluster",
        target_id=cluster.pk,
        target_label=cluster.name,
        organisation_id=None,
        group_id=None,
        before=before,
        after=after,
        at=at,
    )
