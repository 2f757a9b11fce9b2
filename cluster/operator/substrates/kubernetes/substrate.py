"""Pods on Kubernetes, where HAMi is told the card: the operator's substrate there.

Guarantees: what is made is what `manifests` says, each object once, found again by its name and mended when it is no longer as
wanted; a pod that this process made is known before any event tells; while nobody can say what there is, nothing is concluded
(`Unavailable`). On a node one pod with cards is bound at a time: HAMi's lock on the node makes others fail and come back late
(HAMi's bind takes it until the device plugin has released it). What can never start is shown as a pod with `trouble`, and nothing of it exists.
Refuses: objects of the same name that are not this session's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from itertools import chain
from uuid import UUID

from cluster.domain import hami
from cluster.domain.amounts import amount
from cluster.domain.kube import Object, annotation
from cluster.operator.manifests import (
    Manifest,
    Manifests,
    ManifestSettings,
    Owner,
    Unbuildable,
    applied_mark,
    as_it_was_born,
    ingresses,
    manifests_of,
    needs_apply,
)
from cluster.operator.reading.nodes import NodeState, node_state, pods_by_node, read_node
from cluster.operator.reading.pods import Surroundings, run_of
from cluster.operator.reading.troubles import Patience
from cluster.operator.state import Later, Pod, Trouble, Unavailable
from cluster.operator.substrates import AppTokens
from cluster.operator.substrates.kubernetes.api import (
    CLAIMS,
    EVENTS,
    KINDS,
    LEASES,
    NODES,
    PODS,
    SESSIONS,
    Api,
    Document,
    Refused,
)
from cluster.operator.substrates.kubernetes.books import counted_by_hami
from cluster.operator.substrates.kubernetes.pods import is_bound, node_of
from cluster.operator.substrates.kubernetes.reflector import Reflector, known
from cluster.operator.substrates.kubernetes.settled import Readings
from gshare_core.contract import LABEL_SESSION, NodeRow, Reason, SessionSpec, VolumeRow, session_name

log = logging.getLogger(__name__)

NODE_LEASES = "kube-node-lease"


class Followed:
    """The collections that the substrate looks at; `run` them all for ever.

    Every pod of the cluster is in one of three, so that what sessions' pods go through is heard of once: `pods` are those of
    sessions, `beside` what else is in their namespace, `elsewhere` all others.
    """

    def __init__(self, api: Api, namespace: str, on_change: Callable[[], None]) -> None:
        managed = LABEL_SESSION
        self.pods = Reflector(api, PODS, namespace, labels=managed, on_change=on_change)
        self.claims = Reflector(api, CLAIMS, namespace, on_change=on_change)
        self.resources = Reflector(api, SESSIONS, namespace, on_change=on_change)
        self.nodes = Reflector(api, NODES, None, on_change=on_change)
        self.leases = Reflector(api, LEASES, NODE_LEASES)
        self.events = Reflector(api, EVENTS, namespace)
        self.beside = Reflector(api, PODS, namespace, labels=f"!{managed}")
        self.elsewhere = Reflector(api, PODS, None, fields=f"metadata.namespace!={namespace}")

    @property
    def everything(self) -> tuple[Reflector, ...]:
        """All of them."""
        return (self.resources, *self._pods, self.claims, self.nodes, self.leases, self.events)

    @property
    def _pods(self) -> tuple[Reflector, ...]:
        return (self.pods, self.beside, self.elsewhere)

    def every_pod(self) -> Iterator[Document]:
        """Every pod of the cluster. Raises `Unavailable`."""
        return chain.from_iterable(known(reflector).values() for reflector in self._pods)


class KubernetesSubstrate:
    """See the module."""

    def __init__(
        self,
        api: Api,
        followed: Followed,
        settings: ManifestSettings,
        tokens: AppTokens,
        patience: Patience | None = None,
    ) -> None:
        self._api, self._followed, self._settings = api, followed, settings
        self._tokens, self._patience = tokens, patience or Patience()
        self._hopeless: dict[tuple[UUID, int], Pod] = {}
        self._opened: set[tuple[UUID, int]] = set()  # whose ways this process has made, or found as wanted
        self._unopenable: dict[tuple[UUID, int], str] = {}
        self._crashes: dict[tuple[UUID, int], tuple[datetime, ...]] = {}
        self._rows: dict[str, NodeRow] = {}
        self._readings = Readings()
        self._binding: dict[str, str] = {}  # by node the pod whose turn it is there, as of the last look

    @property
    def _namespace(self) -> str:
        return self._settings.namespace

    async def observe(self, now: datetime) -> Sequence[Pod]:
        """Every pod of a session; see `Substrate`."""
        pods, nodes = known(self._followed.pods), self._node_states()
        events = self._events_of_pods()
        self._binding = {node_of(item): name for name, item in pods.items() if not is_bound(item)}

        def around(name: str, item: Object) -> Surroundings:
            whose = run_of(item)
            crashed_at = self._crashes.get(whose, ()) if whose else ()
            return Surroundings(nodes, now, events.get(name, ()), crashed_at, self._patience)

        seen = self._readings.take(pods, nodes, now, around)
        self._crashes = {(pod.session, pod.run): pod.crashed_at for pod in seen if pod.crashed_at}
        self._forget_all_but({(pod.session, pod.run) for pod in seen})
        return [*(self._with_ways(pod) for pod in seen), *self._hopeless.values()]

    def _forget_all_but(self, there: Set[tuple[UUID, int]]) -> None:
        self._opened &= there
        for whose in self._unopenable.keys() - there:
            del self._unopenable[whose]

    def _with_ways(self, pod: Pod) -> Pod:
        whose = (pod.session, pod.run)
        if whose in self._unopenable and pod.trouble is None:
            return replace(pod, is_open=False, trouble=Trouble(Reason.CLAIM_MISMATCH, self._unopenable[whose]))
        return pod if whose in self._opened else replace(pod, is_open=False)

    def _node_states(self) -> dict[str, NodeState]:
        leases = known(self._followed.leases)
        return {name: node_state(item, leases.get(name)) for name, item in known(self._followed.nodes).items()}

    def _events_of_pods(self) -> dict[str, list[Document]]:
        found: dict[str, list[Document]] = {}
        for event in self._followed.events.objects.values():
            about = event.get("involvedObject") or {}
            if about.get("kind") == "Pod":
                found.setdefault(str(about.get("name")), []).append(event)
        return found

    async def start(self, spec: SessionSpec, now: datetime) -> None:
        """Storage, then what has to be around the pod (its secret, its walls, its name), then the pod when it is its turn on
        the node. The ways in come with `open`."""
        owner = self._owner(spec)
        try:
            wanted = self._manifests(spec, owner)
        except Unbuildable as error:
            self._hopeless[spec.session_id, spec.run] = _hopeless(spec, str(error), now)
            return
        name = wanted.pod["metadata"]["name"]
        if name in known(self._followed.pods):
            return
        self.take_turn(spec)
        try:
            for manifest in (*wanted.lasting, *wanted.around):
                await self._ensure(manifest, is_first=spec.run == 1)
            self._followed.pods.wrote(await self._api.create(PODS, self._namespace, wanted.pod))
        except Refused as refusal:
            await self._refused(refusal, spec, now)

    async def open(self, spec: SessionSpec) -> None:
        """The ingresses, while the node brings the pod up."""
        try:
            for manifest in ingresses(spec, self._owner(spec), self._settings):
                await self._ensure(manifest, is_first=spec.run == 1)
        except Refused as refusal:
            if refusal.status == 409:
                raise Unavailable(f"something of that name is there already: {refusal}") from refusal
            log.error("the ways to session %s run %s are refused: %s", spec.session_id, spec.run, refusal)  # noqa: TRY400 -- says it all
            self._unopenable[spec.session_id, spec.run] = str(refusal)[:500]
        else:
            self._opened.add((spec.session_id, spec.run))

    def _owner(self, spec: SessionSpec) -> Owner:
        resource = known(self._followed.resources).get(session_name(spec.session_id))
        if resource is None:
            raise Unavailable("its resource is not there any more")
        return Owner(resource["metadata"]["name"], resource["metadata"]["uid"])

    async def _refused(self, refusal: Refused, spec: SessionSpec, now: datetime) -> None:
        """What the server turned down: a pod that is there already is looked at, all else can never start."""
        if refusal.status == 409:
            raise Unavailable(f"something of that name is there already: {refusal}") from refusal
        log.error("session %s run %s is refused: %s", spec.session_id, spec.run, refusal)
        self._hopeless[spec.session_id, spec.run] = _hopeless(spec, str(refusal), now)

    def _manifests(self, spec: SessionSpec, owner: Owner) -> Manifests:
        token = self._tokens(spec.session_id, spec.run)
        claims = known(self._followed.claims)
        mounted = {mount.claim for mount in spec.volumes} & claims.keys()
        sizes = {name: _gib(claims[name]) for name in mounted}
        return manifests_of(spec, owner, token, self._settings, claim_gib=sizes, profile_mib=self._profile_mib(spec))

    def _profile_mib(self, spec: SessionSpec) -> int | None:
        """The memory of the MIG profile that the run was given, as its card registers it now; None without one.

        HAMi gives the smallest instance that holds what is asked: a MiB too much, and it would be the next larger one.
        """
        if spec.gpu is None or spec.gpu.mig is None:
            return None
        node, wanted = known(self._followed.nodes).get(spec.gpu.node), spec.gpu.mig.profile
        register = hami.read_register(annotation(node, hami.REGISTER) if node is not None else None)
        card = next((card for card in register.cards if card.uuid == spec.gpu.cards[0]), None)
        if card is None:
            raise Unavailable(f"the profiles of card {spec.gpu.cards[0]} cannot be read")
        found = next((profile.vram_mib for profile in card.mig_profiles if profile.name == wanted), None)
        if found is None:
            raise Unbuildable(f"card {card.uuid} offers no MIG instance {wanted}")
        return found

    async def _ensure(self, manifest: Manifest, *, is_first: bool) -> None:
        """Have it be as wanted; of a first run there is usually nothing yet, and nothing that is there is overwritten unseen."""
        kind, name = KINDS[manifest["kind"]], manifest["metadata"]["name"]
        if is_first and kind is not CLAIMS:
            try:
                await self._api.make(kind, self._namespace, manifest)
            except Refused as refusal:
                if refusal.status != 409:
                    raise
            else:
                return
        seen = await self._api.get(kind, self._namespace, name)
        owner = manifest["metadata"].get("labels", {}).get(LABEL_SESSION)
        theirs = ((seen or {}).get("metadata", {}).get("labels") or {}).get(LABEL_SESSION)
        if seen is not None and kind is not CLAIMS and theirs != owner:
            raise Refused(409, "Conflict", f"{kind.kind} {name} is not of this session")
        if needs_apply(manifest, seen):
            if (mark := applied_mark(seen)) is not None:
                await self._api.merge(kind, self._namespace, name, mark)
            written = await self._api.apply(kind, self._namespace, as_it_was_born(manifest, seen))
            if kind is CLAIMS:
                self._followed.claims.wrote(written)

    def take_turn(self, spec: SessionSpec) -> None:
        """Raises `Later` while another pod with cards is on its way to the node; from here to the next look it is this one."""
        if spec.gpu is None or spec.gpu.borrowed:
            return
        own = f"{session_name(spec.session_id)}-{spec.run}"
        first = self._binding.setdefault(spec.gpu.node, own)
        if first != own:
            raise Later(f"{first} is being bound on {spec.gpu.node}")

    async def stop(self, session: UUID, run: int, now: datetime) -> None:
        """Ask the pod to end within the grace that it was made with."""
        await self._delete(session, run, grace_seconds=None)

    async def kill(self, session: UUID, run: int) -> None:
        """End it without asking; nothing on a silent node, whose processes may still hold the card: that frees it only in name."""
        item = known(self._followed.pods).get(f"{session_name(session)}-{run}")
        node = node_of(item) if item is not None else ""
        state = self._node_states().get(node)
        if state is not None and not state.ready:
            raise Later(f"{node} is silent: nothing is forced there")
        await self._delete(session, run, grace_seconds=0)

    async def _delete(self, session: UUID, run: int, *, grace_seconds: int | None) -> None:
        if self._hopeless.pop((session, run), None) is not None:
            return
        item = known(self._followed.pods).get(f"{session_name(session)}-{run}")
        if item is None:
            return
        metadata = item["metadata"]
        try:
            await self._api.delete(
                PODS, self._namespace, metadata["name"], grace_seconds=grace_seconds, uid=metadata["uid"]
            )
        except Refused as refusal:
            raise Unavailable(f"the end of {metadata['name']} is refused: {refusal}") from refusal

    async def remove(self, session: UUID, run: int) -> None:
        """Forget a dead pod; what was around it goes with its resource, or serves the next run."""
        await self._delete(session, run, grace_seconds=0)

    async def nodes(self, now: datetime) -> Sequence[NodeRow]:
        """Every node with its cards and what pods hold of them."""
        nodes, leases = known(self._followed.nodes), known(self._followed.leases)
        pods = pods_by_node(self._followed.every_pod())
        rows: dict[str, NodeRow] = {}
        for name, item in sorted(nodes.items()):
            reading = read_node(item, pods.get(name, ()), before=self._rows.get(name), lease=leases.get(name))
            if reading.unknown and self._rows.get(name) != reading.row:
                log.warning("node %s: %s", name, "; ".join(reading.unknown))
            rows[name] = reading.row
        self._rows = rows
        counted = await counted_by_hami(known(self._followed.elsewhere).values(), closed=self._namespace)
        return tuple(_counted(row, counted) for row in rows.values())

    async def remove_volume(self, claim: str) -> None:
        """Remove a storage claim; Kubernetes keeps it while a pod mounts it."""
        if not claim.startswith("vol-"):
            raise ValueError(f"{claim!r} is not a claim's name")
        try:
            await self._api.delete(CLAIMS, self._namespace, claim)
        except Refused as refusal:
            raise Unavailable(f"the end of {claim} is refused: {refusal}") from refusal

    async def volumes(self) -> Sequence[VolumeRow]:
        """Every storage claim of ours."""
        found = known(self._followed.claims)
        return [
            VolumeRow(claim=name, size_gib=_gib(item), phase=(item.get("status") or {}).get("phase", "Pending"))
            for name, item in sorted(found.items())
            if name.startswith("vol-")
        ]


def _counted(row: NodeRow, counted: Mapping[str, int]) -> NodeRow:
    """The row with what HAMi counts of its cards, where it says so."""
    cards = tuple(card.model_copy(update={"counted_mib": counted.get(card.uuid)}) for card in row.cards)
    return row.model_copy(update={"cards": cards})


def _gib(claim: Document) -> int:
    size = amount(claim["spec"]["resources"]["requests"]["storage"])
    return int((size or 0) // 1024**3)


def _hopeless(spec: SessionSpec, why: str, now: datetime) -> Pod:
    return Pod(
        session=spec.session_id,
        run=spec.run,
        generation=spec.generation,
        name=f"{session_name(spec.session_id)}-{spec.run}",
        node=spec.pinned_node or "",
        alive=False,
        alive_at=None,
        trouble=Trouble(Reason.CLAIM_MISMATCH, why[:500]),
    )
