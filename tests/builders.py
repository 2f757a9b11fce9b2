"""Plain functions that make rows for tests, as the services would. Every section belongs to an application."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import UUID

from accounts.domain.policies import Kind
from accounts.models import Group, Membership, Organisation, Policy, PolicyValue, User
from billing import services as billing
from billing.models import SYSTEM_ID
from catalog.models import Image
from cluster.models import Card, Cluster, Node, Pool
from cluster.models import Sequence as Counter
from cluster.sequence import record_change
from gshare_core.ids import uuid7
from gshare_core.kit.locks import ordered
from gshare_core.money import parse_credits
from sessions_app.models import Run, Session

_numbers = count(1)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)

# accounts -------------------------------------------------------------------------------------------------------------


def an_organisation(name: str = "") -> Organisation:
    """An organisation."""
    return Organisation.objects.create(name=name or f"organisation {next(_numbers)}", created_at=LONG_AGO)


def a_group(organisation: Organisation | None = None, name: str = "") -> Group:
    """A group, in an organisation of its own unless one is given."""
    return Group.objects.create(
        organisation=organisation or an_organisation(), name=name or f"group {next(_numbers)}", created_at=LONG_AGO
    )


def a_user(group: Group | None = None, role: str = "member", **fields: Any) -> User:
    """A person; with a group, a member of it whose home is its organisation."""
    number = next(_numbers)
    home = fields.pop("organisation", None) or (group.organisation if group else an_organisation())
    user = User(
        email=fields.pop("email", f"user{number}@example.org"),
        name=fields.pop("name", f"User {number}"),
        organisation=home,
        created_at=LONG_AGO,
        **fields,
    )
    user.set_password(fields.get("password", "correct horse battery"))
    user.save()
    if group is not None:
        Membership.objects.create(user=user, group=group, role=role, created_at=LONG_AGO)
    return user


def an_org_admin(organisation: Organisation) -> User:
    """Somebody who administers an organisation."""
    user = a_user(organisation=organisation)
    Membership.objects.create(user=user, organisation=organisation, role="org_admin", created_at=LONG_AGO)
    return user


def a_super_admin() -> User:
    """Somebody who administers everything."""
    return a_user(is_super_admin=True)


def a_limit(place: Organisation | Group | User, *, kind: Kind = Kind.PER_USER, **fields: int) -> Policy:
    """Limits that a scope sets: ``a_limit(group, max_sessions=2)``."""
    name = {Organisation: "organisation", Group: "group", User: "user"}[type(place)]
    policy, _made = Policy.objects.get_or_create(scope_kind=name, **{name: place}, defaults={"created_at": LONG_AGO})
    for field, value in fields.items():
        PolicyValue.objects.create(policy=policy, kind=kind, field=field, value=value)
    return policy


# cluster --------------------------------------------------------------------------------------------------------------


def a_cluster(name: str = "", *, state: str = "connected", **fields: Any) -> Cluster:
    """A cluster with its counter and its shared pool."""
    cluster = Cluster.objects.create(
        name=name or f"cluster-{next(_numbers)}",
        kind=fields.pop("kind", "local"),
        state=state,
        created_at=LONG_AGO,
        **fields,
    )
    Counter.objects.create(cluster=cluster)
    Pool.objects.create(cluster=cluster, name="shared", is_shared=True)
    return cluster


def a_node(cluster: Cluster, name: str = "", *, cards: Sequence[dict[str, Any]] = (), **fields: Any) -> Node:
    """A ready node with cards: ``cards=[{}, {"slots": 4}]`` are two of 80 GiB, one with four slots only."""
    node = Node(
        cluster=cluster,
        pool=fields.pop("pool", None) or Pool.objects.home_of(cluster.pk),
        name=name or f"node-{next(_numbers)}",
        **{"cpu_milli": 128_000, "memory_mib": 524_288, "scratch_gib": 2_000, "is_ready": True} | fields,
    )
    node.not_ready_since = None if node.is_ready else LONG_AGO
    with ordered():
        node.save()
        for index, card in enumerate(cards):
            a_card(node, index, **card)
        record_change(cluster.pk, node.pk)
    return node


def a_card(node: Node, index: int = 0, **fields: Any) -> Card:
    """A healthy card; a fleet that is followed already learns of it with the node's next change."""
    values = {"model": "NVIDIA A100-SXM4-80GB", "vram_mib": 81_920, "core_milli": 1_000, "slots": 10}
    return Card.objects.create(node=node, index=index, uuid=fields.pop("uuid", f"GPU-{uuid7()}"), **values | fields)


