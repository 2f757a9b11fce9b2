"""Simulated clusters: machines with cards, pods with their fates, and an operator that runs the real `converge`.

Guarantees: what a pod does is fixed when it begins (its fate), from the seed; the operator decides only by
`cluster.operator.converge` over what it saw; reports and documents cross as JSON, through the same readers as over HTTP.
The machines know for themselves what really runs on a card: a card that gives more than it has breaks the simulation,
whatever the rows say.

Shortcuts, each a legal execution of the real thing: `converge` is asked again only when one of its inputs changed
(document, memory, pods, or a grace that is over), since it is a function of them; polls happen shortly after a document
changed, since a poll that brings nothing changes nothing; beats are in `turns.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

from cluster.models import Cluster as ClusterRow
from cluster.operator.converge import Action, Kill, Remove, Start, Stop, begun, converge
from cluster.operator.feed import Wishes
from cluster.operator.inventory import session_row
from cluster.operator.state import Memory, Pod, Trouble
from cluster.queries import desired_after
from gshare_core.contract import (
    BoundShare,
    CardRow,
    DesiredFeed,
    Inventory,
    NodeRow,
    Reason,
    SessionSpec,
    StatusReport,
)
from sessions_app import reports
from tests.simulation.world import BrokenInvariantError, KilledError, World, asked

_WAS_THERE = "SELECT FROM sessions_app_run WHERE session_id = %(session)s AND cluster_id = %(cluster)s LIMIT 1"


@dataclass
class Machine:
    """A node: what it has, and whether it answers. `silent_since` is when it fell silent; `crashed`: its pods died then."""

    name: str
    model: str
    vram_mib: int
    cards: tuple[str, ...]
    slots: int = 16
    cpu_milli: int = 192_000
    memory_mib: int = 1_048_576
    scratch_gib: int = 8_000
    silent_since: datetime | None = None
    crashed: bool = False
    listed: bool = True


@dataclass
class Fate:
    """What will happen to a pod by itself, in seconds after it began; None: never."""

    pulled: float | None = 0.0
    ready: float | None = 10.0
    trouble: tuple[float, Reason] | None = None
    crashes: tuple[float, ...] = ()
    exits: float | None = None
    lost: tuple[float, Reason] | None = None
    deleted: float | None = None  # by hand
    stop_takes: float | None = 2.0
    kill_takes: float | None = 1.0


@dataclass
class SimPod:
    """One pod, physically."""

    spec: SessionSpec
    machine: Machine
    fate: Fate
    made_at: datetime
    begun_at: datetime | None = None
    stopping_since: datetime | None = None
    dies_at: datetime | None = None  # its end is under way
    died_at: datetime | None = None
    lost: Reason | None = None

    @property
    def alive(self) -> bool:
        """Whether anything of it still runs."""
        return self.died_at is None


@dataclass
class Cluster:
    """A cluster with its operator. `cut`: it does not reach the control plane. `skew`: how far its clock is ahead."""

    world: World
    row: ClusterRow
    machines: dict[str, Machine]
    skew: timedelta
    chance: Random
    pods: dict[tuple[UUID, int], SimPod] = field(default_factory=dict)
    memories: dict[UUID, Memory] = field(default_factory=dict)
    wishes: Wishes = field(default_factory=Wishes)
    cut_since: datetime | None = None
    beaten_at: datetime | None = None
    next_beat_at: datetime | None = None
    changed: bool = True
    hurried: bool = True
    fates: float = 1.0  # how often something goes wrong with a pod, relative to usual
    _in_flight: set[tuple[UUID, int]] = field(default_factory=set)
    _poll_due: bool = False

    @property
    def reaches(self) -> bool:
        """Whether a call to the control plane is answered now."""
        return self.cut_since is None and not self.world.deaf

    def later(self, moment: datetime) -> datetime:
        """A moment on the cluster's own clock."""
        return moment + self.skew

    def urgent(self) -> None:
        """Something happened that the next beat must tell: it comes within half a minute."""
        self.changed = self.hurried = True

    # Wishes ----------------------------------------------------------------------------------------------------------

    def news(self, newest: int) -> None:
        """A document changed up there: the long poll answers soon."""
        if newest > self.wishes.cursor and not self._poll_due:
            self._poll_due = True
            self.world.after(self.chance.uniform(0.05, 1.5), self.poll)

    def poll(self, *, everything: bool = False) -> None:
        """Read what changed, or all; then look at the sessions that it is about."""
        self._poll_due = False
        if not self.reaches:
            return  # whoever restores the way polls again
        feed = desired_after(self.row.pk, 0 if everything else self.wishes.cursor)
        read, bad = DesiredFeed.read(json.loads(json.dumps(feed.to_wire())))
        if bad:
            raise BrokenInvariantError(f"documents that the operator cannot read: {bad}")
        known = self.wishes.documents
        self.wishes.take(read, everything=everything)
        self.wishes.complete = self.wishes.complete or everything
        if everything:
            for session in sorted(self.wishes.documents.keys() | self.memories.keys() | known.keys()):
                self.look(session, anew=True)
            return
        for document in read.documents:
            self.look(document.session)

    # The loop --------------------------------------------------------------------------------------------------------

    def look(self, session: UUID, *, anew: bool = False) -> None:
        """The operator's step for one session, as its loop does it."""
        now = self.world.now
        pods = [self.seen(pod) for key, pod in self.pods.items() if key[0] == session]
        wanted = self.wishes.documents.get(session)
        memory = self.memories.get(session) or Memory(session=session)
        step = converge(wanted, memory, pods, self.later(now), anew=anew)
        unwanted = wanted is None and self.wishes.complete and not pods
        if step.forget or (unwanted and all(record.finished for record in step.memory.records)):
            self.memories.pop(session, None)
            self.wishes.documents.pop(session, None)
            return
        self.memories[session] = step.memory
        for action in step.actions:
            self._act(session, action)
        self._send_pending(session)
        if step.actions:
            self.changed = True
            patience = 30.0 if any(isinstance(action, Kill) for action in step.actions) else 1.0
            self.world.after(patience, lambda: self.look(session))

    def _act(self, session: UUID, action: Action) -> None:
        match action:
            case Start(spec=spec):
                self._start(spec)
                self.memories[session] = begun(self.memories[session], spec)
            case Stop(run=run):
                self._stop(self.pods[session, run])
            case Kill(run=run):
                self._kill(self.pods[session, run])
            case Remove(run=run):
                del self.pods[session, run]

    # Pods ------------------------------------------------------------------------------------------------------------

    def seen(self, pod: SimPod) -> Pod:
        """The pod as the operator sees it: on a silent machine as it was when that fell silent."""
        machine, fate = pod.machine, pod.fate
        at = machine.silent_since or self.world.now
        begun_at = pod.begun_at
        # Moments are microseconds, fates are not: who looks at the very moment sees what it was set for.
        ran = (at - begun_at).total_seconds() + 1e-6 if begun_at is not None else -1.0
        died = pod.died_at is not None and pod.died_at <= at
        alive_at = (pod.died_at if died else at) if begun_at is not None and begun_at <= at else None
        crashes = tuple(begun_at + timedelta(seconds=s) for s in fate.crashes if s <= ran) if begun_at else ()
        pulling = begun_at is not None and (fate.pulled is None or ran < fate.pulled)
        ready = fate.ready is not None and ran >= fate.ready and not died
        trouble = None
        if fate.trouble is not None and ran >= fate.trouble[0]:
            trouble = Trouble(fate.trouble[1], "as fate wanted it")
        return Pod(
            session=pod.spec.session_id,
            run=pod.spec.run,
            generation=pod.spec.generation,
            name=f"pod-{pod.spec.run}",
            node=machine.name,
            alive=not died,
            alive_at=self.later(alive_at) if alive_at else None,
            ready=ready,
            pulling=pulling and not died,
            exited=fate.exits is not None and ran >= fate.exits and pod.lost is None,
            cards=pod.spec.gpu.cards if pod.spec.gpu else (),
            crashed_at=tuple(self.later(moment) for moment in crashes),
            words="Killed" if crashes else "",
            trouble=trouble,
            lost=pod.lost,
            stopping_since=self.later(pod.stopping_since) if pod.stopping_since else None,
        )

    def _start(self, spec: SessionSpec) -> None:
        key = (spec.session_id, spec.run)
        if key in self.pods:
            return
        node = spec.pinned_node
        if node is None or node not in self.machines:
            raise BrokenInvariantError(f"{spec.session_id} is pinned to {node}, which {self.row.name} does not have")
        pod = SimPod(spec, self.machines[node], self.fate(spec), self.world.now)
        self.pods[key] = pod
        self.changed = True
        if pod.machine.silent_since is None:
            self._begin(pod)

    def _begin(self, pod: SimPod) -> None:
        """The machine takes it up: from now on it really holds its part of the cards."""
        pod.begun_at = self.world.now
        self._refuse_overcommitment(pod)
        fate = pod.fate
        moments = [fate.pulled, fate.ready, fate.exits, *fate.crashes]
        moments += [fate.trouble[0]] if fate.trouble else []
        for seconds in sorted({moment for moment in moments if moment}):
            self.world.after(seconds, lambda: self.look(pod.spec.session_id))
        if fate.exits is not None:
            self.world.after(fate.exits, lambda: self._die(pod, None))
        if fate.lost is not None:
            seconds, reason = fate.lost
            self.world.after(seconds, lambda: self._die(pod, reason))
        if fate.deleted is not None:
            self.world.after(fate.deleted, lambda: self._delete(pod))

    def _refuse_overcommitment(self, new: SimPod) -> None:
        gpu = new.spec.gpu
        if gpu is None:
            return
        for card in gpu.cards:
            on_card = [pod for pod in self._running_on(new.machine) if pod.spec.gpu and card in pod.spec.gpu.cards]
            whole = sum(pod.spec.gpu.mode == "exclusive" for pod in on_card if pod.spec.gpu)
            vram = sum(pod.spec.gpu.vram_mib for pod in on_card if pod.spec.gpu)
            if (whole and len(on_card) > 1) or (vram > new.machine.vram_mib) or len(on_card) > new.machine.slots:
                names = [f"{pod.spec.session_id} run {pod.spec.run}" for pod in on_card]
                raise BrokenInvariantError(f"{card} really gives more than it has, to {names}")

    def _running_on(self, machine: Machine) -> Iterator[SimPod]:
        for pod in self.pods.values():
            if pod.machine is machine and pod.begun_at is not None and pod.alive:
                yield pod

    def _stop(self, pod: SimPod) -> None:
        if pod.stopping_since is None:
            pod.stopping_since = self.world.now
            grace = timedelta(seconds=pod.spec.deadlines.stop_grace_seconds + 1)
            document = self.wishes.documents.get(pod.spec.session_id)
            if document is not None and document.spec is not None:
                grace = timedelta(seconds=document.spec.deadlines.stop_grace_seconds + 1)
            self.world.at(pod.stopping_since + grace, lambda: self.look(pod.spec.session_id))
        self._deliver_end(pod, pod.fate.stop_takes)

    def _kill(self, pod: SimPod) -> None:
        self._deliver_end(pod, pod.fate.kill_takes)

    def _deliver_end(self, pod: SimPod, takes: float | None) -> None:
        if pod.machine.silent_since is not None or takes is None or pod.died_at is not None:
            return
        moment = self.world.now + timedelta(seconds=takes)
        if pod.dies_at is None or moment < pod.dies_at:
            pod.dies_at = moment
            self.world.at(moment, lambda: self._die(pod, None))

    def _delete(self, pod: SimPod) -> None:
        """Somebody deletes it by hand."""
        if pod.alive and pod.stopping_since is None and pod.machine.silent_since is None:
            self.world.seen["pods deleted by hand"] += 1
            self._stop(pod)
            self.look(pod.spec.session_id)

    def _die(self, pod: SimPod, reason: Reason | None) -> None:
        """Its processes are over; `reason`: the infrastructure ended it."""
        if not pod.alive or (reason is not None and pod.machine.silent_since is not None):
            return
        pod.died_at = self.world.now
        self.changed = True
        if reason is not None:
            pod.lost = reason
            self.world.seen[f"pods lost: {reason.value}"] += 1
        if pod.machine.silent_since is None:
            self.look(pod.spec.session_id)

    def fate(self, spec: SessionSpec) -> Fate:
        """What will become of a pod: mostly nothing special."""
        chance, hours = self.chance, 3600.0
        fate = Fate(ready=chance.uniform(3, 40), stop_takes=chance.uniform(0.5, 20))
        if chance.random() < 0.10:
            fate.pulled = chance.uniform(20, 600)
            fate.ready = fate.pulled + chance.uniform(3, 40)
        odds = chance.random() / self.fates
        for share, befall in _FATES:
            odds -= share
            if odds < 0:
                self.world.seen[f"fate: {befall.__name__.lstrip('_')}"] += 1
                befall(fate, chance, hours)
                break
        return fate

    # Reports ---------------------------------------------------------------------------------------------------------

    def _send_pending(self, session: UUID) -> None:
        memory = self.memories.get(session)
        for record in memory.records if memory else ():
            if record.pending and (session, record.run) not in self._in_flight:
                self._in_flight.add((session, record.run))
                delay = self.chance.expovariate(1 / 0.3) if self.chance.random() > 0.02 else self.chance.uniform(5, 60)
                self.world.after(delay, lambda run=record.run: self._send(session, run))

    def _send(self, session: UUID, run: int) -> None:
        """One try to deliver a run's latest report: lost, doubled, or answered into the void now and then."""
        memory = self.memories.get(session)
        record = memory.record(run) if memory else None
        if record is None or record.report is None or not record.pending:
            self._in_flight.discard((session, run))
            return
        report = record.report.model_copy(update={"sent_at": self.later(self.world.now)})
        luck = self.chance.random()
        acknowledged = self.reaches and luck > 0.02 and self._deliver(session, report)
        if acknowledged and luck < 0.04:
            self.world.seen["answers lost"] += 1
            acknowledged = False
        elif acknowledged and luck < 0.06:
            self.world.seen["reports doubled"] += 1
            self.world.after(self.chance.uniform(1, 300), lambda: self._deliver(session, report))
        if not acknowledged:
            self.world.seen["reports sent again"] += 1
            self.world.after(self.chance.uniform(1, 20), lambda: self._send(session, run))
            return
        self._in_flight.discard((session, run))
        if session in self.memories:
            self.memories[session] = self.memories[session].acknowledge(run, report.sequence)
            self.look(session)

    def _deliver(self, session: UUID, report: StatusReport) -> bool:
        """Over the wire and in; answers whether it was acknowledged."""
        if not self.reaches:
            return False
        body = StatusReport.model_validate_json(report.model_dump_json())
        if not asked(_WAS_THERE, {"session": session, "cluster": self.row.pk}):
            raise BrokenInvariantError(f"{self.row.name} has a pod of {session}, which never was there")
        try:
            fresh = self.world.serve(body.phase.value, lambda: reports.receive_status(self.row.pk, session, body))
        except KilledError:
            return False
        self.world.seen["reports"] += 1
        self.world.seen["reports stale"] += not fresh
        return True

    # Machines --------------------------------------------------------------------------------------------------------

    def silence(self, machine: Machine, *, crashed: bool) -> None:
        """A machine stops answering; `crashed`: what ran on it is dead."""
        if machine.silent_since is not None:
            return
        machine.silent_since, machine.crashed = self.world.now, crashed
        self.changed = True
        if crashed:
            for pod in list(self._running_on(machine)):
                pod.died_at = self.world.now

    def revive(self, machine: Machine) -> None:
        """It answers again: what died on it is shown as lost, what waited for it begins or ends."""
        if machine.silent_since is None:
            return
        crashed = machine.crashed
        machine.silent_since, machine.crashed, machine.listed = None, False, True
        self.changed = True
        for pod in [pod for pod in self.pods.values() if pod.machine is machine]:
            if pod.begun_at is None:
                self._begin(pod)
            elif crashed and pod.died_at is not None:
                pod.lost = pod.lost or Reason.NODE_LOST
            elif pod.stopping_since is not None:
                self._deliver_end(pod, pod.fate.stop_takes)
            self.look(pod.spec.session_id)

    def give_up(self, machine: Machine) -> None:
        """Somebody deletes the silent machine from the cluster: its pods are no longer listed."""
        if machine.silent_since is None:
            return
        machine.listed = False
        self.changed = True
        for key, pod in list(self.pods.items()):
            if pod.machine is machine:
                pod.died_at = pod.died_at or self.world.now  # nobody removes a machine that still works
                del self.pods[key]
                self.look(key[0])

    # Inventory -------------------------------------------------------------------------------------------------------

    def inventory(self) -> Inventory:
        """What it has now."""
        now = self.later(self.world.now)
        rows = []
        for key, pod in self.pods.items():
            memory = self.memories.get(key[0])
            record = memory.record(key[1]) if memory else None
            seen = self.seen(pod)
            if record is not None and seen.alive_at is not None:
                record = record.model_copy(
                    update={"last_alive_at": max(record.last_alive_at or seen.alive_at, seen.alive_at)}
                )
            rows.append(session_row(seen, record))
        nodes = tuple(self._node_row(machine) for machine in self.machines.values() if machine.listed)
        return Inventory(observed_at=now, sent_at=now, nodes=nodes, sessions=tuple(rows))

    def _node_row(self, machine: Machine) -> NodeRow:
        bound: dict[str, list[BoundShare]] = {card: [] for card in machine.cards}
        for pod in self.pods.values():
            if pod.machine is machine and pod.spec.gpu is not None and (pod.alive or machine.silent_since):
                for card in pod.spec.gpu.cards:
                    gpu = pod.spec.gpu
                    share = BoundShare(
                        session=pod.spec.session_id, vram_mib=gpu.vram_mib, core_percent=gpu.core_percent
                    )
                    bound[card].append(share)
        cards = tuple(
            CardRow(
                uuid=card,
                index=index,
                model=machine.model,
                vram_mib=machine.vram_mib,
                slots=machine.slots,
                bound=tuple(bound[card]),
            )
            for index, card in enumerate(machine.cards)
        )
        return NodeRow(
            name=machine.name,
            ready=machine.silent_since is None,
            cpu_milli=machine.cpu_milli,
            memory_mib=machine.memory_mib,
            scratch_gib=machine.scratch_gib,
            cards=cards,
        )

    def beat(self) -> None:
        """Send the inventory, if somebody hears it; soon again when whoever took it died."""
        while self.reaches and not self._beaten():
            self.world.seen["beats sent again"] += 1

    def _beaten(self) -> bool:
        document = self.inventory()
        read, bad = Inventory.read(json.loads(document.model_dump_json()))
        try:
            receipt = self.world.serve("beat", lambda: reports.receive_inventory(self.row.pk, read, bad))
        except KilledError:
            return False
        if receipt.skipped:
            raise BrokenInvariantError(f"rows of an honest inventory are left aside: {receipt.skipped}")
        self.beaten_at, self.changed, self.hurried = self.world.now, False, False
        self.world.seen["beats"] += 1
        return True


