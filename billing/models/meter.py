"""Meters: billing's row for one run, its intervals, and the charges that were posted for it.

Guarantees by constraint: one meter per run; intervals of a meter do not overlap and at most one is open; a posting
belongs to one transfer and no two of a meter start at the same instant; a settled meter holds nothing. Runs, sessions and
their like are plain ids here: billing knows references only.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Func, Q
from django.utils.translation import gettext_lazy as _

from billing.domain.facts import Scopes
from billing.domain.metering import Reading
from billing.domain.pricing import Price
from billing.models.ledger import LABEL_LENGTH, Account, Transfer
from gshare_core.kit.fields import Identified, MicroField


class MeterQuerySet(models.QuerySet["Meter"]):
    """Filters that more than one place uses."""

    def open(self) -> MeterQuerySet:
        """Not settled yet."""
        return self.filter(settled_at=None)

    def running(self) -> MeterQuerySet:
        """With an open interval whose end nobody has asked for."""
        return self.filter(settled_at=None, end_at=None, started_at__isnull=False)


class Meter(models.Model):
    """One run's money, or one wait's: who pays, at what frozen price, what is held, charged, and until when.

    `started_at` is the start of the open interval and `closed_us` the billed time of earlier ones; `charged` pays for
    everything up to `charged_until`. `billable_from` is the hand-off (or the adoption): nothing before it bills.
    `hold_ends_at` is how far charged and held credits reach, `due_at` when a tick has to look at it again.
    """

    run_id = models.UUIDField(primary_key=True)
    reference = models.UUIDField(_("reference"), help_text=_("The session."))
    number = models.PositiveIntegerField(_("number"), help_text=_("Counts the meters of the reference."))
    label = models.CharField(_("label"), max_length=LABEL_LENGTH, blank=True)
    user = models.ForeignKey("accounts.User", models.PROTECT, related_name="+", verbose_name=_("user"))
    group = models.ForeignKey("accounts.Group", models.PROTECT, related_name="+", verbose_name=_("group"))
    organisation = models.ForeignKey(
        "accounts.Organisation", models.PROTECT, related_name="+", verbose_name=_("organisation")
    )
    wallet = models.ForeignKey(Account, models.PROTECT, related_name="meters", verbose_name=_("wallet"))

    rate_micro_per_hour = MicroField(_("rate"))
    occupancy_numerator = models.BigIntegerField()
    occupancy_denominator = models.BigIntegerField()
    factor_milli = models.PositiveSmallIntegerField(default=1000)

    opened_at = models.DateTimeField(_("opened"))
    billable_from = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    closed_us = models.BigIntegerField(default=0)
    proven_until = models.DateTimeField(null=True)
    end_at = models.DateTimeField(null=True)
    suspended_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)

    charged = MicroField(_("charged"), default=0)
    charged_until = models.DateTimeField(null=True)
    not_billed = MicroField(_("not billed"), default=0)

    held = MicroField(_("held"), default=0)
    target = MicroField(_("full hold"))
    counted_by = ArrayField(models.UUIDField(), default=list, help_text=_("The budgets that count the hold."))
    hold_ends_at = models.DateTimeField(_("hold ends"), null=True)
    due_at = models.DateTimeField(null=True)
    short = models.CharField(max_length=16, blank=True, help_text=_("Why the hold could not be filled."))
    exhausted_at = models.DateTimeField(null=True)
    warned_at = models.DateTimeField(null=True)

    objects = MeterQuerySet.as_manager()

    class Meta:
        verbose_name = _("meter")
        verbose_name_plural = _("meters")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["reference", "number"], name="meter_number_once"),
            models.CheckConstraint(
                condition=Q(
                    rate_micro_per_hour__gt=0,
                    occupancy_numerator__gt=0,
                    occupancy_denominator__gt=0,
                    factor_milli__gte=1,
                    factor_milli__lte=1000,
                ),
                name="meter_price_positive",
            ),
            models.CheckConstraint(
                condition=Q(held__gte=0, charged__gte=0, not_billed__gte=0, target__gt=0, closed_us__gte=0),
                name="meter_amounts_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(settled_at=None) | Q(held=0, started_at=None, due_at=None, hold_ends_at=None),
                name="meter_settled_is_closed",
            ),
            models.CheckConstraint(
                condition=Q(suspended_at=None) | Q(held=0, started_at=None, due_at=None, hold_ends_at=None),
                name="meter_suspended_is_closed",
            ),
            models.CheckConstraint(
                condition=Q(started_at=None, charged_until=None)
                | Q(started_at__isnull=False, charged_until__gte=F("started_at")),
                name="meter_charged_within_interval",
            ),
            models.CheckConstraint(
                condition=Q(short__in=["", "credit_exhausted", "budget_exhausted"]), name="meter_short_known"
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["wallet", "reference"],
                condition=Q(settled_at=None),
                include=["held"],
                name="meter_open_of_wallet",
            ),
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="meter_due"),
            models.Index(fields=["hold_ends_at"], condition=Q(hold_ends_at__isnull=False), name="meter_hold_ends"),
            models.Index(fields=["user", "-opened_at"], name="meter_of_user"),
            models.Index(fields=["group", "-opened_at"], name="meter_of_group"),
            models.Index(fields=["organisation", "-opened_at"], name="meter_of_organisation"),
        ]

    def __str__(self) -> str:
        return f"{self.label} run {self.number}"

    @cached_property
    def price(self) -> Price:
        """The frozen price."""
        occupancy = Fraction(self.occupancy_numerator, self.occupancy_denominator)
        return Price(self.rate_micro_per_hour, occupancy, self.factor_milli)

    @cached_property
    def scopes(self) -> Scopes:
        """Whose budgets count it."""
        return Scopes(self.user_id, self.group_id, self.organisation_id)

    @property
    def reading(self) -> Reading:
        """What the arithmetic of metering looks at."""
        return Reading(
            price=self.price,
            held=self.held,
            target=self.target,
            closed_us=self.closed_us,
            charged=self.charged,
            started_at=self.started_at,
            charged_until=self.charged_until,
            proven_until=self.proven_until,
            end_at=self.end_at,
        )


class MeterInterval(Identified):
    """A billed stretch [starts_at, ends_at) of a run; `ends_at` is null while it is open."""

    meter = models.ForeignKey(Meter, models.PROTECT, related_name="intervals", verbose_name=_("meter"))
    starts_at = models.DateTimeField(_("from"))
    ends_at = models.DateTimeField(_("to"), null=True)

    class Meta:
        verbose_name = _("meter interval")
        verbose_name_plural = _("meter intervals")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gte=F("starts_at")), name="interval_ends_after_start"
            ),
            models.UniqueConstraint(fields=["meter"], condition=Q(ends_at=None), name="interval_one_open"),
            ExclusionConstraint(
                name="interval_no_overlap",
                expressions=[
                    (
                        Func(F("starts_at"), F("ends_at"), function="TSTZRANGE", output_field=DateTimeRangeField()),
                        RangeOperators.OVERLAPS,
                    ),
                    ("meter", RangeOperators.EQUAL),
                ],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.starts_at:%Y-%m-%d %H:%M:%S} to {self.ends_at:%H:%M:%S}" if self.ends_at else "open"


class Posting(models.Model):
    """Which stretch of which meter a charge pays for. It never spans a boundary of a budget's period. Never changed."""

    transfer = models.OneToOneField(
        Transfer, models.PROTECT, primary_key=True, related_name="posting", verbose_name=_("transfer")
    )
    meter = models.ForeignKey(Meter, models.PROTECT, related_name="postings", verbose_name=_("meter"))
    billed_from = models.DateTimeField(_("from"))
    billed_to = models.DateTimeField(_("to"))

    class Meta:
        verbose_name = _("posting")
        verbose_name_plural = _("postings")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["meter", "billed_from"], name="posting_once"),
            models.CheckConstraint(condition=Q(billed_to__gt=F("billed_from")), name="posting_ends_later"),
        ]
        indexes: ClassVar = [models.Index(fields=["billed_from"], name="posting_by_time")]

    def __str__(self) -> str:
        return f"{self.meter_id} {self.billed_from:%Y-%m-%d %H:%M:%S}"


class LowBalance(models.Model):
    """That somebody was told that his credits end soon; gone once they last longer, or nothing runs."""

    wallet = models.OneToOneField(Account, models.PROTECT, primary_key=True, related_name="+", verbose_name=_("wallet"))
    at = models.DateTimeField(_("at"))

    class Meta:
        verbose_name = _("low balance")
        verbose_name_plural = _("low balances")

    def __str__(self) -> str:
        return f"{self.wallet_id} since {self.at:%Y-%m-%d %H:%M:%S}"
