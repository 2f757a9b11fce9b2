"""The local substrate: pods that are processes. `cluster.operator.substrates.Substrate` is its contract.

A pod is a record file; this module moves it through its life at each `observe` (start what is missing, notice exits,
restart crashes with back-off, ask the applications whether they answer), and ends it by signals. The shim of an
application is its container: an exit status is an exit or a crash, a shim that is gone without one is a pod that
vanished. A pod from before a restart of the machine ended with it: the cluster was stopped.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from cluster.operator.state import Pod, Trouble, Unavailable
from cluster.operator.substrates import AppTokens
from cluster.operator.substrates.local import launch
from cluster.operator.substrates.local.activity import Watcher
from cluster.operator.substrates.local.asking import ask
from cluster.operator.substrates.local.folders import Folders, MountsError, closes_by_owner, shares_writing
from cluster.operator.substrates.local.gpu import FOLDER as GPUS
from cluster.operator.substrates.local.gpu import DeclaredGpus, GpuMeter
from cluster.operator.substrates.local.processes import (
    Process,
    host_life,
    is_alive,
    processes_of,
    send,
    users_of_processes,
)
from cluster.operator.substrates.local.readonly import ReadOnlyMounts, Tools
from cluster.operator.substrates.local.recipes import Recipe, Seat
from cluster.operator.substrates.local.record import AppRecord, PodFile, PodRecord, pod_files
from cluster.operator.substrates.local.users import POD_NUMBERS, free_number
from gshare_core.contract import (
    Activity,
    BoundShare,
    NodeRow,
    Reason,
    SessionSpec,
    VolumeRow,
    parse_endpoint,
)

log = logging.getLogger(__name__)

_FIRST_BACK_OFF = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a local cluster stands on: the operator's own folder of pods, the nodes, the programs, separate users."""

    pods: Path
    folders: Folders
    nodes: tuple[NodeRow, ...]
    recipes: Mapping[str, Recipe]
    path: str = os.defpath
    separate_users: bool = False
    tools: Tools = field(default_factory=Tools)
    gpus: GpuMeter | None = None  # None: declared in the folder beside the pods'


