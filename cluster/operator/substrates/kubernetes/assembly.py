"""The parts of an operator on Kubernetes, put together; `run` is everything but leading and telling the control plane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cluster.operator.feed import Wishes
from cluster.operator.loop import Operator, Pace
from cluster.operator.manifests import ManifestSettings
from cluster.operator.pace import wait_until
from cluster.operator.reading.troubles import Patience
from cluster.operator.substrates import AppTokens
from cluster.operator.substrates.kubernetes.activity import KubernetesActivity, Sources
from cluster.operator.substrates.kubernetes.api import Api
from cluster.operator.substrates.kubernetes.cordons import Cordons
from cluster.operator.substrates.kubernetes.feed import ResourceFeed
from cluster.operator.substrates.kubernetes.memory import ResourceStore
from cluster.operator.substrates.kubernetes.substrate import Followed, KubernetesSubstrate
from gshare_core.clock import Clock

# A start is a dozen calls that mostly wait; the API server's fairness keeps them from crowding out others. Whatever changes
# wakes the loop, and what only time moves, nodes' signs of life, comes every 10 s.
PACE = Pace(abreast=16, calm_seconds=10.0)


@dataclass(frozen=True, slots=True)
class Assembly:
    """One operator's parts."""

    followed: Followed
    wishes: Wishes
    store: ResourceStore
    substrate: KubernetesSubstrate
    operator: Operator
    feed: ResourceFeed
    cordons: Cordons
    activity: KubernetesActivity

    async def run(self) -> None:
        """Follow, and once it is known what there is, look and act for ever. Nothing before: absence would mean gone."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.followed.everything:
                group.create_task(reflector.run())
            await wait_until(lambda: all(reflector.is_fresh for reflector in self.followed.everything))
            self.store.load()
            self.feed.take(self.followed.resources)
            group.create_task(self.operator.run())


def assemble(
    api: Api,
    settings: ManifestSettings,
    tokens: AppTokens,
    clock: Clock,
    on_report: Callable[[], None] = lambda: None,
    patience: Patience | None = None,
) -> Assembly:
    """An operator's parts, tied together: what changes in the cluster wakes the loop."""
    wishes, made = Wishes(), list[Assembly]()

    def changed() -> None:
        for parts in made:
            parts.operator.wake()

    def refresh() -> None:
        # Once a look, however much has changed since the last one.
        for parts in made:
            if parts.wishes.complete:
                parts.feed.take(parts.followed.resources)

    followed = Followed(api, settings.namespace, changed)
    store = ResourceStore(api, settings.namespace, followed.resources)
    substrate = KubernetesSubstrate(api, followed, settings, tokens, patience)
    operator = Operator(substrate, store, wishes, clock, on_report=on_report, refresh=refresh, pace=PACE)
    sources = Sources(followed.pods, followed.elsewhere, followed.resources)
    parts = Assembly(
        followed,
        wishes,
        store,
        substrate,
        operator,
        ResourceFeed(wishes, operator.wake),
        Cordons(api, followed.nodes),
        KubernetesActivity(api, sources, settings.namespace, tokens),
    )
    made.append(parts)
    return parts
