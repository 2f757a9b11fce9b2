"""Limits as rows: one policy per scope, one value per kind and field."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.domain.policies import COUNTED, FIELDS, FLAGS, MAX_VALUE, Kind, ScopeKind
from accounts.models.columns import is_one_of
from accounts.models.people import Group, Organisation, User
from gshare_core.kit.fields import Identified


class Policy(Identified):
    """The limits that one scope sets; its numbers are `PolicyValue` rows."""

    scope_kind = models.CharField(_("scope"), max_length=12, choices=[(kind.value, kind.value) for kind in ScopeKind])
    organisation = models.OneToOneField(
        Organisation, models.PROTECT, related_name="policy", null=True, blank=True, verbose_name=_("organisation")
    )
    group = models.OneToOneField(
        Group, models.PROTECT, related_name="policy", null=True, blank=True, verbose_name=_("group")
    )
    user = models.OneToOneField(
        User, models.PROTECT, related_name="policy", null=True, blank=True, verbose_name=_("user")
    )
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("policy")
        verbose_name_plural = _("policies")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(scope_kind="global", organisation=None, group=None, user=None)
                | Q(scope_kind="organisation", organisation__isnull=False, group=None, user=None)
                | Q(scope_kind="group", organisation=None, group__isnull=False, user=None)
                | Q(scope_kind="user", organisation=None, group=None, user__isnull=False),
                name="policy_of_one_scope",
            ),
            models.UniqueConstraint(fields=["scope_kind"], condition=Q(scope_kind="global"), name="policy_one_global"),
        ]
        indexes: ClassVar = [models.Index(fields=["created_at", "id"], name="policy_by_age")]

    def __str__(self) -> str:
        scope_id = self.organisation_id or self.group_id or self.user_id
        return self.scope_kind if scope_id is None else f"{self.scope_kind}:{scope_id}"


class PolicyValue(Identified):
    """One number of a policy; a field without a row is unset and inherits."""

    policy = models.ForeignKey(Policy, models.PROTECT, related_name="values", verbose_name=_("policy"))
    kind = models.CharField(_("kind"), max_length=8, choices=[(kind.value, kind.value) for kind in Kind])
    field = models.CharField(_("field"), max_length=24, choices=[(name, name) for name in FIELDS])
    value = models.BigIntegerField(_("value"))

    class Meta:
        verbose_name = _("policy value")
        verbose_name_plural = _("policy values")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["policy", "kind", "field"], name="policy_value_once"),
            models.CheckConstraint(condition=Q(value__gte=0, value__lte=MAX_VALUE), name="policy_value_in_range"),
            models.CheckConstraint(
                condition=~is_one_of("field", FLAGS) | Q(value__lte=1), name="policy_flag_is_0_or_1"
            ),
            models.CheckConstraint(condition=is_one_of("field", FIELDS), name="policy_field_known"),
            models.CheckConstraint(
                condition=Q(kind=Kind.PER_USER.value) | (Q(kind=Kind.TOTAL.value) & is_one_of("field", COUNTED)),
                name="policy_total_is_counted",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.field} = {self.value}"