def ids(count_: int = 3) -> tuple[UUID, ...]:
    """New ids, for references upward."""
    return tuple(uuid7() for _number in range(count_))


# billing --------------------------------------------------------------------------------------------------------------


def cr(amount: str | int) -> int:
    """Micro-credits: ``cr(5)``, ``cr("0.25")``."""
    return parse_credits(str(amount))


@dataclass(frozen=True)
class Customer:
    """Somebody in a group of an organisation, with a wallet."""

    user: User
    group: Group
    wallet: UUID

    @property
    def scopes(self) -> billing.Scopes:
        return billing.Scopes(self.user.pk, self.group.pk, self.group.organisation_id)


def a_customer(amount: str | int = 0, *, group: Group | None = None, user: User | None = None) -> Customer:
    """A member whose wallet was filled with `amount` credits from the mint down, each step through the ledger's door."""
    place = group or a_group()
    person = user or a_user(place)
    Membership.objects.get_or_create(user=person, group=place, defaults={"role": "member", "created_at": LONG_AGO})
    customer = Customer(person, place, billing.ensure_wallet("user", person.pk))
    if amount:
        fund(customer, amount)
    return customer


def fund(customer: Customer, amount: str | int) -> None:
    """Hand credits down to a customer's wallet."""
    above = fund_group(customer.group, amount)
    billing.allocate(source=above, to=customer.wallet, amount=cr(amount), by=None)


def fund_group(group: Group, amount: str | int) -> UUID:
    """Hand credits down to a group's wallet; answers its id."""
    organisation = billing.ensure_wallet("organisation", group.organisation_id)
    wallet = billing.ensure_wallet("group", group.pk)
    billing.issue(amount=cr(amount), by=None)
    billing.allocate(source=SYSTEM_ID, to=organisation, amount=cr(amount), by=None)
    billing.allocate(source=organisation, to=wallet, amount=cr(amount), by=None)
    return wallet


# a running session, for whoever needs its door ------------------------------------------------------------------------


def an_image(*, apps: Sequence[str] = ("lab", "terminal", "code"), **fields: Any) -> Image:
    """A public image without CUDA."""
    digest = f"{next(_numbers):064x}"
    return Image.objects.create(
        name=fields.pop("name", f"image {next(_numbers)}"),
        reference=f"registry.example/image@sha256:{digest}",
        apps=list(apps),
        **fields,
    )


def a_running_session(owner: User, group: Group, **fields: Any) -> Session:
    """A CPU session with an open run, as reports leave them: `endpoints` (app → address), `state`, `run_number`, `cluster`."""
    cluster = fields.pop("cluster", None) or Cluster.objects.first() or a_cluster()
    endpoints = fields.pop("endpoints", {})
    session = Session.objects.create(
        name=fields.pop("name", f"session-{next(_numbers)}"),
        owner=owner,
        group=group,
        organisation=group.organisation,
        mode="cpu",
        image=fields.pop("image", None) or an_image(),
        cpu_milli=1000,
        memory_mib=1024,
        scratch_gib=1,
        cluster=cluster,
        state_since=LONG_AGO,
        created_at=LONG_AGO,
        **{"state": "running", "run_number": 1} | fields,
    )
    Run.objects.create(
        session=session,
        number=session.run_number,
        cluster=cluster,
        opened_at=LONG_AGO,
        ready_at=LONG_AGO,
        endpoints=endpoints,
    )
    return session
