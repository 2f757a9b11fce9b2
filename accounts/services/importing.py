"""Many people at once from a table: all of them or none, and for each line that cannot be what is wrong with it.

Guarantees: the dry run and the import judge by the same function; nobody is registered unless every line can be; passwords
are hashed before the transaction begins. Refuses: more than `MOST` lines, a table without the named columns, a group that
the actor does not administer (the same words whether or not it exists), roles that do not rank below him there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from django.db.models.functions import Lower
from django.utils.translation import gettext as _

from accounts.domain.addresses import normalise_email
from accounts.domain.rights import Standing, Target
from accounts.domain.roles import GROUP_ROLES, Role
from accounts.models import Group, User
from accounts.permissions import Act, administered_groups, may
from accounts.services.common import checked_name, held_people
from accounts.services.people import Registered, checked_email, insert_registration, prepare_registration
from accounts.standings import standing_of
from gshare_core.errors import DomainError, invalid
from gshare_core.kit.locks import ordered

MOST = 200
COLUMNS = ("email", "name", "group", "role")
OPTIONAL = frozenset({"role"})


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table, as it was written; `number` counts the table's lines, the head is the first."""

    number: int
    email: str
    name: str
    group: str
    role: str


@dataclass(frozen=True, slots=True)
class LineFault:
    """What is wrong with a line, in which column."""

    number: int
    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A line with what it would do, or with what is wrong with it."""

    line: Line
    group: Group | None
    role: Role
    faults: tuple[LineFault, ...]


def read_people(text: str) -> list[Line]:
    """The lines of a CSV text with a head. Raises `invalid`: no head, columns missing, nothing in it, too many lines."""
    rows = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), skipinitialspace=True)
    try:
        table = [(rows.line_num, row) for row in rows if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise invalid("table", _("This is no table with comma-separated values.")) from error
    head = [cell.strip().casefold() for cell in table[0][1]] if table else []
    missing = [name for name in COLUMNS if name not in head and name not in OPTIONAL]
    if missing:
        raise invalid(
            "table", _("The first line must name the columns; missing: %(names)s.") % {"names": ", ".join(missing)}
        )
    if len(table) < 2:
        raise invalid("table", _("There is no line below the head."))
    if len(table) - 1 > MOST:
        raise invalid("table", _("Import at most %(most)d people at a time.") % {"most": MOST})
    return [_line(number, dict(zip(head, row, strict=False))) for number, row in table[1:]]


def _line(number: int, cells: dict[str, str]) -> Line:
    return Line(number, **{name: cells.get(name, "").strip() for name in COLUMNS})


def check_people(lines: Sequence[Line], *, by: User) -> list[Judged]:
    """The dry run: every line judged, nothing changed. Three statements whatever the number of lines."""
    standing, groups = standing_of(by.pk), _groups(lines, by)
    addresses = [normalise_email(line.email) for line in lines]
    taken = set(User.objects.filter(email__in=addresses).values_list("email", flat=True))
    seen: dict[str, int] = {}
    return [_judged(line, groups, standing, taken, seen) for line in lines]


def _groups(lines: Sequence[Line], by: User) -> dict[str, list[Group]]:
    """The groups that he administers by what a line may call them: name, "organisation/name", id."""
    wanted = {line.group.casefold() for line in lines}
    found: dict[str, list[Group]] = {}
    rows = administered_groups(by).annotate(called=Lower("name"))
    named = Q(called__in={name.rpartition("/")[2] for name in wanted}) | Q(pk__in=_ids(wanted))
    for group in rows.filter(named).select_related("organisation"):
        names = (group.name, f"{group.organisation.name}/{group.name}", str(group.pk))
        for name in {name.casefold() for name in names} & wanted:
            found.setdefault(name, []).append(group)
    return found


def _ids(texts: Iterable[str]) -> list[UUID]:
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def _judged(
    line: Line, groups: dict[str, list[Group]], standing: Standing, taken: set[str], seen: dict[str, int]
) -> Judged:
    faults: list[tuple[str, str]] = []
    try:
        address = checked_email(line.email)
        if address in taken:
            faults.append(("email", _("This e-mail address has an account already.")))
        elif address in seen:
            faults.append(("email", _("The same address as in line %(n)d.") % {"n": seen[address]}))
        seen.setdefault(address, line.number)
    except DomainError as refusal:
        faults.append(("email", _first(refusal)))
    try:
        checked_name(line.name)
    except DomainError as refusal:
        faults.append(("name", _first(refusal)))
    role = _role(line.role)
    if role is None:
        faults.append(("role", _("In a group somebody is guest, member or group_admin.")))
    group = _one_group(groups.get(line.group.casefold(), []), faults)
    if group is not None and role is not None:
        target = Target(organisation_id=group.organisation_id, group_id=group.pk, role=role)
        if not may(standing, Act.REGISTER_USER, target).allowed:
            faults.append(("role", _("You cannot give this role here.")))
    told = tuple(LineFault(line.number, column, text) for column, text in faults)
    return Judged(line, group, role or Role.MEMBER, told)


def _one_group(found: list[Group], faults: list[tuple[str, str]]) -> Group | None:
    if not found:
        faults.append(("group", _("You administer no group of this name.")))
        return None
    if len(found) > 1:
        faults.append(("group", _("Several groups have this name: write organisation/group.")))
        return None
    if not (found[0].is_active and found[0].organisation.is_active):
        faults.append(("group", _("This place is deactivated.")))
    return found[0]


def _role(text: str) -> Role | None:
    if not text:
        return Role.MEMBER
    return next((role for role in GROUP_ROLES if role.value == text.casefold()), None)


def _first(refusal: DomainError) -> str:
    texts = [text for named in (refusal.errors or {}).values() for text in named]
    return str(texts[0] if texts else refusal.detail)


def import_people(lines: Sequence[Line], *, by: User) -> list[Registered]:
    """Register everybody of the table, or nobody. Raises `invalid` with an entry for each line that cannot be."""
    judged = check_people(lines, by=by)
    _refuse([fault for one in judged for fault in one.faults])
    prepared = [
        prepare_registration(
            email=one.line.email,
            name=one.line.name,
            by=by,
            organisation_id=None,
            group_id=_key(one.group),
            role=one.role,
        )
        for one in judged
    ]
    made: list[Registered] = []
    with ordered():
        people = held_people(by)
        for one, registration in zip(judged, prepared, strict=True):
            try:
                made.append(insert_registration(registration, by=by, people=people))
            except DomainError as refusal:  # somebody registered the address, or took the right, since it was judged
                _refuse([LineFault(one.line.number, "email", _first(refusal))])
    return made


def _key(group: Group | None) -> UUID:
    assert group is not None, "a line without a group has a fault"
    return group.pk


def _refuse(faults: list[LineFault]) -> None:
    if faults:
        errors: dict[str, list[str]] = {}
        for fault in faults:
            errors.setdefault(f"line {fault.number}", []).append(f"{fault.column}: {fault.text}")
        raise DomainError(
            "invalid",
            _("Nobody was registered: some lines cannot be."),
            errors=errors,
            remedy=_("Correct the named lines and send all of them again."),
        )
