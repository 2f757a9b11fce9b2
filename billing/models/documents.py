"""Budgets: limits on the spend of a scope, their periods, and the alerts they gave.

Guarantees by constraint: a budget belongs to one scope; its periods do not begin twice; an alert exists once per budget,
period and threshold; counters never fall below zero. Refuses deletion: a budget that is no longer wanted is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar
from uuid import UUID

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from billing.domain.budgets import THRESHOLDS, Rule
from billing.domain.facts import ScopeKind, Scopes
from gshare_core.kit.fields import Identified, MicroField


class BudgetMode(models.TextChoices):
    WARN = "warn", _("warn")
    BLOCK = "block", _("block")


class BudgetQuerySet(models.QuerySet["Budget"]):
    """Filters that more than one place uses."""

    def of(self, scopes: Iterable[Scopes]) -> BudgetQuerySet:
        """The active budgets of any of these scopes."""
        wanted = list(scopes)
        mine = (
            Q(user_id__in={scope.user_id for scope in wanted})
            | Q(group_id__in={scope.group_id for scope in wanted})
            | Q(organisation_id__in={scope.organisation_id for scope in wanted})
        )
        return self.filter(mine, is_active=True)


class Budget(Identified):
    """A limit on what a scope spends in a calendar month, or between two days (both included), of `time_zone`."""

    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, null=True, related_name="+")
    group = models.ForeignKey("accounts.Group", models.PROTECT, null=True, related_name="+")
    user = models.ForeignKey("accounts.User", models.PROTECT, null=True, related_name="+")
    limit = MicroField(_("limit"))
    mode = models.CharField(_("mode"), max_length=5, choices=BudgetMode)
    time_zone = models.CharField(_("time zone"), max_length=64)
    first_day = models.DateField(_("first day"), null=True, blank=True)
    last_day = models.DateField(_("last day"), null=True, blank=True)
    held = MicroField(_("held"), default=0)
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"))

    objects = BudgetQuerySet.as_manager()

    class Meta:
        verbose_name = _("budget")
        verbose_name_plural = _("budgets")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(organisation__isnull=False, group=None, user=None)
                | Q(organisation=None, group__isnull=False, user=None)
                | Q(organisation=None, group=None, user__isnull=False),
                name="budget_of_one_scope",
            ),
            models.CheckConstraint(condition=Q(limit__gte=0), name="budget_limit_not_negative"),
            models.CheckConstraint(condition=Q(held__gte=0), name="budget_held_not_negative"),
            models.CheckConstraint(condition=Q(mode__in=["warn", "block"]), name="budget_mode_known"),
            models.CheckConstraint(
                condition=Q(first_day=None, last_day=None)
                | Q(first_day__isnull=False, last_day__isnull=False, last_day__gte=F("first_day")),
                name="budget_month_or_dates",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["user"], condition=Q(is_active=True), name="budget_of_user"),
            models.Index(fields=["group"], condition=Q(is_active=True), name="budget_of_group"),
            models.Index(fields=["organisation"], condition=Q(is_active=True), name="budget_of_organisation"),
        ]

    def __str__(self) -> str:
        return f"{self.mode} {self.scope}"

    @property
    def scope(self) -> str:
        """The scope in words of the API: `group:<id>`."""
        kind, key = self.scope_pair
        return f"{kind}:{key}"

    @property
    def scope_pair(self) -> tuple[ScopeKind, UUID]:
        """Kind and id of the scope."""
        if self.organisation_id is not None:
            return "organisation", self.organisation_id
        if self.group_id is not None:
            return "group", self.group_id
        assert self.user_id is not None, "the schema lets a budget have one scope"
        return "user", self.user_id

    @property
    def rule(self) -> Rule:
        """When it counts."""
        return Rule(self.time_zone, self.first_day, self.last_day)


class BudgetPeriod(Identified):
    """One period of a budget and what was spent in it."""

    budget = models.ForeignKey(Budget, models.PROTECT, related_name="periods", verbose_name=_("budget"))
    starts_at = models.DateTimeField(_("from"))
    ends_at = models.DateTimeField(_("to"))
    spent = MicroField(_("spent"), default=0)

    class Meta:
        verbose_name = _("budget period")
        verbose_name_plural = _("budget periods")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "starts_at"], name="budget_period_once"),
            models.CheckConstraint(condition=Q(ends_at__gt=F("starts_at")), name="budget_period_ends_later"),
            models.CheckConstraint(condition=Q(spent__gte=0), name="budget_spent_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.starts_at:%Y-%m-%d}"


class BudgetAlert(Identified):
    """That a period's spend reached a threshold (percent of the limit)."""

    budget = models.ForeignKey(Budget, models.PROTECT, related_name="alerts", verbose_name=_("budget"))
    period = models.ForeignKey(BudgetPeriod, models.PROTECT, related_name="alerts", verbose_name=_("period"))
    threshold = models.PositiveSmallIntegerField(_("threshold"))
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("budget alert")
        verbose_name_plural = _("budget alerts")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "period", "threshold"], name="budget_alert_once"),
            models.CheckConstraint(condition=Q(threshold__in=list(THRESHOLDS)), name="budget_alert_threshold_known"),
        ]

    def __str__(self) -> str:
        return f"{self.threshold} %"
