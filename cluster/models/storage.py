"""Volumes, who may mount them, and who does.

Guarantees by constraint: a volume belongs to one person or to one group; a single-writer volume has one holder at most,
because its open attachment is unique; a share names one person or one group.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Upper
from django.utils.translation import gettext_lazy as _

from cluster.models.metal import Cluster
from gshare_core.kit.fields import Identified


class VolumeQuerySet(models.QuerySet["Volume"]):
    """Filters that more than one place uses."""

    def live(self) -> VolumeQuerySet:
        """Not deleted."""
        return self.filter(deleted_at=None)

    def stored(self) -> VolumeQuerySet:
        """Deleted ones that can still be restored too: what takes space."""
        return self.filter(purged_at=None)


class Volume(Identified):
    """A volume: of a person (`owner`, no group) or of a group; bound to one cluster. `claim` is its name there."""

    class Kind(models.TextChoices):
        HOME = "home", _("home")
        DATA = "data", _("data")
        SCRATCH = "scratch", _("scratch")

    class Access(models.TextChoices):
        RWO = "rwo", _("single writer")
        RWX = "rwx", _("shared, read and write")
        ROX = "rox", _("shared, read only")

    name = models.CharField(max_length=63)
    kind = models.CharField(max_length=7, choices=Kind)
    access = models.CharField(max_length=3, choices=Access)
    size_gib = models.PositiveIntegerField()
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="volumes")
    owner = models.ForeignKey("accounts.User", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    group = models.ForeignKey("accounts.Group", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    claim = models.CharField(max_length=63, unique=True)
    storage_class = models.CharField(max_length=253, blank=True)
    created_by = models.ForeignKey("accounts.User", on_delete=models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)
    purged_at = models.DateTimeField(null=True, blank=True)
    removed_at = models.DateTimeField(null=True, blank=True)  # when the cluster no longer had its claim

    objects = VolumeQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="volume_belongs_to_one",
                condition=Q(owner__isnull=False, group=None) | Q(owner=None, group__isnull=False),
            ),
            models.CheckConstraint(name="volume_has_size", condition=Q(size_gib__gte=1)),
            models.CheckConstraint(name="volume_is_named", condition=~Q(name="")),
            models.CheckConstraint(
                name="volume_deleted_after_created",
                condition=Q(deleted_at=None) | Q(deleted_at__gte=F("created_at")),
            ),
            models.CheckConstraint(
                name="volume_purged_after_deleted",
                condition=Q(purged_at=None) | Q(purged_at__gte=F("deleted_at"), deleted_at__isnull=False),
            ),
            models.CheckConstraint(
                name="volume_removed_after_purged",
                condition=Q(removed_at=None) | Q(purged_at__isnull=False, removed_at__gte=F("purged_at")),
            ),
            models.UniqueConstraint(
                Lower("name"), "owner", "cluster", condition=Q(deleted_at=None), name="volume_name_once_of_owner"
            ),
            models.UniqueConstraint(
                Lower("name"), "group", "cluster", condition=Q(deleted_at=None), name="volume_name_once_of_group"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["owner", "created_at", "id"], name="volume_of_owner"),
            models.Index(fields=["group", "created_at", "id"], name="volume_of_group"),
            models.Index(fields=["created_at", "id"], name="volume_by_age"),
            models.Index(fields=["name", "id"], name="volume_by_name"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="volume_name_words"),
            models.Index(
                fields=["deleted_at"], condition=Q(purged_at=None, deleted_at__isnull=False), name="volume_to_purge"
            ),
            models.Index(
                fields=["cluster"], condition=Q(purged_at__isnull=False, removed_at=None), name="volume_to_remove"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_single_writer(self) -> bool:
        """Whether one session at a time may hold it."""
        return self.access == Volume.Access.RWO


class VolumeShare(Identified):
    """Somebody else's right to mount a volume: a person's or a group's, read only or read and write."""

    class Mode(models.TextChoices):
        READ_ONLY = "ro", _("read only")
        READ_WRITE = "rw", _("read and write")

    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="shares")
    user = models.ForeignKey("accounts.User", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    group = models.ForeignKey("accounts.Group", on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    mode = models.CharField(max_length=2, choices=Mode)
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="volume_share_names_one",
                condition=Q(user__isnull=False, group=None) | Q(user=None, group__isnull=False),
            ),
            models.UniqueConstraint(fields=["volume", "user"], name="volume_share_user_once"),
            models.UniqueConstraint(fields=["volume", "group"], name="volume_share_group_once"),
        ]

    def __str__(self) -> str:
        return f"{self.volume_id} {self.mode}"


class VolumeDrain(Identified):
    """Somebody lost a right to a volume: what runs above and mounts it without a right must still be ended there."""

    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="+")
    changed_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["volume"], condition=Q(closed_at=None), name="volume_drain_open_once"),
            models.CheckConstraint(
                name="volume_drain_closed_later", condition=Q(closed_at=None) | Q(closed_at__gte=F("changed_at"))
            ),
        ]

    def __str__(self) -> str:
        return str(self.volume_id)


class Attachment(Identified):
    """A run's mount of a volume, from its admission to the day its resources came back."""

    volume = models.ForeignKey(Volume, on_delete=models.PROTECT, related_name="attachments")
    session_id = models.UUIDField()
    run_id = models.UUIDField()
    path = models.CharField(max_length=255)
    mode = models.CharField(max_length=2, choices=VolumeShare.Mode)
    is_sole = models.BooleanField()  # of a single-writer volume
    attached_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["volume"], condition=Q(is_sole=True, released_at=None), name="attachment_one_holder"
            ),
            models.UniqueConstraint(
                fields=["volume", "run_id"], condition=Q(released_at=None), name="attachment_once_of_run"
            ),
            models.CheckConstraint(
                name="attachment_released_after_attached",
                condition=Q(released_at=None) | Q(released_at__gte=F("attached_at")),
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["run_id"], condition=Q(released_at=None), name="attachment_held_of_run"),
        ]

    def __str__(self) -> str:
        return f"{self.volume_id} in {self.session_id}"
