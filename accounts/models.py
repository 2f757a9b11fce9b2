"""The rows of accounts: people, their places, limits, the audit trail, and the small machinery that other rooms lean on.

Guarantees (by constraints): e-mail addresses are unique whatever their case; a membership sits in exactly one place with
a role that fits there; a limit is set once per scope, kind and field; an audit entry has at most one seal and seals are
numbered without repetition. Audit tables are insert-only: the serving role has no other right and a trigger says so
again. Nobody is ever deleted, only deactivated, so that every reference stays readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower, Upper
from django.utils.translation import gettext_lazy as _

from accounts.domain.addresses import normalise_email
from accounts.domain.policies import FIELDS, FLAGS, MAX_VALUE, Kind, ScopeKind
from accounts.domain.roles import GROUP_ROLES, ORGANISATION_ROLES
from gshare_core.kit.fields import Identified

EMAIL_LENGTH = 254
NAME_LENGTH = 150
KEY_LENGTH = 255


def _trigram(column: str, name: str) -> GinIndex:
    return GinIndex(OpClass(Upper(column), name="gin_trgm_ops"), name=name)


def _in(field: str, values: Any) -> Q:
    return Q(**{f"{field}__in": [str(value) for value in values]})


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
            _trigram("name", "organisation_name_words"),
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
            _trigram("name", "group_name_words"),
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
            models.CheckConstraint(condition=_in("theme", Theme.values), name="user_theme_known"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["name", "id"], name="user_by_name"),
            models.Index(fields=["email", "id"], name="user_by_email"),
            models.Index(fields=["created_at", "id"], name="user_by_age"),
            models.Index(fields=["id"], condition=Q(is_super_admin=True), name="user_super_admins"),
            _trigram("name", "user_name_words"),
            _trigram("email", "user_email_words"),
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
                condition=(Q(group__isnull=False, organisation__isnull=True) & _in("role", GROUP_ROLES))
                | (Q(group__isnull=True, organisation__isnull=False) & _in("role", ORGANISATION_ROLES)),
                name="membership_in_one_place",
            ),
            models.UniqueConstraint(fields=["user", "group"], name="membership_once_in_group"),
            models.UniqueConstraint(fields=["user", "organisation"], name="membership_once_in_organisation"),
        ]
        indexes: ClassVar = [models.Index(fields=["created_at", "id"], name="membership_by_age")]

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} {self.group_id or self.organisation_id}"


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
            models.CheckConstraint(condition=~_in("field", FLAGS) | Q(value__lte=1), name="policy_flag_is_0_or_1"),
            models.CheckConstraint(condition=_in("field", FIELDS), name="policy_field_known"),
            models.CheckConstraint(
                condition=Q(kind=Kind.PER_USER.value)
                | (Q(kind=Kind.TOTAL.value) & _in("field", [name for name in FIELDS if FIELDS[name].counted])),
                name="policy_total_is_counted",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.field} = {self.value}"


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
