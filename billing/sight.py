"""Who may know of what passes, or was promised, between a wallet and its parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Q

from accounts.permissions import administered_groups, administered_organisations

if TYPE_CHECKING:
    from accounts.models import User


def between_wallets(viewer: User) -> Q:
    """Of rows with `wallet` and `parent`: one's own, and those to and from the places that one administers.

    A person may sit in places of several administrators: none of them learns what the others' places give him. All for super
    administrators.
    """
    if viewer.is_super_admin:
        return Q()
    groups, organisations = administered_groups(viewer).values("pk"), administered_organisations(viewer).values("pk")
    return (
        Q(wallet__user=viewer)
        | Q(wallet__group__in=groups)
        | Q(wallet__organisation__in=organisations)
        | Q(parent__group__in=groups)
        | Q(parent__organisation__in=organisations)
    )
