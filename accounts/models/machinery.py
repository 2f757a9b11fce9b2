"""The small machinery that other rooms lean on: first answers, leases, intents."""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from accounts.models.people import Group, Organisation, User
from gshare_core.kit.fields import Identified

KEY_LENGTH = 255


class IdempotencyKey(Identified):
    """The first answer to a request that must not be done twice; written first in the transaction of its effect."""

    user = models.ForeignKey(User, models.PROTECT, related_name="+", verbose_name=_("user"))
    method = models.CharField(_("method"), max_length=7)
    path = models.CharField(_("path"), max_length=500)
    key = models.CharField(_("key"), max_length=KEY_LENGTH)
    body_hash = models.CharField(_("hash of the body"), max_length=64)
    status = models.PositiveSmallIntegerField(_("status"), null=True, blank=True)
    answer = models.JSONField(_("answer"), null=True, blank=True, encoder=DjangoJSONEncoder)
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "method", "path", "key"], name="idempotency_key_once")
        ]
        indexes: ClassVar = [models.Index(fields=["at"], name="idempotency_by_age")]

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.key}"


class Lease(models.Model):
    """Whose turn a named piece of periodic work is, and until when."""

    name = models.CharField(_("name"), max_length=100, primary_key=True)
    holder = models.UUIDField(_("holder"))
    until = models.DateTimeField(_("until"))

    class Meta:
        verbose_name = _("lease")
        verbose_name_plural = _("leases")

    def __str__(self) -> str:
        return f"{self.name} until {self.until:%H:%M:%S}"


class DrainIntent(Identified):
    """What was taken away here must still be ended above: the sessions of a person, a seat, a group, an organisation."""

    class Kind(models.TextChoices):
        USER = "user", _("user")
        MEMBERSHIP = "membership", _("membership")
        GROUP = "group", _("group")
        ORGANISATION = "organisation", _("organisation")

    kind = models.CharField(_("kind"), max_length=12, choices=Kind.choices)
    user = models.ForeignKey(User, models.PROTECT, related_name="+", null=True, blank=True, verbose_name=_("user"))
    group = models.ForeignKey(Group, models.PROTECT, related_name="+", null=True, blank=True, verbose_name=_("group"))
    organisation = models.ForeignKey(
        Organisation, models.PROTECT, related_name="+", null=True, blank=True, verbose_name=_("organisation")
    )
    reason = models.CharField(_("reason"), max_length=32)
    changed_at = models.DateTimeField(_("changed"))
    closed_at = models.DateTimeField(_("closed"), null=True, blank=True)

    class Meta:
        verbose_name = _("drain intent")
        verbose_name_plural = _("drain intents")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(kind="user", user__isnull=False, group=None, organisation=None)
                | Q(kind="membership", user__isnull=False, group__isnull=False, organisation=None)
                | Q(kind="group", user=None, group__isnull=False, organisation=None)
                | Q(kind="organisation", user=None, group=None, organisation__isnull=False),
                name="drain_intent_names_its_subject",
            ),
            models.UniqueConstraint(
                fields=["kind", "user", "group", "organisation"],
                condition=Q(closed_at=None),
                nulls_distinct=False,
                name="drain_intent_open_once",
            ),
            models.CheckConstraint(
                condition=Q(closed_at=None) | Q(closed_at__gte=F("changed_at")), name="drain_intent_closed_later"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["id"], condition=Q(closed_at=None), name="drain_intent_open")]

    def __str__(self) -> str:
        return f"{self.kind} {self.user_id or ''} {self.group_id or ''} {self.organisation_id or ''}"
