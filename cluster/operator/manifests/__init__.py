"""The Kubernetes objects of a session, as plain dictionaries: a function of its document, its resource and the settings.

Guarantees
* the pod has one container, and with cards it is the one that asks for them; all of count, memory, cores and mode are
  always said, and the cards by UUID; the node by its label, never by `nodeName`; a borrower asks HAMi for nothing;
* no annotation of HAMi's (`hami.io/…`) is written, and no variable that switches its limits off;
* the *restricted* Pod Security profile, relaxed to *baseline* only for a document that says privileged and has no card;
* everything but storage claims belongs to the custom resource (owner reference) and carries labels of session and run;
* quantities are written as Kubernetes keeps them, so that `needs_apply` can compare what is wanted with what is seen.
Refuses (`Unbuildable`): privileged with cards, MIG instances or borrowed cards in shapes they do not have, reserved variables.

Parts: `settings`, `gpu` (cards), `environment`, `pod`, `access` (secret, service, ingresses), `network`, `storage`, `stamps`
(owner, labels, comparison).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cluster.operator.manifests.access import ingresses, secret, service
from cluster.operator.manifests.gpu import Unbuildable
from cluster.operator.manifests.network import network_policy
from cluster.operator.manifests.pod import pod, pod_name
from cluster.operator.manifests.settings import (
    IngressSettings,
    ManifestSettings,
    NetworkSettings,
    PodSettings,
    nginx_profile,
)
from cluster.operator.manifests.stamps import Manifest, Owner, applied_mark, as_it_was_born, needs_apply
from cluster.operator.manifests.storage import claims
from gshare_core.contract import SessionSpec

__all__ = [
    "IngressSettings",
    "Manifest",
    "ManifestSettings",
    "Manifests",
    "NetworkSettings",
    "Owner",
    "PodSettings",
    "Unbuildable",
    "applied_mark",
    "as_it_was_born",
    "ingresses",
    "manifests_of",
    "needs_apply",
    "nginx_profile",
    "pod_name",
]


@dataclass(frozen=True, slots=True)
class Manifests:
    """What a run needs. `lasting` outlives the session, `around` is applied until it is as wanted, `pod` is made once, `ways`
    lead to it, and nothing needs them before it is ready."""

    lasting: tuple[Manifest, ...]
    around: tuple[Manifest, ...]
    pod: Manifest
    ways: tuple[Manifest, ...]


def manifests_of(
    spec: SessionSpec,
    owner: Owner,
    token: str,
    settings: ManifestSettings,
    *,
    claim_gib: Mapping[str, int] | None = None,
    profile_mib: int | None = None,
) -> Manifests:
    """The objects of the document's run.

    `token`: the app token of session and run. `claim_gib`: sizes of claims that exist, which never shrink. `profile_mib`:
    memory of the MIG profile that the claim names, where it is known. Raises `Unbuildable`.
    """
    return Manifests(
        lasting=claims(spec, settings, claim_gib or {}),
        around=(
            secret(spec, owner, token, settings),
            network_policy(spec, owner, settings),
            service(spec, owner, settings),
        ),
        pod=pod(spec, owner, settings, profile_mib=profile_mib),
        ways=ingresses(spec, owner, settings),
    )
