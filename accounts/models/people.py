"""People and the places they belong to.

Guarantees (by constraints): e-mail addresses are unique whatever their case; a membership sits in exactly one place with a
role that fits there. Nobody is ever deleted, only deactivated, so that every reference stays readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from accounts.domain.addresses import normalise_email
from accounts.domain.roles import GROUP_ROLES, ORGANISATION_ROLES
from accounts.models.columns import EMAIL_LENGTH, NAME_LENGTH, is_one_of, trigram
from gshare_core.kit.fields import Identified


class Organisation(Identified):
    """A tenant: a company, a faculty, a school."""

    name = models.CharField(_("name"), max_length=NAME_LENGTH)
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("organisation")
        verbose_name_plural = _("organisations")
        constraints: ClassVar = [
            models.UniqueConstraint(Lower("name"), name="organisation_name_once"),
            models.CheckConstraint(condition=~Q(name=""), name="organisation_is_named"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["name", "id"], name="organisation_by_name"),
            models.Index(fields=["created_at", "id"], name="organisation_by_age"),
            trigram("name", "organisation_name_words"),
        ]

    def __str__(self) -> str:
        return self.name


class Group(Identified):
    """A team or a class of one organisation: where people meet limits, credits and images."""

    organisation = models.ForeignKey(
        Organisation, models.PROTECT, related_name="groups", verbose_name=_("organisation")
    )
    name = models.CharField(_("name"), max_length=NAME_LENGTH)
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("group")
        verbose_name_plural = _("groups")
        constraints: ClassVar = [
            models.UniqueConstraint("organisation", Lower("name"), name="group_name_once_in_organisation"),
            models.CheckConstraint(condition=~Q(name=""), name="group_is_named"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["name", "id"], name="group_by_name"),
            models.Index(fields=["created_at", "id"], name="group_by_age"),
            trigram("name", "group_name_words"),
        ]

    def __str__(self) -> str:
        return self.name


class UserManager(BaseUserManager["User"]):
    """Finds people by the address they type. Making them is `accounts.services`' work."""

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=normalise_email(username or ""))


class Theme(models.TextChoices):
    SYSTEM = "system", _("As the device")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")


class User(Identified, AbstractBaseUser):
    """A person. `sign_in_epoch` is part of what every browser session proves, so raising it ends them all."""

    email = models.EmailField(_("e-mail"), max_length=EMAIL_LENGTH, unique=True)
    name = models.CharField(_("name"), max_length=NAME_LENGTH)
    organisation = models.ForeignKey(
        Organisation,
        models.PROTECT,
        related_name="people",
        null=True,
        blank=True,
        verbose_name=_("home organisation"),
        help_text=_("Only super administrators may have none."),
    )
    is_active = models.BooleanField(_("active"), default=True)
    is_super_admin = models.BooleanField(_("super administrator"), default=False)
    must_change_password = models.BooleanField(_("must change the password"), default=False)
    initial_password_expires_at = models.DateTimeField(_("initial password valid until"), null=True, blank=True)
    sign_in_epoch = models.PositiveIntegerField(_("sign-in epoch"), default=0)
    language = models.CharField(_("language"), max_length=10, blank=True, default="")
    time_zone = models.CharField(_("time zone"), max_length=64, blank=True, default="")
    theme = models.CharField(_("theme"), max_length=6, choices=Theme.choices, default=Theme.SYSTEM)
    created_at = models.DateTimeField(_("created"))

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["name"]

    class Meta:
        verbose_name = _("user")
        verbose_name_plural = _("users")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(email=Lower("email")) & ~Q(email=""), name="user_email_in_one_case"),
            models.CheckConstraint(
                condition=Q(organisation__isnull=False) | Q(is_super_admin=True), name="user_has_a_home"
            ),
            models.CheckConstraint(
                condition=Q(initial_password_expires_at__isnull=True) | Q(must_change_password=True),
                name="user_initial_password_must_change",
            ),
            models.CheckConstraint(condition=is_one_of("theme", Theme.values), name="user_theme_known"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["name", "id"], name="user_by_name"),
            models.Index(fields=["email", "id"], name="user_by_email"),
            models.Index(fields=["created_at", "id"], name="user_by_age"),
            models.Index(fields=["id"], condition=Q(is_super_admin=True), name="user_super_admins"),
            trigram("name", "user_name_words"),
            trigram("email", "user_email_words"),
        ]

    def __str__(self) -> str:
        return self.email

    def get_full_name(self) -> str:
        return self.name or self.email

    def get_short_name(self) -> str:
        return self.get_full_name()

    # Django compares this at each request: it changes with the password and with `sign_in_epoch`.
    def get_session_auth_hash(self) -> str:
        return f"{super().get_session_auth_hash()}.{self.sign_in_epoch}"

    def get_session_auth_fallback_hash(self) -> Iterator[str]:
        for former in super().get_session_auth_fallback_hash():
            yield f"{former}.{self.sign_in_epoch}"

    # What Django's admin asks of a user: super administrators see it all, nobody else anything.
    @property
    def is_staff(self) -> bool:
        return self.is_super_admin

    def has_perm(self, perm: str, obj: object | None = None) -> bool:
        return self.is_active and self.is_super_admin

    def has_perms(self, perm_list: list[str], obj: object | None = None) -> bool:
        return self.is_active and self.is_super_admin

    def has_module_perms(self, app_label: str) -> bool:
        return self.is_active and self.is_super_admin


