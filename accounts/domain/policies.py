"""Limits: which fields there are, how a person's limits follow from the values of the scopes above him.

Two kinds of numbers (`Kind`): the per-user default, resolved per field from the most specific scope that sets it (user,
group, organisation, global), and totals of a whole group or organisation, which bind at every level at once. 0 means
none, unset inherits. Guarantees: the scope that supplied a value is remembered, and with it the counter it is held
against: a group's or organisation's per-user number counts the use *in* that group or organisation, a user's own or the
global number counts all of it. Refuses: fields and scopes that are not known, values below 0 or above `MAX_VALUE`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from gshare_core.errors import DomainError, invalid

MAX_VALUE = 2**53 - 1  # what JSON readers keep exact


class Kind(StrEnum):
    """Per user, or for all users of the scope together."""

    PER_USER = "per_user"
    TOTAL = "total"


class ScopeKind(StrEnum):
    """The four levels, widest first."""

    GLOBAL = "global"
    ORGANISATION = "organisation"
    GROUP = "group"
    USER = "user"


class Unit(StrEnum):
    """What a field's number counts."""

    COUNT = "count"
    MILLI = "milli"
    MIB = "MiB"
    GIB = "GiB"
    PERCENT = "%"
    MINUTES = "min"
    FLAG = "yes/no"


@dataclass(frozen=True, slots=True)
class Field:
    """One limit. `counted` fields have use that adds up (and so totals); `zero_is_unlimited` ones read 0 as "no end"."""

    name: str
    unit: Unit
    counted: bool
    zero_is_unlimited: bool = False
    reserved: bool = False  # raising it is the super administrators' alone


FIELDS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("max_sessions", Unit.COUNT, True),
        Field("max_queued", Unit.COUNT, True),
        Field("max_paused", Unit.COUNT, True),
        Field("cpu_milli", Unit.MILLI, True),
        Field("memory_mib", Unit.MIB, True),
        Field("scratch_gib", Unit.GIB, True),
        Field("vram_mib", Unit.MIB, True),
        Field("core_percent", Unit.PERCENT, True),
        Field("cards", Unit.COUNT, True),
        Field("max_runtime_min", Unit.MINUTES, False, zero_is_unlimited=True),
        Field("idle_timeout_min", Unit.MINUTES, False, zero_is_unlimited=True),
        Field("keep_alive_max_min", Unit.MINUTES, False),
        Field("storage_gib", Unit.GIB, True),
        Field("max_priority", Unit.COUNT, False, reserved=True),
        Field("allow_privileged", Unit.FLAG, False, reserved=True),
        Field("allow_preemptible", Unit.FLAG, False),
        Field("shared_pool", Unit.FLAG, False, reserved=True),
    )
}
COUNTED = tuple(name for name, field in FIELDS.items() if field.counted)
FLAGS = tuple(name for name, field in FIELDS.items() if field.unit is Unit.FLAG)

# What `bootstrap` sets where nobody has set anything: enough for a person's daily work, nothing that needs a decision.
GLOBAL_DEFAULTS: Mapping[str, int] = {
    "max_sessions": 8,
    "max_queued": 8,
    "max_paused": 16,
    "cpu_milli": 64_000,
    "memory_mib": 262_144,
    "scratch_gib": 1_000,
    "vram_mib": 327_680,
    "core_percent": 400,
    "cards": 4,
    "max_runtime_min": 0,
    "idle_timeout_min": 60,
    "keep_alive_max_min": 480,
    "storage_gib": 200,
    "max_priority": 0,
    "allow_privileged": 0,
    "allow_preemptible": 1,
    "shared_pool": 1,
}


@dataclass(frozen=True, slots=True)
class Scope:
    """A level and which one of it; `Scope.parse("group:<id>")`, `str(scope)` the other way."""

    kind: ScopeKind
    id: UUID | None = None

    def __post_init__(self) -> None:
        if (self.kind is ScopeKind.GLOBAL) != (self.id is None):
            raise ValueError("every scope but the global one has an id")

    def __str__(self) -> str:
        return self.kind.value if self.id is None else f"{self.kind.value}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> Scope:
        """The scope of its written form. Raises DomainError `invalid`."""
        kind, _, identifier = text.partition(":")
        try:
            return cls(ScopeKind(kind), UUID(identifier) if identifier else None)
        except ValueError:
            raise invalid(
                "scope", "Write global, organisation:<id>, group:<id> or user:<id>.", remedy="Check the scope."
            ) from None


