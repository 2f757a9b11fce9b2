"""One of everything, and everybody who might ask for it: the world behind the table of addresses.

Everything belongs to alice ("owner") or to where she works. What a row of the table names in braces is a field of `Things`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accounts import notices
from accounts.models import Membership, User
from billing import services as billing
from billing.domain.budgets import Rule
from billing.models import Account
from cluster import services as metal
from cluster.models import Card, Node, Pool
from cluster.services import ShareWish, VolumeWish
from gshare_core.clock import ManualClock
from gshare_core.ids import uuid7
from sessions_app.models import Session
from tests.apps.sessions.world import NOON, World, a_world
from tests.builders import a_customer, a_group, a_limit, a_super_admin, a_user, an_org_admin, fund_group

PERSONAS = (
    "anonymous",
    "stranger",  # a member of another organisation
    "guest",  # of alice's group
    "owner",  # alice herself, a member
    "colleague",  # another member of her group
    "group_admin",
    "org_admin",
    "super_admin",
    "newcomer",  # a member of her group who must change the initial password first
)


@dataclass(frozen=True)
class Everybody:
    """The people by persona (nobody for anonymous), and the ids of the things by name."""

    people: dict[str, User | None]
    things: dict[str, str]
    world: World


def everybody(time: ManualClock) -> Everybody:
    """The world, made through the services; every object is alice's or her group's."""
    world = a_world(time, cards=1)
    alice, group = world.alice.user, world.alice.group
    fund_group(group, 10)
    root = a_super_admin()
    running = world.run("L", name="running")
    queued = world.create("exclusive", name="queued")
    people: dict[str, User | None] = {
        "anonymous": None,
        "stranger": a_customer(50, group=a_group()).user,
        "guest": a_user(group, role="guest"),
        "owner": alice,
        "colleague": a_customer(50, group=group).user,
        "group_admin": a_user(group, role="group_admin"),
        "org_admin": an_org_admin(group.organisation),
        "super_admin": root,
        "newcomer": a_user(group, must_change_password=True),
    }
    things = _things(world, running, queued, root) | {"colleague": str(people["colleague"].pk)}  # type: ignore[union-attr]
    return Everybody(people, things, world)


def _things(world: World, running: Session, queued: Session, root: User) -> dict[str, str]:
    alice, group = world.alice.user, world.alice.group
    volume, binned = (_volume(world, name) for name in ("data", "binned"))
    share = metal.share_volume(by=alice, volume_id=volume.pk, wish=ShareWish(mode="ro", group_id=group.pk))
    metal.delete_volume(by=alice, volume_id=binned.pk)
    pool = metal.create_pool(by=root, cluster_id=world.cluster.pk, name="dedicated", is_shared=False)
    grant = metal.grant_pool(by=root, pool_id=pool.pk, organisation_id=group.organisation_id)
    empty = metal.register_cluster(by=root, name="empty")
    notice = notices.notify(user_id=alice.pk, kind="session", title="paused", body="idle", at=NOON)
    found: dict[str, Any] = {
        "session": running.pk,
        "queued": queued.pk,
        "organisation": group.organisation_id,
        "group": group.pk,
        "alice": alice.pk,
        "seat": Membership.objects.get(user=alice, group=group).pk,
        "wallet": world.alice.wallet,
        "group_wallet": Account.objects.get(group=group).pk,
        "asked": billing.ask_for_credits(
            wallet=world.alice.wallet, parent=Account.objects.get(group=group).pk, amount=1, reason="more", by=alice
        ).pk,
        "budget": billing.create_budget(
            scope=billing.BudgetScope("group", group.pk), limit=10**12, mode="warn", rule=Rule("UTC"), by=None
        ).pk,
        "policy": a_limit(group, max_sessions=5).pk,
        "reserved": a_limit(alice, max_priority=5).pk,
        "notice": notice.pk,
        "cluster": world.cluster.pk,
        "empty_cluster": empty.pk,
        "node": Node.objects.get(pk=world.node.pk).pk,
        "card": Card.objects.get(node=world.node.pk).pk,
        "pool": pool.pk,
        "shared_pool": Pool.objects.home_of(world.cluster.pk).pk,
        "grant": grant.pk,
        "volume": volume.pk,
        "binned": binned.pk,
        "share": share.pk,
        "offering": world.offering.pk,
        "preset": world.presets["M"].pk,
        "cpu": world.presets["cpu"].pk,
        "image": world.image.pk,
        "nothing": uuid7(),
    }
    return {name: str(value) for name, value in found.items()}


def _volume(world: World, name: str) -> Any:
    wish = VolumeWish(name=name, kind="data", access="rwx", size_gib=1, cluster_id=world.cluster.pk)
    return metal.create_volume(by=world.alice.user, wish=wish)
