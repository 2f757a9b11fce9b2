"""Sets the stage: an organisation with groups, people with wallets, two clusters with 64 cards, and the parts that act."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from accounts.models import Group, User
from accounts.services import ensure_global_policy
from billing import services as billing
from billing.models import SYSTEM_ID
from gshare_core.ids import uuid7
from tests.apps.sessions.world import a_cuda_image, a_preset, an_offering, limit
from tests.builders import a_cluster, a_group, a_super_admin, a_user, an_organisation, cr
from tests.recount import everything_agrees
from tests.simulation.faults import Faults
from tests.simulation.invariants import Invariants
from tests.simulation.metal import Cluster, Machine
from tests.simulation.people import HABITS, KINDS, People, Person, Shop
from tests.simulation.turns import Turns
from tests.simulation.waits import Waits, longest_at_the_head
from tests.simulation.world import World

A100, H100, L40S = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA L40S"
VRAM = {A100: 81_559, H100: 81_559, L40S: 46_068}
RATES = {A100: 20, H100: 40, L40S: 8}
SOUGHT = {A100: 2.0, H100: 1.3, L40S: 1.0}
LONGEST_RUN = timedelta(hours=12)
Metal = Mapping[str, tuple[Sequence[tuple[str, int]], timedelta]]
CLUSTERS: Metal = {
    "east": ([(A100, 8), (A100, 8), (A100, 8), (H100, 8), (H100, 8), ("", 0)], timedelta(seconds=0.4)),
    "west": ([(L40S, 8), (L40S, 8), (A100, 4), (A100, 4), ("", 0)], timedelta(seconds=7)),
}
# So little that there is a line from the first morning on.
FEW_CARDS: Metal = {
    "east": ([(A100, 4), (H100, 2), ("", 0)], timedelta(seconds=0.4)),
    "west": ([(L40S, 2), (A100, 2)], timedelta(seconds=7)),
}


@dataclass
class Simulation:
    """Everything that acts, ready to run."""

    world: World
    people: People
    clusters: list[Cluster]
    turns: Turns
    invariants: Invariants

    def run(self, span: timedelta) -> None:
        """Let so much time pass."""
        for _day in self.days(span):
            pass

    def days(self, span: timedelta) -> Iterator[datetime]:
        """Let so much time pass, day by day, the books balanced in full after each; then count everything anew."""
        end = self.world.now + span
        while self.world.now < end:
            self.world.run(min(self.world.now + timedelta(days=1), end))
            self.invariants.check_daily()
            yield self.world.now
        everything_agrees()


@contextmanager
def staged(seed: int, *, people: int, faults: float = 1.0, metal: Metal = CLUSTERS) -> Iterator[Simulation]:
    """A simulation of so many people on the 64 cards, or on what is given."""
    world = World(seed)
    with world.in_force():
        ensure_global_policy()
        clusters = [_cluster(world, name, *facts) for name, facts in metal.items()]
        turns = Turns(world, clusters, world.random("turns"))
        crowd = _people(world, people)
        invariants = Invariants(world, Waits(longest_at_the_head(LONGEST_RUN)))
        world.check = invariants.check
        turns.around["sessions.drain_queue"] = invariants.a_walk_along_the_line
        for cluster in clusters:
            cluster.beat()
            cluster.poll(everything=True)
        turns.begin()
        crowd.begin()
        Faults(world, clusters, turns, world.random("faults"), faults).begin()
        yield Simulation(world, crowd, clusters, turns, invariants)


def _cluster(world: World, name: str, nodes: Sequence[tuple[str, int]], skew: timedelta) -> Cluster:
    chance = world.random(f"cluster {name}")
    machines = {}
    for number, (model, cards) in enumerate(nodes):
        host = f"{name}-{number:02d}"
        uuids = tuple(f"GPU-{uuid7()}" for _card in range(cards))
        machines[host] = Machine(host, model, VRAM.get(model, 0), uuids)
    return Cluster(world, a_cluster(name), machines, skew, chance)


def _people(world: World, number: int) -> People:
    chance = world.random("people")
    organisations = [an_organisation(f"organisation {index}") for index in range(2)]
    groups = [a_group(organisations[index % 2], f"group {index}") for index in range(max(2, number // 30))]
    administrator = a_super_admin()
    _fund(groups)
    limit("global", "max_sessions", 4)
    limit("global", "max_priority", 1)
    limit("global", "cards", 8)
    limit("global", "vram_mib", 8 * 81_559)
    limit("global", "core_percent", 800)
    limit("global", "cpu_milli", 128_000)
    limit("global", "max_runtime_min", LONGEST_RUN // timedelta(minutes=1))
    everybody = [_person(chance, groups[index % len(groups)], index, number) for index in range(number)]
    shop = Shop(
        presets=_presets(),
        offerings={
            an_offering(model, rate=rate, vram_mib=VRAM[model]).pk: SOUGHT[model] for model, rate in RATES.items()
        },
        image=a_cuda_image().pk,
    )
    return People(world, shop, everybody, administrator, chance)


def _presets() -> dict[str, object]:
    sizes = {tier: a_preset(tier).pk for tier in ("S", "M", "L", "XL", "cpu")}
    many = {
        f"{cards} cards": a_preset("exclusive", cards=cards, name=f"{cards} cards", cpu_milli=8_000 * cards).pk
        for cards in (2, 4, 8)
    }
    return {**sizes, **many, "card": a_preset("exclusive", cpu_milli=8_000).pk}


def _fund(groups: list[Group]) -> None:
    billing.issue(amount=cr(10_000_000), by=None)
    for group in groups:
        above = billing.ensure_wallet("organisation", group.organisation_id)
        billing.allocate(source=SYSTEM_ID, to=above, amount=cr(500_000), by=None)
        billing.allocate(source=above, to=billing.ensure_wallet("group", group.pk), amount=cr(400_000), by=None)


def _person(chance: Random, group: Group, index: int, number: int) -> Person:
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    user: User = a_user(group, email=f"person{index:03d}@example.org", name=f"Person {index}")
    generous = chance.choice(HABITS[kind].gives)
    person = Person(user, group.pk, HABITS[kind], generous)
    wallet = billing.ensure_wallet("user", user.pk)
    if chance.random() < 0.95:
        source = billing.ensure_wallet("group", group.pk)
        billing.allocate(source=source, to=wallet, amount=cr(generous), by=None)
    return person