class LocalSubstrate:
    """See the module. Used by one event loop."""

    def __init__(self, ground: Ground, tokens: AppTokens) -> None:
        ground.pods.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._ground = ground
        self._tokens = tokens
        self._watcher = Watcher(
            ground.recipes, ground.folders, tokens, ground.gpus or DeclaredGpus(ground.pods.parent / GPUS)
        )
        self._life = host_life()
        self._read_only = ReadOnlyMounts(
            ground.folders.passable, separate_users=ground.separate_users, tools=ground.tools
        )
        self._removals: dict[str, asyncio.Task[None]] = {}
        self._records: dict[PodFile, PodRecord] = {}
        self._children: list[subprocess.Popen[bytes]] = []
        self._unreadable: dict[PodFile, datetime | None] = {}  # since when it is being stopped
        self._asked: set[PodFile] = set()  # which pods this process has asked to end

    # --- the contract --------------------------------------------------------------------------------------------

    async def observe(self, now: datetime) -> Sequence[Pod]:
        self._children = [child for child in self._children if child.poll() is None]
        pods = []
        for file in pod_files(self._ground.pods):
            record = self._record(file)
            if record is None:
                pods.append(self._unknown_pod(file, now))
                continue
            try:
                self._tend(file, record, now)
            except (OSError, Unavailable):
                log.exception("pod %s cannot be tended now", file.name)
        await asyncio.gather(*(self._probe(file, record) for file, record in self._records.items()))
        return pods + [self._pod(file, record, now) for file, record in self._records.items()]

    def take_turn(self, spec: SessionSpec) -> None:
        """Nobody waits here."""

    async def start(self, spec: SessionSpec, now: datetime) -> None:
        file = PodFile.of(self._ground.pods, spec.session_id, spec.run)
        if file.exists:
            return
        self._tokens(spec.session_id, spec.run)  # without the key nothing could be made
        node, trouble = self._place(spec)
        record = PodRecord(
            spec=spec,
            node=node,
            cards=spec.gpu.cards if spec.gpu else (),
            uid=self._free_user() if self._ground.separate_users else None,
            host_life=self._life,
        )
        for app in spec.apps:
            recipe = self._ground.recipes.get(app.name)
            missing = recipe.missing() if recipe else "not known on this cluster"
            if missing and not (recipe and recipe.optional):
                trouble = trouble or Trouble(Reason.IMAGE_PULL_FAILED, f"{app.name}: {missing}")
            record.apps.append(AppRecord(name=app.name, missing=missing))
        if all(app.missing for app in record.apps) and trouble is None:
            trouble = Trouble(Reason.IMAGE_PULL_FAILED, f"{record.apps[0].name}: {record.apps[0].missing}")
        if trouble:
            record.trouble_reason, record.trouble = trouble.reason, trouble.message
        self._save(file, record)
        self._tend(file, record, now)

    async def open(self, spec: SessionSpec) -> None:
        """Nothing: the door finds a session by what is reported of it."""

    async def stop(self, session: UUID, run: int, now: datetime) -> None:
        file = PodFile.of(self._ground.pods, session, run)
        record = self._record(file) if file.exists else None
        if record is not None and record.stopping_since is None:
            record.stopping_since = now
            self._save(file, record)
        elif file in self._unreadable:
            self._unreadable[file] = self._unreadable[file] or now
        if file.exists:
            self._ask_to_end(file)

    def _ask_to_end(self, file: PodFile) -> None:
        send(self._processes(file), signal.SIGTERM)
        self._asked.add(file)

    async def kill(self, session: UUID, run: int) -> None:
        file = PodFile.of(self._ground.pods, session, run)
        send(self._processes(file), signal.SIGKILL)

    async def remove(self, session: UUID, run: int) -> None:
        file = PodFile.of(self._ground.pods, session, run)
        if not file.exists or self._processes(file):
            return
        record = self._record(file)
        spec = record.spec if record else None
        separate = self._ground.separate_users
        await asyncio.to_thread(self._ground.folders.clear, file.name, spec, separate=separate)
        file.delete()
        self._records.pop(file, None)
        self._unreadable.pop(file, None)
        self._asked.discard(file)

    async def nodes(self, now: datetime) -> Sequence[NodeRow]:
        bound: dict[str, list[BoundShare]] = {}
        for record in self._records.values():
            if record.spec.gpu and record.trouble_reason is None:
                share = BoundShare(
                    session=record.spec.session_id,
                    vram_mib=record.spec.gpu.vram_mib,
                    core_percent=record.spec.gpu.core_percent,
                )
                for card in record.cards:
                    bound.setdefault(card, []).append(share)
        return [
            node.model_copy(
                update={
                    "cards": tuple(
                        card.model_copy(update={"bound": tuple(bound.get(card.uuid, ()))}) for card in node.cards
                    )
                }
            )
            for node in self._ground.nodes
        ]

    async def remove_volume(self, claim: str) -> None:
        for file in pod_files(self._ground.pods):
            record = self._record(file)
            if record is None or any(mount.claim == claim for mount in record.spec.volumes):
                return  # what cannot be read may mount it
        under_way = self._removals.get(claim)
        if under_way is not None and not under_way.done():
            return
        self._removals.pop(claim, None)
        if self._ground.folders.give_up(claim):
            # Beside the loop: it takes as long as the volume has files.
            self._removals[claim] = asyncio.create_task(asyncio.to_thread(self._ground.folders.clear_given_up, claim))
        if under_way is not None:
            under_way.result()  # raises what stopped the last try

    async def volumes(self) -> Sequence[VolumeRow]:
        return self._ground.folders.volumes()

    async def activity(self, now: datetime) -> Mapping[tuple[UUID, int], Activity]:
        live = [(file, record) for file, record in self._records.items() if self._is_up(record)]
        return await self._watcher.look(live, now)

    def _is_up(self, record: PodRecord) -> bool:
        return record.host_life == self._life and not record.ended

    # --- records -------------------------------------------------------------------------------------------------

    def _record(self, file: PodFile) -> PodRecord | None:
        if file not in self._records and file not in self._unreadable:
            record = file.load()
            if record is None:
                self._unreadable[file] = None
            else:
                self._records[file] = record
        return self._records.get(file)

    def _save(self, file: PodFile, record: PodRecord) -> None:
        file.save(record)
        self._records[file] = record

    def _free_user(self) -> int:
        """A user number that no pod of ours has and no process of the machine runs as: other operators have pods too."""
        ours = {record.uid for record in self._records.values() if record.uid is not None}
        return free_number(POD_NUMBERS, ours | users_of_processes(), start=self._ground.pods)

    def _place(self, spec: SessionSpec) -> tuple[str, Trouble | None]:
        """The node, and why the document's place does not exist here."""
        wanted = spec.pinned_node
        node = next((node for node in self._ground.nodes if wanted in (None, node.name)), None)
        if node is None:
            return wanted or "", Trouble(Reason.CLAIM_MISMATCH, f"there is no node {wanted}")
        unknown = set(spec.gpu.cards if spec.gpu else ()) - {card.uuid for card in node.cards}
        if unknown:
            return node.name, Trouble(Reason.CLAIM_MISMATCH, f"node {node.name} has no card {min(unknown)}")
        return node.name, None

    def _processes(self, file: PodFile) -> list[Process]:
        record = self._record(file) if file.exists else None
        return processes_of(file.mark, uid=record.uid if record else None)

    # --- a pod's life --------------------------------------------------------------------------------------------

    def _tend(self, file: PodFile, record: PodRecord, now: datetime) -> None:
        """Move one pod on. Raises OSError when something of it cannot be made now; the next look tries again."""
        if record.host_life != self._life:
            if record.lost is None and not record.ended:
                record.lost = Reason.CLUSTER_STOPPED
                self._save(file, record)
            return
        if record.ended:
            if not any(app.shim and is_alive(app.shim) for app in record.apps):
                send(self._processes(file), signal.SIGKILL)  # what the applications left behind
            elif record.stopping_since is not None and file not in self._asked:
                self._ask_to_end(file)  # whoever wrote down that it ends may have been killed before its signal
            return
        if not record.prepared and not self._prepare(file, record):
            return
        for app in record.apps:
            if app.missing or record.ended:
                continue
            if app.shim is None:
                if app.retry_at is None or now >= app.retry_at:
                    self._launch(file, record, app)
            elif not is_alive(app.shim):
                self._ended(file, record, app, now)
            file.bound_log(app.name)

    def _prepare(self, file: PodFile, record: PodRecord) -> bool:
        obstacle = self._read_only.obstacle() if self._ground.folders.read_only(record.spec) else None
        if obstacle is not None and not closes_by_owner(record.spec.volumes, record.uid):
            record.trouble_reason = Reason.MOUNT_FAILED
            record.trouble = f"a volume cannot be mounted read-only on this machine: {obstacle}"
        else:
            try:
                self._ground.folders.prepare(file.name, record.spec, record.uid, close=obstacle is not None)
            except MountsError as error:
                record.trouble_reason, record.trouble = Reason.CLAIM_MISMATCH, str(error)
        record.closed_by_owner = obstacle is not None
        record.prepared = True
        self._save(file, record)
        return record.trouble_reason is None

    def _launch(self, file: PodFile, record: PodRecord, app: AppRecord) -> None:
        # What a crashed application or a start that was never written down has left would hold its place.
        send(processes_of(file.mark, app=app.name), signal.SIGKILL)
        tree = self._ground.folders.tree(file.name)
        endpoint = launch.endpoint_for(tree.sockets, app.name)
        app.endpoint, app.answered = str(endpoint), False
        environment = launch.environment_of(record.spec, tree, mark=file.mark, app=app.name, path=self._ground.path)
        who = launch.Identity(
            record.uid,
            tuple(self._ground.folders.groups(record.spec, record.uid)),
            0o007 if shares_writing(record.spec.volumes) else 0o027,
            () if record.closed_by_owner else self._ground.folders.read_only(record.spec),
            self._read_only,
        )
        command = self._ground.recipes[app.name].command(self._seat(file, record, app))
        outlet = launch.Outlet(file.log_path(app.name), file.exit_path(app.name))
        launched = launch.launch(command, environment, tree.home, who, outlet)
        self._children.append(launched.child)
        # A shim that has ended already has left its status; a start time of 0 is never alive, so it is read next.
        app.pid, app.started = launched.child.pid, launched.process.started if launched.process else 0
        self._save(file, record)

    def _ended(self, file: PodFile, record: PodRecord, app: AppRecord, now: datetime) -> None:
        """An application's shim is gone: an exit, a crash, or (without a status) the whole pod."""
        status = file.exit_of(app.name)
        app.pid, app.answered = None, False
        record.words = f"{app.name}: {file.last_words(app.name)}"
        if status is None:
            record.lost = Reason.VANISHED
        elif status[0] == 0 and app is self._primary(record):
            record.exited_at = min(status[1], now)
        else:
            record.words = f"{app.name} ended with status {status[0]}: {file.last_words(app.name)}"
            record.crashed_at.append(min(status[1], now))
            app.retry_at = now + _FIRST_BACK_OFF * 2**app.crashes
            app.crashes += 1
        self._save(file, record)

    def _primary(self, record: PodRecord) -> AppRecord | None:
        """The application that is the pod's program: the first that is served. Its exit without an error ends the pod."""
        return next((app for app in record.apps if not app.missing), None)

    def _seat(self, file: PodFile, record: PodRecord, app: AppRecord) -> Seat:
        tree = self._ground.folders.tree(file.name)
        token = self._tokens(record.spec.session_id, record.spec.run)
        assert app.endpoint is not None
        return Seat(parse_endpoint(app.endpoint), token, tree.root, tree.home, tree.tmp)

    async def _probe(self, file: PodFile, record: PodRecord) -> None:
        for app in record.apps:
            if record.ended or app.answered or app.shim is None or not app.endpoint:
                continue
            try:
                answered = await self._answers(file, record, app)
            except Unavailable:
                return  # no key now: the next look tries again
            if answered:
                app.answered = True
                self._save(file, record)

    async def _answers(self, file: PodFile, record: PodRecord, app: AppRecord) -> bool:
        seat = self._seat(file, record, app)
        probe = self._ground.recipes[app.name].probe(seat)
        answer = await ask(seat.endpoint, probe)
        return answer is not None and answer.status_code < 400

    # --- what is seen --------------------------------------------------------------------------------------------

    def _pod(self, file: PodFile, record: PodRecord, now: datetime) -> Pod:
        if record.host_life != self._life:
            alive = False
        elif record.ended:
            alive = bool(self._processes(file))
        else:
            alive = any(app.shim and is_alive(app.shim) for app in record.apps)
        served = [app for app in record.apps if not app.missing]
        return Pod(
            session=file.session,
            run=file.run,
            generation=record.spec.generation,
            name=file.name,
            node=record.node,
            alive=alive,
            alive_at=now if alive else self._last_proof(record),
            ready=alive and not record.ended and bool(served) and all(app.answered for app in served),
            exited=record.exited_at is not None,
            cards=record.cards,
            crashed_at=tuple(record.crashed_at),
            words=record.words,
            trouble=Trouble(record.trouble_reason, record.trouble) if record.trouble_reason else None,
            lost=record.lost,
            stopping_since=record.stopping_since,
            endpoints={app.name: app.endpoint for app in served if app.endpoint and app.answered},
        )

    def _last_proof(self, record: PodRecord) -> datetime | None:
        moments = [*record.crashed_at, *([record.exited_at] if record.exited_at else [])]
        return max(moments, default=None)

    def _unknown_pod(self, file: PodFile, now: datetime) -> Pod:
        """A pod whose record cannot be read: its processes are known by their mark, nothing else is."""
        alive = bool(processes_of(file.mark))
        return Pod(
            session=file.session,
            run=file.run,
            generation=1,
            name=file.name,
            node="",
            alive=alive,
            alive_at=now if alive else None,
            lost=Reason.VANISHED,
            stopping_since=self._unreadable.get(file),
        )