class Membership(Identified):
    """A person's seat: in a group as guest, member or group_admin; in an organisation as org_admin."""

    user = models.ForeignKey(User, models.PROTECT, related_name="memberships", verbose_name=_("user"))
    group = models.ForeignKey(
        Group, models.PROTECT, related_name="memberships", null=True, blank=True, verbose_name=_("group")
    )
    organisation = models.ForeignKey(
        Organisation, models.PROTECT, related_name="memberships", null=True, blank=True, verbose_name=_("organisation")
    )
    role = models.CharField(
        _("role"), max_length=11, choices=[(role.value, role.value) for role in (*GROUP_ROLES, *ORGANISATION_ROLES)]
    )
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=(Q(group__isnull=False, organisation__isnull=True) & is_one_of("role", GROUP_ROLES))
                | (Q(group__isnull=True, organisation__isnull=False) & is_one_of("role", ORGANISATION_ROLES)),
                name="membership_in_one_place",
            ),
            models.UniqueConstraint(fields=["user", "group"], name="membership_once_in_group"),
            models.UniqueConstraint(fields=["user", "organisation"], name="membership_once_in_organisation"),
        ]
        indexes: ClassVar = [models.Index(fields=["created_at", "id"], name="membership_by_age")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} {self.group_id or self.organisation_id}"


class SignIn(Identified):
    """One browser that a person signed in with: lives while it was not ended and its epoch is still the person's."""

    user = models.ForeignKey(User, models.PROTECT, related_name="sign_ins", verbose_name=_("user"))
    epoch = models.PositiveIntegerField(_("sign-in epoch"))
    browser = models.CharField(_("browser"), max_length=30, blank=True)
    system = models.CharField(_("system"), max_length=30, blank=True)
    address = models.GenericIPAddressField(_("address"), null=True, blank=True)
    at = models.DateTimeField(_("at"))
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)

    class Meta:
        verbose_name = _("sign-in")
        verbose_name_plural = _("sign-ins")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(ended_at=None) | Q(ended_at__gte=F("at")), name="sign_in_ended_later")
        ]
        indexes: ClassVar = [models.Index(fields=["user", "at", "id"], name="sign_in_by_user")]

    def __str__(self) -> str:
        return f"{self.browser} {self.system} {self.at:%Y-%m-%d %H:%M}"
