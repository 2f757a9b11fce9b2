"""The demo's people, places and credits, made by the same services that the consoles call.

Repeatable, and right again after being interrupted anywhere: what is there stays as it is (changed passwords, spent credits,
moved people); a person's password is written down before it is set, and a wallet's first credits are marked once given.
"""

from __future__ import annotations

import json
import secrets
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from accounts.domain.roles import Role
from accounts.permissions import visible_groups, visible_organisations, visible_users
from accounts.services import (
    add_membership,
    change_password,
    create_group,
    create_organisation,
    register_user,
    reset_password,
)
from accounts.services.memberships import place_of
from accounts.services.passwords import is_expired
from billing.services import allocate, ensure_wallet, issue
from gshare_core.errors import DomainError
from gshare_core.money import MICRO_PER_CREDIT
from gshare_site.embedded.places import write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accounts.models import Group, Organisation, User

SYSTEM_CREDITS = 1_000_000


@dataclass(frozen=True)
class GroupPlan:
    name: str
    credits: int


@dataclass(frozen=True)
class OrganisationPlan:
    name: str
    credits: int
    groups: tuple[GroupPlan, ...]


@dataclass(frozen=True)
class PersonPlan:
    """Somebody of the demo. `newcomer`: keeps the initial password, so the first sign-in must change it."""

    name: str
    email: str
    group: str
    role: Role = Role.MEMBER
    credits: int = 0
    newcomer: bool = False
    note: str = ""


ORGANISATIONS = (
    OrganisationPlan("Engineering", 20_000, (GroupPlan("Vision Lab", 5_000), GroupPlan("Robotics", 2_000))),
    OrganisationPlan("Science", 10_000, (GroupPlan("Astrophysics", 3_000), GroupPlan("Protein Folding", 2_000))),
)
PEOPLE = (
    PersonPlan("Olga Orlov", "olga@gshare.example", "Vision Lab", Role.ORG_ADMIN, note="administers Engineering"),
    PersonPlan(
        "Grace Gruber", "grace@gshare.example", "Vision Lab", Role.GROUP_ADMIN, 100, note="administers Vision Lab"
    ),
    PersonPlan("Alice Amsel", "alice@gshare.example", "Vision Lab", credits=200, note="has credits"),
    PersonPlan("Bob Birk", "bob@gshare.example", "Vision Lab", credits=20, note="has few credits"),
    PersonPlan("Carol Chen", "carol@gshare.example", "Astrophysics", credits=150, note="in the other organisation"),
    PersonPlan("Gus Gast", "gus@gshare.example", "Vision Lab", Role.GUEST, note="a guest: sees, starts nothing"),
    PersonPlan(
        "Nina Neu",
        "nina@gshare.example",
        "Vision Lab",
        newcomer=True,
        note="a newcomer: must change the password, empty wallet",
    ),
)


@dataclass
class Login:
    """A line of demo.json."""

    email: str
    password: str
    role: str
    name: str
    note: str


@dataclass
class Memory:
    """What was given out: passwords, and first credits by wallet. Kept in a file that only its owner reads."""

    path: Path
    users: dict[str, Login] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    system_wallet: str = ""

    @classmethod
    def read(cls, path: Path) -> Memory:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        users = [Login(**user) for user in kept.get("users", [])]
        return cls(
            path, {user.email: user for user in users}, list(kept.get("given", [])), kept.get("system_wallet", "")
        )

    def write(self) -> None:
        kept = {
            "users": [asdict(user) for user in self.users.values()],
            "given": self.given,
            "system_wallet": self.system_wallet,
        }
        write_private(self.path, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")

    def remember(self, login: Login) -> None:
        self.users[login.email] = login
        self.write()

    @contextmanager
    def once(self, mark: UUID) -> Iterator[bool]:
        """`with memory.once(wallet) as first`: True the first time; marked when the block ends well."""
        first = str(mark) not in self.given
        yield first
        if first:
            self.given.append(str(mark))
            self.write()


def new_password() -> str:
    """Something to copy: 16 characters."""
    return secrets.token_urlsafe(12)


def seed_people(admin: User, memory: Memory) -> None:
    """Organisations, groups, credits and people. `admin`: the super administrator who does it."""
    with memory.once(admin.pk) as first:
        if first:
            made = issue(amount=SYSTEM_CREDITS * MICRO_PER_CREDIT, note="Credits of the demo", by=admin)
            memory.system_wallet = str(made.credit_id)  # type: ignore[union-attr]  # -- without a key no reply is kept
    groups: dict[str, Group] = {}
    for plan in ORGANISATIONS:
        organisation = _organisation(admin, plan.name)
        wallet = ensure_wallet("organisation", organisation.pk)
        _give(memory, UUID(memory.system_wallet), wallet, plan.credits, admin)
        for group_plan in plan.groups:
            group = groups[group_plan.name] = _group(admin, organisation, group_plan.name)
            _give(memory, wallet, ensure_wallet("group", group.pk), group_plan.credits, admin)
    for person in PEOPLE:
        _person(admin, memory, person, groups[person.group])


def _organisation(admin: User, name: str) -> Organisation:
    return visible_organisations(admin).filter(name=name).first() or create_organisation(name=name, by=admin)


def _group(admin: User, organisation: Organisation, name: str) -> Group:
    found = visible_groups(admin).filter(organisation=organisation, name=name).first()
    return found or create_group(organisation_id=organisation.pk, name=name, by=admin)


def _give(memory: Memory, source: UUID, to: UUID, credits: int, admin: User) -> None:  # noqa: A002 -- the domain's word
    with memory.once(to) as first:
        if first and credits:
            allocate(source=source, to=to, amount=credits * MICRO_PER_CREDIT, note="First credits", by=admin)


def _person(admin: User, memory: Memory, plan: PersonPlan, group: Group) -> None:
    user = visible_users(admin).filter(email=plan.email).first()
    known = memory.users.get(plan.email)
    initial = ""
    if user is None:
        seat = Role.MEMBER if plan.role is Role.ORG_ADMIN else plan.role
        made = register_user(email=plan.email, name=plan.name, group_id=group.pk, role=seat, by=admin)
        user, initial, known = made.user, made.initial_password, None
    elif user.must_change_password and (known is None or not plan.newcomer or is_expired(user)):
        initial, known = reset_password(user_id=user.pk, by=admin, reason="demo"), None
    if plan.newcomer:
        if initial:
            memory.remember(Login(plan.email, initial, plan.role.value, plan.name, plan.note))
        elif known is not None and known.password and not user.must_change_password:
            memory.remember(Login(plan.email, "", plan.role.value, plan.name, "has chosen a password of their own"))
    elif initial:
        login = known or Login(plan.email, new_password(), plan.role.value, plan.name, plan.note)
        memory.remember(login)
        change_password(by=user, current=initial, new=login.password)
    if plan.role is Role.ORG_ADMIN:
        _seat_above(admin, user, group)
    _give(memory, ensure_wallet("group", group.pk), ensure_wallet("user", user.pk), plan.credits, admin)


def _seat_above(admin: User, user: User, group: Group) -> None:
    place = place_of(admin, organisation_id=group.organisation_id)
    try:
        add_membership(user_id=user.pk, place=place, role=Role.ORG_ADMIN, by=admin)
    except DomainError as error:
        if error.code != "conflict":
            raise
