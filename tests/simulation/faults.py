"""What goes wrong: clusters cut off, machines silent, crashed, removed, listeners deaf, workers away, processes killed.

Guarantees: each fault has an end; how often each strikes is a rate an hour, so that short and long runs meet the same
world; all from the seed. Lost, doubled, late and reordered reports are the clusters' own (`metal.py`), lost hints the
broker's (`turns.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random

from tests.simulation.metal import Cluster
from tests.simulation.turns import Turns
from tests.simulation.world import World


@dataclass
class Faults:
    """Strikes by the seed. `rate` 1 is the usual number of faults, 0 none."""

    world: World
    clusters: Sequence[Cluster]
    turns: Turns
    chance: Random
    rate: float = 1.0

    def begin(self) -> None:
        """Let every kind of fault strike by its rate."""
        if not self.rate:
            return
        self.world.dies = self._dies
        kinds: dict[Callable[[], None], float] = {  # hours between two of them
            self._cluster_cut: 30.0,
            self._machine_silent: 14.0,
            self._machine_removed: 120.0,
            self._deaf: 40.0,
            self._workers_away: 36.0,
            self._operator_restarted: 24.0,
        }
        for strike, hours in kinds.items():
            self._again(strike, hours / self.rate)

    def _again(self, strike: Callable[[], None], hours: float) -> None:
        def act() -> None:
            self.world.seen[f"fault: {strike.__name__.lstrip('_')}"] += 1
            strike()
            self._again(strike, hours)

        self.world.after(self.chance.expovariate(1 / hours) * 3600, act)

    def _dies(self) -> int | None:
        """After how many statements the process that serves the next call dies; mostly it does not."""
        return self.chance.randint(0, 60) if self.chance.random() < 0.004 * self.rate else None

    def _some_minutes(self) -> timedelta:
        """From a hiccup to hours."""
        return timedelta(minutes=self.chance.choice([0.3, 1.5, 4, 6, 12, 45, 180]) * self.chance.uniform(0.7, 1.3))

    # Clusters --------------------------------------------------------------------------------------------------------

    def _cluster_cut(self) -> None:
        cluster = self.chance.choice(self.clusters)
        if not cluster.reaches:
            return
        cluster.beat()
        cluster.cut_since = self.world.now
        self.turns.judge_from(self.world.now)
        self.world.after(self._some_minutes().total_seconds(), lambda: self._restore(cluster))

    def _restore(self, cluster: Cluster) -> None:
        cluster.cut_since = None
        self._catch_up(cluster)

    def _catch_up(self, cluster: Cluster) -> None:
        """The way is free again: the operator beats and reads everything anew."""
        cluster.beat()
        cluster.poll(everything=True)

    def _operator_restarted(self) -> None:
        """It starts with what is on its disk and reads everything."""
        cluster = self.chance.choice(self.clusters)
        if cluster.reaches:
            self._catch_up(cluster)

    def _deaf(self) -> None:
        span = self._some_minutes()
        for cluster in self.clusters:
            if cluster.reaches:
                cluster.beat()
        self.world.be_deaf_for(span)

        def hear() -> None:
            for cluster in self.clusters:
                if cluster.reaches:
                    self._catch_up(cluster)

        self.turns.judge_from(self.world.now)
        self.world.after(span.total_seconds() + 0.5, hear)

    # Machines --------------------------------------------------------------------------------------------------------

    def _machine_silent(self) -> None:
        cluster = self.chance.choice(self.clusters)
        machine = self.chance.choice(sorted(cluster.machines.values(), key=lambda machine: machine.name))
        cluster.silence(machine, crashed=self.chance.random() < 0.4)
        cluster.urgent()
        self.world.after(self._some_minutes().total_seconds(), lambda: self._revive(cluster, machine.name))

    def _machine_removed(self) -> None:
        """Silent for good: an administrator deletes it, and puts it back another day."""
        cluster = self.chance.choice(self.clusters)
        machine = self.chance.choice(sorted(cluster.machines.values(), key=lambda machine: machine.name))
        cluster.silence(machine, crashed=True)
        cluster.urgent()

        def remove() -> None:
            cluster.give_up(machine)
            cluster.urgent()

        self.world.after(self.chance.uniform(60, 3600), remove)
        self.world.after(self.chance.uniform(2, 30) * 3600, lambda: self._revive(cluster, machine.name))

    def _revive(self, cluster: Cluster, name: str) -> None:
        cluster.revive(cluster.machines[name])
        cluster.urgent()

    # Ourselves -------------------------------------------------------------------------------------------------------

    def _workers_away(self) -> None:
        if self.turns.workers_away:
            return
        self.turns.leave()
        self.world.after(self._some_minutes().total_seconds(), self.turns.resume)
