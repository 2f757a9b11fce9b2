"""A world with everything that the administrators' pages show: two organisations, cards, sessions in many states, a queue."""

from __future__ import annotations

from dataclasses import dataclass

from accounts.models import User
from billing import services as billing
from billing.domain.budgets import Rule
from cluster.models import Cluster
from sessions_app.models import Session
from tests.apps.sessions.world import MODEL, World, limit
from tests.builders import Customer, a_cluster, a_customer, a_group, a_node, a_super_admin, a_user, an_org_admin, cr


@dataclass(frozen=True)
class Administered:
    """Alice's group with its administrators, a neighbour group of the same organisation, and a stranger elsewhere."""

    world: World
    root: User
    org_admin: User
    group_admin: User
    neighbour: Customer
    stranger: Customer
    running: Session
    waiting: Session
    of_neighbour: Session
    of_stranger: Session

    @property
    def administrators(self) -> dict[str, User]:
        return {"super_admin": self.root, "org_admin": self.org_admin, "group_admin": self.group_admin}


def administered(world: World) -> Administered:
    """Four sessions on cards, one that waits, a silent cluster, a draining node, a budget nearly used up."""
    for field in ("max_sessions", "max_queued", "vram_mib", "core_percent", "cpu_milli", "memory_mib", "scratch_gib"):
        limit("global", field, 1_000_000)
    group = world.alice.group
    scope = billing.BudgetScope("organisation", group.organisation_id)
    billing.create_budget(scope=scope, limit=cr(75), mode="warn", rule=Rule("UTC"), by=None)
    neighbour = a_customer(500, group=a_group(group.organisation, "Language Lab"))
    stranger = a_customer(500, group=a_group(name="Genomics"))
    running = world.run("L", name="vit-ft")
    of_neighbour = world.run("M", name="asr-large", customer=neighbour)
    of_stranger = world.run("XL", name="fold-9", customer=stranger)
    waiting = world.create("exclusive", name="llm-eval")
    quiet = a_cluster("annex", state=Cluster.State.LOST, last_beat_at=world.time.now())
    a_node(quiet, "gpu-05", cards=[{"model": MODEL}])
    a_node(world.cluster, "gpu-02", cards=[{"model": MODEL}, {"model": MODEL}], is_cordoned=True)
    return Administered(
        world=world,
        root=a_super_admin(),
        org_admin=an_org_admin(group.organisation),
        group_admin=a_user(group, role="group_admin"),
        neighbour=neighbour,
        stranger=stranger,
        running=running,
        waiting=waiting,
        of_neighbour=of_neighbour,
        of_stranger=of_stranger,
    )