GLOBAL = Scope(ScopeKind.GLOBAL)


@dataclass(frozen=True, slots=True)
class Value:
    """One number that a scope sets."""

    scope: Scope
    kind: Kind
    field: str
    value: int


@dataclass(frozen=True, slots=True)
class Effective:
    """The per-user number in force, and the scope that supplied it; both None when nobody set the field."""

    value: int | None
    scope: str | None


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound on use: `field` of whoever is counted under `usage_scope` stays at most `limit`, said by `scope`."""

    field: str
    limit: int
    scope: str
    usage_scope: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Person:
    """Whose limits are asked for, and in which group (with its organisation), if in any."""

    user_id: UUID
    group_id: UUID | None
    organisation_id: UUID | None

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes that can supply a value, most specific first."""
        found = [Scope(ScopeKind.USER, self.user_id)]
        if self.group_id is not None:
            found.append(Scope(ScopeKind.GROUP, self.group_id))
        if self.organisation_id is not None:
            found.append(Scope(ScopeKind.ORGANISATION, self.organisation_id))
        return (*found, GLOBAL)

    def usage_scope(self, scope: Scope) -> str:
        """The counter a per-user value of `scope` is held against."""
        if scope.kind in (ScopeKind.USER, ScopeKind.GLOBAL):
            return f"user:{self.user_id}"
        return f"user:{self.user_id}@{scope}"


def resolve(
    scopes: Iterable[Scope], values: Iterable[Value], fields: Collection[str] = tuple(FIELDS)
) -> dict[str, Effective]:
    """Each field's per-user value from the first of `scopes` that sets it."""
    found = {(value.scope, value.field): value.value for value in values if value.kind is Kind.PER_USER}
    ordered = tuple(scopes)
    return {field: _first(field, ordered, found) for field in fields}


def _first(field: str, scopes: tuple[Scope, ...], found: Mapping[tuple[Scope, str], int]) -> Effective:
    for scope in scopes:
        if (scope, field) in found:
            return Effective(found[scope, field], str(scope))
    return Effective(None, None)


def limits(person: Person, values: Iterable[Value]) -> list[Limit]:
    """Every bound on the counted fields: the per-user ones in force, then the totals of group and organisation."""
    known = tuple(values)
    bounds = []
    scopes = person.scopes
    by_name = {str(scope): scope for scope in scopes}
    effective = resolve(scopes, known)
    for field in COUNTED:
        value, name = effective[field].value, effective[field].scope
        if value is not None and name is not None:
            bounds.append(Limit(field, value, name, person.usage_scope(by_name[name]), Kind.PER_USER))
    totals = {(value.scope, value.field): value.value for value in known if value.kind is Kind.TOTAL}
    bounds += [
        Limit(field, totals[scope, field], str(scope), str(scope), Kind.TOTAL)
        for scope in scopes
        for field in COUNTED
        if (scope, field) in totals
    ]
    return bounds


def exceeds(field: str, value: int | None, ceiling: int | None) -> bool:
    """Does `value` allow more than `ceiling`? None is unlimited, as 0 is where a field says so."""
    return _reach(field, value) > _reach(field, ceiling)


def _reach(field: str, value: int | None) -> int:
    unlimited = value is None or (value == 0 and FIELDS[field].zero_is_unlimited)
    return MAX_VALUE + 1 if unlimited or value is None else value


def check_values(scope: Scope, kind: Kind, values: Mapping[str, int | None]) -> None:
    """Refuse what no scope may hold. Raises DomainError `invalid` with an entry per field."""
    problems = {field: [problem] for field, value in values.items() if (problem := _problem(scope, kind, field, value))}
    if problems:
        raise DomainError(
            "invalid", "Some limits cannot be set like this.", errors=problems, remedy="Correct the named fields."
        )


def _problem(scope: Scope, kind: Kind, field: str, value: int | None) -> str | None:
    known = FIELDS.get(field)
    if known is None:
        return "There is no such limit."
    if kind is Kind.TOTAL and scope.kind not in (ScopeKind.ORGANISATION, ScopeKind.GROUP):
        return "Only organisations and groups have totals."
    if kind is Kind.TOTAL and not known.counted:
        return "This limit has no total."
    if value is None:
        return None
    if not 0 <= value <= MAX_VALUE:
        return f"Give a number from 0 to {MAX_VALUE}."
    if known.unit is Unit.FLAG and value > 1:
        return "Give 1 for yes or 0 for no."
    return None
