"""The operator's life on a Kubernetes cluster: wait for the lead, follow, act, report; `python -m cluster.operator`.

SIGTERM and SIGINT leave the sessions running: the next operator adopts them. Who loses the lead ends, and is started anew by
Kubernetes: two never act at once for longer than the lease's renewal allows, and what both might do is the same.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from uuid import uuid4

from kubernetes.aio import config as kube_config
from kubernetes.aio.client import ApiClient

from cluster.operator.client import ControlPlane, TokenFile
from cluster.operator.config import KubeConfig
from cluster.operator.feed import Follower, Wishes
from cluster.operator.inventory import Beat
from cluster.operator.manifests import ManifestSettings, PodSettings, nginx_profile
from cluster.operator.reporter import Reporter
from cluster.operator.substrates.kubernetes.api import Api, plain_configuration
from cluster.operator.substrates.kubernetes.assembly import Assembly, assemble
from cluster.operator.substrates.kubernetes.connections import Connections
from cluster.operator.substrates.kubernetes.lead import LeaseLeadership
from cluster.operator.substrates.kubernetes.modes import ModeChanges, ModeSettings
from cluster.operator.substrates.kubernetes.token import TokenSecret
from gshare_core.clock import Clock

log = logging.getLogger(__name__)

LEASE = "gshare-operator"
_TOLD_LOOK_SECONDS = 1.0


def _settings(config: KubeConfig) -> ManifestSettings:
    return ManifestSettings(
        namespace=config.namespace,
        pods=PodSettings(scheduler=config.scheduler),
        ingress=nginx_profile(config.internal_url, config.console_url),
    )


def _modes(config: KubeConfig) -> ModeSettings:
    return ModeSettings(config.mig_image, namespace=config.namespace, hami_namespace=config.hami_namespace)


def _tokens(config: KubeConfig, api: Api) -> TokenFile:
    if config.token_secret:
        return TokenSecret(config.token_file, api, config.system_namespace, config.token_secret)
    return TokenFile(config.token_file)


async def serve(config: KubeConfig, clock: Clock) -> int:
    """Run until a signal (0) or until the lead is lost (1)."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    configuration = plain_configuration()
    if config.kubeconfig is None:
        kube_config.load_incluster_config(client_configuration=configuration)
    else:
        await kube_config.load_kube_config(str(config.kubeconfig), client_configuration=configuration)
    async with (
        ApiClient(configuration) as client,
        ControlPlane(config.internal_url, _tokens(config, Api(client)), Connections()) as plane,
    ):
        identity = f"{socket.gethostname()}-{uuid4().hex[:8]}"
        lead = LeaseLeadership(Api(client), config.system_namespace, LEASE, identity)
        running = asyncio.create_task(_live(config, client, plane, clock, lead))
        signalled = asyncio.create_task(ended.wait())
        await asyncio.wait({running, signalled}, return_when=asyncio.FIRST_COMPLETED)
        for task in (running, signalled):
            task.cancel()
        (fault, _signal) = await asyncio.gather(running, signalled, return_exceptions=True)
        if isinstance(fault, Exception):
            log.error("the operator ends with a fault", exc_info=fault)
        return 0 if ended.is_set() else 1


async def _live(
    config: KubeConfig, client: ApiClient, plane: ControlPlane, clock: Clock, lead: LeaseLeadership
) -> None:
    """Lead and work until the lead is lost; whoever is told to end gives it back."""
    await lead.acquire()
    work = asyncio.create_task(_lead(config, client, plane, clock))
    keeping = asyncio.create_task(lead.keep())
    try:
        await asyncio.wait({work, keeping}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            await work
    finally:
        for task in (work, keeping):
            task.cancel()
        await asyncio.gather(work, keeping, return_exceptions=True)
        if not keeping.done() or keeping.cancelled():
            await lead.release()


async def _lead(config: KubeConfig, client: ApiClient, plane: ControlPlane, clock: Clock) -> None:
    app_token = plane.tokens.app_token
    parts = assemble(Api(client), _settings(config), app_token, clock, on_report=lambda: reporter.wake())  # noqa: PLW0108 -- it is made below
    reporter = Reporter(plane, parts.store, clock)
    beat = Beat(plane, parts.substrate, parts.store, parts.operator, clock, watched=parts.activity)
    async with asyncio.TaskGroup() as group:
        group.create_task(parts.run())
        group.create_task(reporter.run())
        group.create_task(beat.run())
        group.create_task(ModeChanges(Api(client), _modes(config), clock).run())
        group.create_task(plane.keep_renewed(clock))
        told = Wishes()
        group.create_task(Follower(plane, told, lambda _everything: None).run())
        group.create_task(_heed(told, parts))


async def _heed(told: Wishes, parts: Assembly) -> None:
    """The documents come from the cluster itself; which claims were given up for good, and which nodes are cordoned, only
    the control plane says."""
    while True:
        parts.wishes.removed_volumes = told.removed_volumes
        await parts.cordons.keep(told.cordoned_nodes)
        await asyncio.sleep(_TOLD_LOOK_SECONDS)
