"""Who and what there is in the installation of `bench pages`: people, places, what can be rented, the metal.

Guarantees: as the services would have made it, in batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.hashers import make_password

from accounts.models import Group, Membership, Organisation, PolicyValue, User
from accounts.services import ensure_global_policy
from billing import services as billing
from billing.models import Budget
from catalog.models import Image, Offering, Preset
from cluster.domain.shapes import Host, Shape, tier_shape
from cluster.models import Card, Claim, Cluster, Node, Pool, PoolGrant
from cluster.models import Sequence as FleetCounter
from gshare_core.ids import uuid7
from gshare_site.benches.line_rows import CARDS_A_NODE, PASSWORD, TIERS, VRAM, make_catalogue

BATCH = 2_000
BIG_GROUP = 300
MOST = 10**9
SOMEBODY, GROUP_ADMIN, ORG_ADMIN, SUPER_ADMIN, STRANGER = range(5)
"""The first people, by number: the one with very much, and who asks for pages."""


@dataclass
class Town:
    """Who there is."""

    now: datetime
    users: list[User]
    groups: list[Group]
    group_of: dict[UUID, Group]
    wallets: dict[str, dict[UUID, UUID]]
    budgets: dict[UUID, Budget]  # by scope


@dataclass
class Shelf:
    """What can be rented; the cards of the first offering are all taken."""

    offerings: tuple[Offering, Offering]
    presets: dict[str, Preset]
    image: Image
    shapes: dict[str, Shape]


@dataclass
class Metal:
    """The cards by offering and the nodes; what is held of them."""

    clusters: list[Cluster]
    cards: dict[UUID, list[Card]]
    nodes: dict[UUID, Node]
    claims: list[Claim] = field(default_factory=list)


def make_town(users: int, groups: int) -> Town:
    """Everybody in one organisation but the stranger; the first some hundred people in one group; budgets everywhere."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    start = now - timedelta(days=420)
    ensure_global_policy()
    limits = PolicyValue.objects.exclude(field__in=("max_runtime_min", "idle_timeout_min"))
    limits.exclude(value__lte=1).update(value=MOST)
    place, other = (Organisation.objects.create(name=name, created_at=start) for name in ("Bench", "Elsewhere"))
    teams = [Group(organisation=place, name=f"group {n:04d}", created_at=start) for n in range(groups - 1)]
    teams.append(Group(organisation=other, name="elsewhere", created_at=start))
    many(teams)
    hashed = make_password(PASSWORD)
    people = [
        User(
            email=f"u{n}@bench.example",
            name=f"Person {n:05d}",
            organisation=other if n == STRANGER else place,
            is_super_admin=n == SUPER_ADMIN,
            time_zone="Asia/Seoul",
            created_at=start,
            password=hashed,
        )
        for n in range(users)
    ]
    many(people)
    group_of = {user.pk: _group_of(number, teams) for number, user in enumerate(people)}
    roles = ["group_admin" if number == GROUP_ADMIN else "member" for number in range(users)]
    seats = [
        Membership(user=user, group=group_of[user.pk], role=role, created_at=start)
        for user, role in zip(people, roles, strict=True)
    ]
    many([*seats, Membership(user=people[ORG_ADMIN], organisation=place, role="org_admin", created_at=start)])
    wallets = {
        "organisation": billing.ensure_wallets("organisation", [place.pk, other.pk]),
        "group": billing.ensure_wallets("group", [group.pk for group in teams]),
        "user": billing.ensure_wallets("user", [user.pk for user in people]),
    }
    return Town(now, people, teams, group_of, wallets, _budgets(people[SOMEBODY], teams, place, now))


def _group_of(number: int, groups: Sequence[Group]) -> Group:
    if number == STRANGER:
        return groups[-1]
    return groups[0] if number < BIG_GROUP else groups[1 + number % (len(groups) - 2)]


def _budgets(heavy: User, groups: Sequence[Group], place: Organisation, now: datetime) -> dict[UUID, Budget]:
    scopes = [{"user_id": heavy.pk}, {"organisation_id": place.pk}, *({"group_id": group.pk} for group in groups)]
    began = now - timedelta(days=400)
    made = [Budget(**scope, limit=10**15, mode="warn", time_zone="Asia/Seoul", created_at=began) for scope in scopes]
    many(made)
    return {budget.scope_pair[1]: budget for budget in made}


def make_shelf() -> Shelf:
    """Two models of cards and every size."""
    taken, free, presets, image = make_catalogue()
    shapes = {}
    for tier in TIERS:
        host = Host(presets[tier].cpu_milli, presets[tier].memory_mib, presets[tier].scratch_gib)
        shape = tier_shape(tier, offering_vram_mib=VRAM, host=host, cards=presets[tier].cards)
        assert isinstance(shape, Shape)
        shapes[tier] = shape
    return Shelf((taken, free), presets, image, shapes)


def make_metal(cards: int, shelf: Shelf, town: Town) -> Metal:
    """Two clusters with nodes of eight cards, a fifth of them of the first model; nothing is held yet."""
    metal = Metal([], {offering.pk: [] for offering in shelf.offerings}, {})
    for name in ("east", "west"):
        cluster = Cluster.objects.create(
            name=name,
            kind="kube",
            state="connected",
            created_at=town.now - timedelta(days=420),
            last_beat_at=town.now + timedelta(days=1),
            observed_at=town.now,
        )
        FleetCounter.objects.create(cluster=cluster)
        shared = Pool.objects.create(cluster=cluster, name="shared", is_shared=True)
        own = Pool.objects.create(cluster=cluster, name="dedicated")
        PoolGrant.objects.create(pool=own, group=town.groups[0])
        metal.clusters.append(cluster)
        for number in range(cards // CARDS_A_NODE // 2):
            node = Node(
                cluster=cluster,
                pool=own if number % 25 == 1 else shared,
                name=f"{name}-{number:04d}",
                cpu_milli=512_000,
                memory_mib=2_000_000,
                scratch_gib=20_000,
                is_ready=True,
            )
            offering = shelf.offerings[number % 5 != 0]
            metal.nodes[node.pk] = node
            metal.cards[offering.pk] += [
                Card(node=node, index=index, uuid=f"GPU-{uuid7()}", model=offering.model, vram_mib=VRAM, slots=16)
                for index in range(CARDS_A_NODE)
            ]
    return metal


def many(rows: Sequence[Any]) -> None:
    """Insert rows of one model in batches."""
    type(rows[0]).objects.bulk_create(rows, batch_size=BATCH)
