"""What happened: audit entries with their seals, and what people were told.

Guarantees: an audit entry has at most one seal, and seals are numbered without repetition. Audit tables are insert-only:
the serving role has no other right, and a trigger says so again.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from accounts.models.columns import EMAIL_LENGTH, NAME_LENGTH, trigram
from accounts.models.people import User
from gshare_core.kit.fields import Identified


class AuditEntry(Identified):
    """Who did what to whom, from where, with what before and after. Written in the acting transaction, never changed."""

    at = models.DateTimeField(_("at"))
    actor_id = models.UUIDField(_("actor's id"), null=True, blank=True)
    actor_label = models.CharField(_("actor"), max_length=EMAIL_LENGTH)
    act = models.CharField(_("act"), max_length=64)
    target_kind = models.CharField(_("kind of target"), max_length=32)
    target_id = models.CharField(_("target's id"), max_length=64, blank=True)
    target_label = models.CharField(_("target"), max_length=300, blank=True)
    organisation_id = models.UUIDField(_("organisation's id"), null=True, blank=True)
    organisation_label = models.CharField(_("organisation"), max_length=NAME_LENGTH, blank=True)
    group_id = models.UUIDField(_("group's id"), null=True, blank=True)
    group_label = models.CharField(_("group"), max_length=NAME_LENGTH, blank=True)
    before = models.JSONField(_("before"), null=True, blank=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(_("after"), null=True, blank=True, encoder=DjangoJSONEncoder)
    reason = models.TextField(_("reason"), blank=True)
    address = models.GenericIPAddressField(_("address"), null=True, blank=True)
    request_id = models.CharField(_("request"), max_length=64, blank=True)

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        indexes: ClassVar = [
            models.Index(fields=["organisation_id", "id"], name="audit_by_organisation"),
            models.Index(fields=["group_id", "id"], name="audit_by_group"),
            models.Index(fields=["actor_id", "id"], name="audit_by_actor"),
            models.Index(fields=["target_kind", "target_id", "id"], name="audit_by_target"),
            models.Index(fields=["act", "id"], name="audit_by_act"),
            models.Index(fields=["at", "id"], name="audit_by_time"),
            trigram("actor_label", "audit_actor_words"),
            trigram("target_label", "audit_target_words"),
        ]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor_label} {self.act} {self.target_label}"


class AuditSeal(models.Model):
    """One link of the chain: `hash` covers the entry and the hash of seal `seq - 1`. Never changed."""

    seq = models.BigIntegerField(_("number"), primary_key=True)
    entry = models.OneToOneField(AuditEntry, models.PROTECT, related_name="seal", verbose_name=_("entry"))
    hash = models.CharField(_("hash"), max_length=64)
    sealed_at = models.DateTimeField(_("sealed"))

    class Meta:
        verbose_name = _("audit seal")
        verbose_name_plural = _("audit seals")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(seq__gte=1), name="audit_seal_counts_from_1"),
            models.CheckConstraint(condition=Q(hash__regex=r"^[0-9a-f]{64}$"), name="audit_seal_is_sha256"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.hash[:12]}"


class Notification(Identified):
    """Something a person should know, until he has read it."""

    user = models.ForeignKey(User, models.PROTECT, related_name="notifications", verbose_name=_("user"))
    kind = models.CharField(_("kind"), max_length=32)
    title = models.CharField(_("title"), max_length=200)
    body = models.TextField(_("text"), blank=True)
    link = models.CharField(_("link"), max_length=500, blank=True)
    at = models.DateTimeField(_("at"))
    read_at = models.DateTimeField(_("read"), null=True, blank=True)

    class Meta:
        verbose_name = _("notification")
        verbose_name_plural = _("notifications")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(read_at=None) | Q(read_at__gte=F("at")), name="notification_read_later")
        ]
        indexes: ClassVar = [
            models.Index(fields=["user", "at", "id"], name="notification_by_user"),
            models.Index(fields=["user", "id"], condition=Q(read_at=None), name="notification_unread"),
        ]

    def __str__(self) -> str:
        return self.title
