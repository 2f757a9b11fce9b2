"""Sharing a volume with named people and groups.

Guarantees: a share names one person or one group of the tenant that the volume belongs to, so that nothing leaves it;
sharing again changes the mode. Ending a share, or taking the writing out of it, ends the right at once: the volume is
gone from lists and mounts with the commit, and an intent has the sessions that mount it without a right ended above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.permissions import visible_groups
from cluster.models import Volume, VolumeShare
from cluster.services.authority import held_standing
from cluster.services.drains import open_volume_drain
from cluster.services.volumes import locked_for, record_volume
from gshare_core.errors import invalid, not_found
from gshare_core.kit import clock, live
from gshare_core.kit.locks import ordered

if TYPE_CHECKING:
    from accounts.models import Group, User


@dataclass(frozen=True, slots=True)
class ShareWish:
    """With whom, and how: one of `user_id`, `email`, `group_id`; mode `ro` or `rw`."""

    mode: str
    user_id: UUID | None = None
    email: str = ""
    group_id: UUID | None = None


def share_volume(*, by: User, volume_id: UUID, wish: ShareWish) -> VolumeShare:
    """Let somebody else mount a volume. Raises `not_found`, `forbidden`, `invalid`."""
    if wish.mode not in VolumeShare.Mode.values:
        raise invalid("mode", _("Choose ro or rw."))
    with ordered():
        standing = held_standing(by)
        volume = locked_for(by, standing, volume_id)
        if volume.access == Volume.Access.ROX and wish.mode == VolumeShare.Mode.READ_WRITE:
            raise invalid("mode", _("This volume can only be read."))
        user, group = _whom(by, volume, wish)
        at = clock.now()
        share = VolumeShare.objects.filter(volume=volume, user=user, group=group).first()
        before = {"mode": share.mode} if share else None
        if share is None:
            share = VolumeShare(volume=volume, user=user, group=group, created_at=at)
        takes_away = share.mode == VolumeShare.Mode.READ_WRITE and wish.mode == VolumeShare.Mode.READ_ONLY
        share.mode = wish.mode
        share.save()
        if takes_away:
            open_volume_drain(volume, at=at)
        record_volume(by, "volume.share", volume, at, {"mode": wish.mode, **_named(share)}, before)
        _show(share)
    return share


def end_share(*, by: User, volume_id: UUID, share_id: UUID) -> None:
    """End a share; the sessions that mount the volume by it are paused. Raises `not_found`, `forbidden`."""
    with ordered():
        standing = held_standing(by)
        volume = locked_for(by, standing, volume_id)
        share = VolumeShare.objects.filter(pk=share_id, volume=volume).select_related("user", "group").first()
        if share is None:
            raise not_found("share")
        at = clock.now()
        VolumeShare.objects.filter(pk=share.pk).delete()
        open_volume_drain(volume, at=at)
        record_volume(by, "volume.unshare", volume, at, {}, {"mode": share.mode, **_named(share)})
        _show(share)


def _named(share: VolumeShare) -> dict[str, str]:
    """With whom, as the audit trail says it."""
    if share.user is not None:
        return {"user": share.user.email}
    return {"group": share.group.name if share.group else ""}


def _show(share: VolumeShare) -> None:
    """Have the pages of the person look again; a group's people see it at their pages' next look."""
    if share.user_id is not None:
        live.poke(f"sessions:{share.user_id}")


def _whom(by: User, volume: Volume, wish: ShareWish) -> tuple[User | None, Group | None]:
    """The person or group, if it belongs to the volume's organisation; others look like nobody."""
    given = [bool(wish.user_id), bool(wish.email), bool(wish.group_id)]
    if given.count(True) != 1:
        raise invalid("user", _("Name one person or one group."))
    organisation_id = _tenant(volume)
    if wish.group_id:
        groups = visible_groups(by).filter(organisation_id=organisation_id, is_active=True)
        group = groups.filter(pk=wish.group_id).first()
        if group is None:
            raise invalid("group", _("There is no such group in the volume's organisation."))
        return None, group
    named = Q(pk=wish.user_id) if wish.user_id else Q(email__iexact=wish.email.strip())
    belongs = Q(organisation_id=organisation_id) | Q(memberships__group__organisation_id=organisation_id)
    user = get_user_model().objects.filter(named, belongs, is_active=True).distinct().first()
    if user is None:
        raise invalid("user", _("There is no such person in the volume's organisation."))
    if user.pk == volume.owner_id:
        raise invalid("user", _("The volume is this person's own."))
    return user, None


def _tenant(volume: Volume) -> UUID:
    """The organisation that a volume belongs to; shares of somebody without a home reach nobody."""
    if volume.group is not None:
        return volume.group.organisation_id
    home = volume.owner.organisation_id if volume.owner else None
    if home is None:
        raise invalid("user", _("A volume of somebody without a home organisation cannot be shared."))
    return home
