"""Cuts the cards of nodes another way, as mode changes ask for: HAMi's settings, MIG turned off, its plugin restarted, the register read.

Guarantees: level-triggered: each pass looks at what there is and takes one step, so that a death at any point, a second operator
or a repetition leads to the same end; the status is written with the version that was read, and before anything on the node is
changed, so that a change that was withdrawn never begins; nothing begins while a pod holds a card of the node, or before the
node is cordoned, and only after two looks; nothing is done before what it needs is seen. MIG is off, by the driver's own word,
before HAMi registers cards as shared ones again. Every phase has a deadline and ends in words.
Nothing of HAMi's is written but its own setting (`operatingmode`); no `hami.io/…` annotation. One change a node at a time, the
oldest first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from cluster.domain.hami_config import CONFIG_KEY, CONFIG_MAP, operating_mode, with_mode
from cluster.domain.kube import Object, condition, has_ended, label, name, number, part, rows, text
from cluster.operator.manifests.mig_off import LABEL_MODE_CHANGE, mig_off, mig_off_name
from cluster.operator.reading import modes
from cluster.operator.state import Unavailable
from cluster.operator.substrates.kubernetes.api import NODES, PODS, Api, Document, Kind, Refused
from gshare_core.clock import Clock
from gshare_core.contract import NAMESPACE_INFRA, NAMESPACE_SESSIONS, ModeChangePhase, clip_message
from gshare_core.contract.resources import ModeChange, ModeChangeStatus, mode_change_of

log = logging.getLogger(__name__)

MODE_CHANGES = Kind("gshare.io/v1", "gpumodechanges", "GpuModeChange")
CONFIG_MAPS = Kind("v1", "configmaps", "ConfigMap")
JOBS = Kind("batch/v1", "jobs", "Job")
HAMI_NAMESPACE = "kube-system"
LOOK_SECONDS = 3.0
NO_PLUGIN = "none"
Phase = ModeChangePhase
ENDS = frozenset({Phase.DONE, Phase.FAILED})
LIMITS: Mapping[Phase, timedelta] = {
    Phase.PENDING: timedelta(minutes=30),
    Phase.DRAINING: timedelta(minutes=30),
    Phase.APPLYING: timedelta(minutes=20),
    Phase.VERIFYING: timedelta(minutes=5),
}


@dataclass(frozen=True, slots=True)
class ModeSettings:
    """Where things are. `image`: what turns MIG off runs in it; it needs a shell, nvidia-smi comes from the runtime."""

    image: str = ""
    namespace: str = NAMESPACE_SESSIONS
    hami_namespace: str = HAMI_NAMESPACE
    infra_namespace: str = NAMESPACE_INFRA


@dataclass(frozen=True, slots=True)
class _Seen:
    """A mode change as it was read."""

    name: str
    version: str
    change: ModeChange
    status: ModeChangeStatus

    @property
    def node(self) -> str:
        return self.change.node


class ModeChanges:
    """See the module. `run` it beside the rest; whoever leads does."""

    def __init__(self, api: Api, settings: ModeSettings, clock: Clock, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._api, self._settings, self._clock, self._look_seconds = api, settings, clock, look_seconds
        self._blind = ""
        self._empty: dict[str, str] = {}  # changes whose node was empty at the last look, with the version then

    async def run(self) -> None:
        """Look and act for ever."""
        while True:
            await self.keep()
            await asyncio.sleep(self._look_seconds)

    async def keep(self) -> None:
        """One pass: each change that has not ended takes its next step, if it can. Raises nothing."""
        try:
            found = await self._api.list(MODE_CHANGES, self._settings.namespace)
        except (Unavailable, Refused) as error:
            if self._blind != str(error):  # said once, not at every look: the definition may be missing for long
                log.warning("mode changes cannot be seen: %s", error)
            self._blind = str(error)
            return
        self._blind = ""
        taken: set[str] = set()
        for item in sorted(found.get("items", ()), key=_age):
            seen = _read(item)
            if seen is None or seen.status.phase in ENDS:
                continue
            if seen.node in taken:
                await self._safely(seen, self._note(seen, seen.status.phase, "waits for the change before it"))
                continue
            taken.add(seen.node)
            await self._safely(seen, self._step(seen))

    async def _safely(self, seen: _Seen, work: object) -> None:
        try:
            await work  # type: ignore[misc]
        except Unavailable as error:
            log.warning("mode change %s waits: %s", seen.name, error)
        except Refused as refusal:
            # 404: it was withdrawn; 409: somebody else wrote at the same instant. The next look sees.
            if refusal.status not in {404, 409}:
                log.error("mode change %s is refused: %s", seen.name, refusal)  # noqa: TRY400 -- says it all
                await self._say(seen, f"the API server refuses: {refusal}")

    async def _say(self, seen: _Seen, message: str) -> None:
        """As well as it can be said."""
        try:
            await self._note(seen, seen.status.phase, message)
        except (Unavailable, Refused) as error:
            log.warning("the status of %s cannot be written: %s", seen.name, error)

    async def _step(self, seen: _Seen) -> None:
        since, phase = seen.status.since, seen.status.phase
        if since is not None and self._clock.now() - since > LIMITS[phase]:
            await self._note(seen, Phase.FAILED, f"{phase.value.lower()} took too long: {seen.status.message}")
        elif phase is Phase.VERIFYING:
            await self._verify(seen)
        elif phase is Phase.APPLYING:
            await self._apply(seen)
        else:
            await self._begin(seen)

    # Before anything is changed ------------------------------------------------------------------------------------

    async def _begin(self, seen: _Seen) -> None:
        node = await self._api.get(NODES, None, seen.node)
        pods = (await self._api.list(PODS, None)).get("items", ())
        plugins = [pod for pod in modes.plugins_of(seen.node, pods) if self._is_hamis(pod)]
        settings = await self._config()
        said = None if settings is None else text(settings, "data", CONFIG_KEY)
        why_not = modes.objection(seen.change, node, said, plugins, image=self._settings.image)
        if why_not or node is None:
            await self._note(seen, Phase.FAILED, why_not)
            return
        waits = modes.hindrance(seen.change, node, pods)
        if waits:
            self._empty.pop(seen.name, None)
            await self._note(seen, Phase.DRAINING, waits)
        elif self._empty.get(seen.name) != seen.version:
            # Schedulers hear of a cordon a moment late: what one of them bound meanwhile is seen at the next look.
            self._empty[seen.name] = await self._note(seen, Phase.DRAINING, "the node is empty")
        else:
            await self._note(seen, Phase.APPLYING, "begins", begun=True)

    def _is_hamis(self, pod: Object) -> bool:
        return text(pod, "metadata", "namespace") == self._settings.hami_namespace

    # The change itself ---------------------------------------------------------------------------------------------

    async def _apply(self, seen: _Seen) -> None:
        """The first of the steps that is not done yet."""
        if await self._set_mode(seen) and await self._mind_job(seen) and await self._restart_plugin(seen):
            await self._note(seen, Phase.VERIFYING, "waits for HAMi to register the cards")

    async def _config(self) -> Document | None:
        return await self._api.get(CONFIG_MAPS, self._settings.hami_namespace, CONFIG_MAP)

    async def _set_mode(self, seen: _Seen) -> bool:
        """HAMi's setting of the node is as wanted."""
        found = await self._config()
        if found is None:
            raise Unavailable("HAMi's ConfigMap of its device plugin is not there")
        said, target = text(found, "data", CONFIG_KEY), seen.change.target_mode
        try:
            if operating_mode(said, seen.node) == target:
                return True
            changed = with_mode(said, seen.node, target)
        except ValueError as error:
            raise Unavailable(f"HAMi's settings cannot be read: {error}") from None
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        namespace = self._settings.hami_namespace
        await self._api.merge(CONFIG_MAPS, namespace, CONFIG_MAP, {"metadata": version, "data": {CONFIG_KEY: changed}})
        log.info("mode change %s: %s of node %s is set", seen.name, target, seen.node)
        return True

    async def _mind_job(self, seen: _Seen) -> bool:
        """MIG is off where it has to be; nothing of an earlier change turns it off meanwhile."""
        turns_off = seen.change.target_mode != modes.MIG
        namespace = self._settings.infra_namespace
        job = await self._api.get(JOBS, namespace, mig_off_name(seen.node))
        if job is None and not turns_off:
            return True
        if job is not None and (not turns_off or label(job, LABEL_MODE_CHANGE) != seen.name):
            await self._api.delete(JOBS, namespace, name(job), uid=text(job, "metadata", "uid"))
            await self._note(seen, Phase.APPLYING, "waits until the job of an earlier change is gone")
            return False
        if job is None:
            wanted = mig_off(
                seen.node, seen.change.card_uuids, change=seen.name, image=self._settings.image, namespace=namespace
            )
            job = await self._api.create(JOBS, namespace, wanted)
        if number(job, "status", "succeeded"):
            return True
        if condition(job, "Failed").get("status") == "True":
            why = await self._last_words(seen) or text(condition(job, "Failed"), "message")
            await self._note(seen, Phase.FAILED, f"MIG cannot be turned off: {why}")
            return False
        words = await self._last_words(seen)
        await self._note(seen, Phase.APPLYING, f"turns MIG off{f'; last try: {words}' if words else ''}")
        return False

    async def _last_words(self, seen: _Seen) -> str:
        """What the newest pod of the job said at its end."""
        labels = f"{LABEL_MODE_CHANGE}={seen.name}"
        found = await self._api.list(PODS, self._settings.infra_namespace, labels=labels)
        ended = sorted((pod for pod in found.get("items", ()) if has_ended(pod)), key=_age)
        for state in rows(ended[-1], "status", "containerStatuses") if ended else ():
            return text(state, "state", "terminated", "message").strip()
        return ""

    async def _restart_plugin(self, seen: _Seen) -> bool:
        """The plugin's pod of before is gone, and the one after it is up: it has read the setting."""
        pods = await self._plugins(seen.node)
        if seen.status.plugin is None:
            uid = text(pods[0], "metadata", "uid") if pods else NO_PLUGIN
            await self._note(seen, Phase.APPLYING, "restarts HAMi's device plugin", plugin=uid)
            return False
        old = [pod for pod in pods if text(pod, "metadata", "uid") == seen.status.plugin]
        for pod in old:
            if not text(pod, "metadata", "deletionTimestamp"):
                uid = text(pod, "metadata", "uid")
                await self._api.delete(PODS, self._settings.hami_namespace, name(pod), uid=uid)
        if old:
            return False
        new = [pod for pod in pods if modes.is_ready(pod)]
        if not new:
            why = modes.why_not_ready(pods[-1]) if pods else "there is none on the node"
            await self._note(seen, Phase.APPLYING, f"waits for HAMi's device plugin: {why}")
            return False
        return True

    async def _plugins(self, node: str) -> Sequence[Object]:
        labels = f"{modes.COMPONENT}={modes.PLUGIN}"
        found = await self._api.list(PODS, self._settings.hami_namespace, labels=labels)
        return sorted(modes.plugins_of(node, found.get("items", ())), key=_age)

    async def _verify(self, seen: _Seen) -> None:
        lacks = modes.unconfirmed(seen.change, await self._api.get(NODES, None, seen.node))
        if lacks:
            await self._note(seen, Phase.VERIFYING, lacks)
            return
        count, how = len(seen.change.card_uuids), "cut by MIG" if seen.change.target_mode == modes.MIG else "shared"
        await self._note(seen, Phase.DONE, f"{count} card{'s are' if count > 1 else ' is'} {how}")

    # What is told --------------------------------------------------------------------------------------------------

    async def _note(
        self, seen: _Seen, phase: Phase, message: str, *, begun: bool = False, plugin: str | None = None
    ) -> str:
        """Write what differs, over just what was read; the version that the change has then. Raises Refused 404, 409."""
        known, message = seen.status, clip_message(message)
        begun = begun or known.begun
        says = (phase, message, begun, plugin or known.plugin)
        if known.since is not None and says == (known.phase, known.message, known.begun, known.plugin):
            return seen.version
        status: Document = {"phase": phase.value, "message": message, "begun": begun}
        if phase is not known.phase or known.since is None:
            status["since"] = self._clock.now().isoformat()
        if plugin is not None:
            status["plugin"] = plugin
        body = {"metadata": {"resourceVersion": seen.version}, "status": status}
        namespace = self._settings.namespace
        written = await self._api.merge(MODE_CHANGES, namespace, seen.name, body, subresource="status")
        if phase is not known.phase:
            log.info("mode change %s of node %s: %s: %s", seen.name, seen.node, phase.value, message)
        return str(written["metadata"]["resourceVersion"])


def _age(item: Object) -> tuple[str, str]:
    return text(item, "metadata", "creationTimestamp"), name(item)


def _read(item: Document) -> _Seen | None:
    if text(item, "metadata", "deletionTimestamp"):
        return None
    try:
        change, status = mode_change_of(item)
    except ValueError as error:
        log.warning("mode change %s cannot be read and is passed over: %s", name(item), error)
        return None
    version = text(part(item, "metadata"), "resourceVersion")
    return _Seen(name(item), version, change, status or ModeChangeStatus(phase=Phase.PENDING))