# Fates that are out of the ordinary, with their share of all pods ----------------------------------------------------


def _pull_fails(fate: Fate, chance: Random, hours: float) -> None:
    fate.pulled, fate.ready = None, None
    fate.trouble = (chance.uniform(10, 300), Reason.IMAGE_PULL_FAILED)


def _pull_hangs(fate: Fate, chance: Random, hours: float) -> None:
    fate.pulled, fate.ready = None, None


def _start_hangs(fate: Fate, chance: Random, hours: float) -> None:
    fate.ready = None


def _wrong_card(fate: Fate, chance: Random, hours: float) -> None:
    fate.ready = None
    fate.trouble = (chance.uniform(2, 10), chance.choice([Reason.CLAIM_MISMATCH, Reason.NODE_LOCK, Reason.NODE_GONE]))


def _crash_loop(fate: Fate, chance: Random, hours: float) -> None:
    first = chance.choice([chance.uniform(1, 60), chance.uniform(60, 2 * hours)])
    fate.crashes = (first, first + chance.uniform(5, 60), first + chance.uniform(60, 200))


def _exits(fate: Fate, chance: Random, hours: float) -> None:
    fate.exits = chance.uniform(1, 4 * hours)


def _evicted(fate: Fate, chance: Random, hours: float) -> None:
    reason = chance.choice([Reason.EVICTED, Reason.DISK_EXCEEDED, Reason.DRAINED, Reason.NODE_LOST])
    fate.lost = (chance.uniform(1, 3 * hours), reason)


def _deleted(fate: Fate, chance: Random, hours: float) -> None:
    fate.deleted = chance.uniform(1, 3 * hours)


def _stubborn(fate: Fate, chance: Random, hours: float) -> None:
    fate.stop_takes = None


def _unkillable(fate: Fate, chance: Random, hours: float) -> None:
    fate.stop_takes = chance.uniform(600, 2 * hours)
    fate.kill_takes = fate.stop_takes


_FATES = (
    (0.006, _pull_fails),
    (0.003, _pull_hangs),
    (0.005, _start_hangs),
    (0.012, _wrong_card),
    (0.010, _crash_loop),
    (0.020, _exits),
    (0.015, _evicted),
    (0.010, _deleted),
    (0.030, _stubborn),
    (0.005, _unkillable),
)
