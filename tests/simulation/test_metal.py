"""What the simulated machines do at the moments that were set for it."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from cluster.models import Cluster as ClusterRow
from tests.simulation.metal import Cluster, Fate, Machine, SimPod
from tests.simulation.world import MONDAY, World
from tests.unit.operator.build import spec as a_spec


def test_a_pod_is_ready_at_the_very_moment_that_was_set_for_it() -> None:
    world, chance = World(1), Random(1)
    machine = Machine("node", "A100", 81_559, ("GPU-1",))
    cluster = Cluster(world, ClusterRow(name="east"), {"node": machine}, timedelta(0), chance)
    late = []

    for _pod in range(200):
        ready = chance.uniform(3, 40)
        world.time.set(MONDAY)
        pod = SimPod(a_spec(), machine, Fate(ready=ready), MONDAY, begun_at=MONDAY)
        looks_at = MONDAY + timedelta(seconds=ready)
        world.time.set(looks_at - timedelta(microseconds=2))
        assert not cluster.seen(pod).ready
        world.time.set(looks_at)
        late += [] if cluster.seen(pod).ready else [ready]

    assert late == []
