"""What can be rented: full-card GPU models with their prices, sizes, images.

Guarantees by constraint: a price is above zero and never changed afterwards (a new revision supersedes it, and the
serving role may only insert); CUDA versions have one form; a size is either a share of one card, whole cards, or none; an
image is named by digest and belongs to exactly whom its visibility says.
Refuses: nothing here is deleted while something refers to it; what is no longer offered is switched off.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Upper
from django.utils.translation import gettext_lazy as _

from catalog.domain import versions
from catalog.domain.tiers import CARDS_MAX, OFFERED_TIERS, Tier
from gshare_core.kit.fields import Identified, MicroField

REFERENCE_PATTERN = r"^[a-z0-9][a-z0-9._/:-]{0,190}@sha256:[0-9a-f]{64}$"
cuda_validator = RegexValidator(versions.PATTERN, _("Write a CUDA version such as 12.8."))
reference_validator = RegexValidator(REFERENCE_PATTERN, _("Name the image by digest: registry/name@sha256:…"))


class App(models.TextChoices):
    LAB = "lab", _("JupyterLab")
    CODE = "code", _("VS Code")
    TERMINAL = "terminal", _("Terminal")


class Visibility(models.TextChoices):
    PUBLIC = "public", _("everybody")
    ORGANISATION = "organisation", _("one organisation")
    GROUP = "group", _("one group")


def validate_tiers(names: list[str]) -> None:
    """Known tiers, each once. Raises ValidationError."""
    unknown = sorted(set(names) - set(OFFERED_TIERS))
    if unknown or len(set(names)) != len(names):
        raise ValidationError(_("Use each of %(tiers)s at most once."), params={"tiers": ", ".join(OFFERED_TIERS)})


def validate_apps(names: list[str]) -> None:
    """Known apps, each once. Raises ValidationError."""
    if set(names) - set(App.values) or len(set(names)) != len(names) or not names:
        raise ValidationError(_("Use at least one of %(apps)s, each once."), params={"apps": ", ".join(App.values)})


class Offering(Identified):
    """A full-card GPU model. `vram_mib` is at most what the smallest such card really reports."""

    name = models.CharField(_("name"), max_length=80, unique=True)
    model = models.CharField(
        _("model"), max_length=120, unique=True, help_text=_("Exactly the string that the cluster reports.")
    )
    vram_mib = models.PositiveIntegerField(_("GPU memory, MiB"), validators=[MinValueValidator(1024)])
    min_cuda = models.CharField(_("oldest CUDA"), max_length=7, null=True, blank=True, validators=[cuda_validator])  # noqa: DJ001 -- null: any
    tiers = ArrayField(
        models.CharField(max_length=9), verbose_name=_("allowed tiers"), validators=[validate_tiers], default=list
    )
    yield_allowed = models.BooleanField(_("may pause in place"), default=False)
    preemptible_factor_milli = models.PositiveSmallIntegerField(_("price of preemptible sessions, ‰"), default=300)
    is_active = models.BooleanField(_("offered"), default=True)

    class Meta:
        verbose_name = _("offering")
        verbose_name_plural = _("offerings")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(vram_mib__gte=1024), name="offering_vram_at_least_1024"),
            models.CheckConstraint(
                condition=Q(min_cuda=None) | Q(min_cuda__regex=versions.PATTERN), name="offering_cuda_is_version"
            ),
            models.CheckConstraint(
                condition=Q(preemptible_factor_milli__gte=1, preemptible_factor_milli__lte=1000),
                name="offering_preemptible_factor_within_one",
            ),
            models.CheckConstraint(
                condition=Q(tiers__contained_by=[t.value for t in OFFERED_TIERS]), name="offering_tiers_are_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class PriceRevision(Identified):
    """What one card of an offering costs an hour from `starts_at` on. The latest that has started rules; never changed."""

    offering = models.ForeignKey(Offering, models.PROTECT, related_name="prices", verbose_name=_("offering"))
    rate_micro_per_hour = MicroField(_("micro-credits a card-hour"), validators=[MinValueValidator(1)])
    starts_at = models.DateTimeField(_("from"))

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        ordering = ["offering", "-starts_at", "-id"]
        constraints = [models.CheckConstraint(condition=Q(rate_micro_per_hour__gt=0), name="price_positive")]
        indexes = [models.Index(fields=["offering", "-starts_at", "-id"], name="price_newest")]

    def __str__(self) -> str:
        return f"{self.offering_id} from {self.starts_at:%Y-%m-%d %H:%M}"


class Preset(Identified):
    """A size: host resources plus a share of a card, whole cards of one node, or no GPU."""

    name = models.CharField(_("name"), max_length=40, unique=True)
    tier = models.CharField(_("tier"), max_length=9, choices=[(t.value, t.value) for t in Tier])
    cards = models.PositiveSmallIntegerField(_("cards"), default=0, help_text=_("1 to 8 when exclusive, else 0."))
    cpu_milli = models.PositiveIntegerField(_("CPU, thousandths of a core"))
    memory_mib = models.PositiveIntegerField(_("memory, MiB"))
    scratch_gib = models.PositiveIntegerField(_("scratch, GiB"))
    position = models.PositiveSmallIntegerField(_("position"), default=0)
    is_active = models.BooleanField(_("offered"), default=True)

    class Meta:
        verbose_name = _("preset")
        verbose_name_plural = _("presets")
        ordering = ["position", "name"]
        constraints = [
            models.CheckConstraint(condition=Q(tier__in=[t.value for t in Tier]), name="preset_tier_is_known"),
            models.CheckConstraint(
                condition=Q(tier="exclusive", cards__gte=1, cards__lte=CARDS_MAX) | (~Q(tier="exclusive") & Q(cards=0)),
                name="preset_cards_fit_tier",
            ),
            models.CheckConstraint(condition=Q(cpu_milli__gte=1, memory_mib__gte=1), name="preset_has_host_resources"),
        ]
        indexes = [
            models.Index(fields=["position", "id"], name="preset_by_position"),
            models.Index(fields=["name", "id"], name="preset_by_name"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="preset_name_words"),
        ]

    def __str__(self) -> str:
        return self.name


class Image(Identified):
    """A session image by digest, with the CUDA it carries (null: none), the apps it serves and who may see it."""

    name = models.CharField(_("name"), max_length=80)
    reference = models.CharField(_("reference"), max_length=280, validators=[reference_validator])
    cuda = models.CharField(_("CUDA"), max_length=7, null=True, blank=True, validators=[cuda_validator])  # noqa: DJ001 -- null: none
    apps = ArrayField(models.CharField(max_length=8), verbose_name=_("apps"), validators=[validate_apps], default=list)
    visibility = models.CharField(_("visible to"), max_length=12, choices=Visibility, default=Visibility.PUBLIC)
    organisation = models.ForeignKey("accounts.Organisation", models.PROTECT, null=True, blank=True, related_name="+")
    group = models.ForeignKey("accounts.Group", models.PROTECT, null=True, blank=True, related_name="+")
    position = models.PositiveSmallIntegerField(_("position"), default=0)
    is_active = models.BooleanField(_("offered"), default=True)

    class Meta:
        verbose_name = _("image")
        verbose_name_plural = _("images")
        ordering = ["position", "name"]
        constraints = [
            models.CheckConstraint(condition=Q(reference__regex=REFERENCE_PATTERN), name="image_is_named_by_digest"),
            models.CheckConstraint(
                condition=Q(cuda=None) | Q(cuda__regex=versions.PATTERN), name="image_cuda_is_version"
            ),
            models.CheckConstraint(
                condition=Q(apps__contained_by=list(App.values)) & Q(apps__len__gte=1), name="image_apps_are_known"
            ),
            models.CheckConstraint(
                condition=Q(visibility="public", organisation=None, group=None)
                | (Q(visibility="organisation", group=None) & ~Q(organisation=None))
                | (Q(visibility="group", organisation=None) & ~Q(group=None)),
                name="image_belongs_to_whom_it_shows",
            ),
            models.UniqueConstraint(
                fields=["name", "organisation", "group"], name="image_name_once_per_owner", nulls_distinct=False
            ),
        ]
        indexes = [
            models.Index(fields=["position", "id"], name="image_by_position"),
            models.Index(fields=["name", "id"], name="image_by_name"),
            GinIndex(OpClass(Upper("name"), name="gin_trgm_ops"), name="image_name_words"),
        ]

    def __str__(self) -> str:
        return self.name
