"""Whatever happens to documents, pods and the operator itself: one pod at most, nothing twice, and it converges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cluster.operator.converge import Action, Kill, Open, Remove, Start, Step, Stop, begun, converge
from cluster.operator.state import Memory, Pod
from cluster.operator.steady import Steady
from gshare_core.contract import Desired, DesiredDocument, Phase, Reason
from tests.unit.operator.build import NOW, SESSION, MemorySubstrate, tombstone, wants

EVENTS = st.sampled_from(
    [
        "run", "pause", "stop", "next_run", "tombstone", "silence", "stale",
        "ready", "crash", "exit", "vanish", "evict", "die", "stubborn", "gentle", "delete_by_hand",
        "pass", "pass", "pass", "cut_short", "killed", "acknowledge", "lose_memory", "wait",
        "apart",
    ]
)  # fmt: skip


@dataclass
class World:
    """A control plane that only writes documents, an operator that may die between any two actions, a substrate."""

    substrate: MemorySubstrate = field(default_factory=MemorySubstrate)
    memory: Memory = field(default_factory=lambda: Memory(session=SESSION))
    wanted: DesiredDocument | None = None
    now: datetime = NOW
    run: int = 0
    generation: int = 0
    gone: set[int] = field(default_factory=set)
    sequences: list[int] = field(default_factory=list)
    memory_lost: bool = False
    buried: bool = False
    open_runs: set[int] = field(default_factory=set)
    steady: Steady = field(default_factory=Steady)

    def happen(self, event: str) -> None:
        self.now += timedelta(seconds=1)
        getattr(self, f"on_{event}")()
        assert len(self.substrate.pods) <= 1, "two pods of one session"
        if not self.memory_lost:
            assert len(self.substrate.started) == len(set(self.substrate.started)), "a run was made twice"

    def write(self, desired: Desired) -> None:
        if self.buried:
            # It never gets a document again: its id is not reused. Its tombstone stays until its end is answered, so
            # that after a silence (a reading without it, the brake) the next reading says it again.
            self.wanted = tombstone()
            return
        self.generation += 1
        self.run = max(self.run, 1)
        self.wanted = wants(self.run, self.generation, desired)

    def on_run(self) -> None:
        self.write(Desired.RUNNING)

    def on_next_run(self) -> None:
        self.run += not self.buried
        self.write(Desired.RUNNING)

    def on_pause(self) -> None:
        self.write(Desired.PAUSED)

    def on_stop(self) -> None:
        self.write(Desired.STOPPED)

    def on_tombstone(self) -> None:
        self.wanted, self.buried = tombstone(), True

    def on_silence(self) -> None:
        self.wanted = None

    def on_stale(self) -> None:
        if self.generation > 1 and not self.buried:
            self.wanted = wants(1, 1)

    def on_ready(self) -> None:
        self.change(ready=True)

    def on_crash(self) -> None:
        for pod in self.substrate.pods.values():
            self.change(crashed_at=(*pod.crashed_at, self.now), ready=False)

    def on_exit(self) -> None:
        self.change(exited=True, ready=False)

    def on_vanish(self) -> None:
        self.substrate.pods.clear()

    def on_evict(self) -> None:
        self.change(lost=Reason.EVICTED, ready=False)

    def on_die(self) -> None:
        self.change(alive=False, ready=False, lost=Reason.VANISHED)

    def on_delete_by_hand(self) -> None:
        self.change(stopping_since=self.now)

    def on_stubborn(self) -> None:
        self.substrate.stubborn = True

    def on_gentle(self) -> None:
        self.substrate.stubborn = False

    def on_wait(self) -> None:
        self.now += timedelta(minutes=5)

    def on_lose_memory(self) -> None:
        self.memory, self.memory_lost = Memory(session=SESSION), True
        self.gone.clear()
        self.sequences.clear()

    def on_apart(self) -> None:
        """From here on what leads to a pod is made apart from it."""
        self.substrate.made_open = False

    def on_acknowledge(self) -> None:
        for record in self.memory.records:
            if record.report is not None:
                self.memory = self.memory.acknowledge(record.run, record.report.sequence)

    def on_pass(self, actions_done: int = 99) -> None:
        step = self.decide(self.substrate.look(self.now))
        self.check_reports(step.memory)
        self.memory = Memory(session=SESSION) if step.forget else step.memory
        for action in step.actions[:actions_done]:
            self.act(action)

    def decide(self, pods: list[Pod]) -> Step:
        """As the loop does: what moves nothing is not decided again, and deciding would have said the same."""
        lived = self.steady.lives_on(self.wanted, self.memory, pods)
        step = converge(self.wanted, self.memory, pods, self.now)
        if lived is None:
            self.steady.note(self.wanted, self.memory, pods, step)
            return step
        assert Step(lived) == step, "something had to be decided"
        return Step(lived)

    def on_cut_short(self) -> None:
        self.on_pass(actions_done=0)

    def on_killed(self) -> None:
        """Killed between what it decided and what it would have done; the next one knows only what is remembered."""
        self.on_cut_short()
        self.steady = Steady()
        if not self.substrate.made_open:
            self.change(is_open=False)  # whoever comes next knows of no way

    def check_reports(self, after: Memory) -> None:
        for record in after.records:
            known = self.memory.record(record.run)
            if record.report is None or (known and known.report == record.report):
                continue
            self.sequences.append(record.report.sequence)
            assert self.sequences == sorted(set(self.sequences)), "a sequence was turned back"
            if record.report.phase is Phase.RUNNING and not self.substrate.made_open:
                assert record.run in self.open_runs, "somebody was sent to where no way leads"
            if record.report.phase is Phase.GONE:
                assert (SESSION, record.run) not in self.substrate.pods, "gone while its pod exists"
                self.gone.add(record.run)
            else:
                assert record.run not in self.gone, "a run that is gone came back"

    def act(self, action: Action) -> None:
        match action:
            case Start(spec=spec):
                assert spec.run not in self.gone, "a run that is gone was made again"
                assert not self.substrate.pods, "a run was made beside another"
                self.substrate.make(spec, self.now)
                if self.substrate.made_open:
                    self.open_runs.add(spec.run)
                self.memory = begun(self.memory, spec)
            case Open(spec=spec):
                assert (SESSION, spec.run) in self.substrate.pods, "a way to nowhere"
                self.substrate.lead_to(spec)
                self.open_runs.add(spec.run)
            case Stop(run=run):
                self.substrate.ask_to_stop(SESSION, run, self.now)
            case Kill(run=run):
                self.substrate.end(SESSION, run)
            case Remove(run=run):
                self.substrate.clear(SESSION, run)

    def change(self, **fields: object) -> None:
        self.substrate.pods = {key: replace(pod, **fields) for key, pod in self.substrate.pods.items()}  # type: ignore[arg-type]

    def settle(self) -> None:
        """Nothing happens any more but passes, acknowledgements and time."""
        for _ in range(8):
            self.happen("pass")
            self.happen("acknowledge")
            self.happen("wait")


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=40))
def test_never_two_pods_never_made_twice_never_back_from_gone(events: list[str]) -> None:
    world = World()
    for event in events:
        world.happen(event)


UNSEEN_TOMBSTONE = ["run", "pass", "tombstone", "silence"]  # withdrawn before any pass looked at it


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=30), st.sampled_from(["pause", "stop", "tombstone"]))
@example(UNSEEN_TOMBSTONE, "pause")
def test_what_shall_end_is_gone_and_said_so_whatever_was_before(events: list[str], last: str) -> None:
    world = World()
    for event in events:
        world.happen(event)
    started = {run for _, run in world.substrate.started}
    world.happen(last)
    world.settle()
    assert not world.substrate.pods
    assert world.memory_lost or started <= world.gone
    assert not any(record.pending for record in world.memory.records)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=30))
@example(UNSEEN_TOMBSTONE)
def test_a_new_run_comes_to_life_whatever_was_before(events: list[str]) -> None:
    world = World()
    for event in events:
        world.happen(event)
    world.happen("next_run")
    world.settle()
    assert list(world.substrate.pods) == ([] if world.buried else [(SESSION, world.run)])


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=30))
@example(["run", "pass", "ready", "killed"])
def test_a_run_that_is_up_is_open_and_said_to_be_ready_whatever_was_before(events: list[str]) -> None:
    world = World()
    for event in ["apart", *events, "next_run"]:
        world.happen(event)
    world.settle()
    world.happen("ready")
    world.settle()
    if not world.buried:
        assert world.run in world.open_runs
        assert world.memory.record(world.run).report.phase is Phase.RUNNING


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_a_pass_without_any_change_reports_nothing_and_only_repeats_what_is_unfinished(events: list[str]) -> None:
    world = World()
    for event in events:
        world.happen(event)
    world.settle()
    before = world.memory
    step = converge(world.wanted, before, world.substrate.look(world.now), world.now)
    assert [record.report for record in step.memory.records] == [record.report for record in before.records]
    assert not step.actions


def test_a_tombstone_that_no_pass_has_seen_ends_nothing_in_silence_and_ends_it_when_it_is_said_again() -> None:
    world = World()
    for event in UNSEEN_TOMBSTONE:
        world.happen(event)
    world.settle()
    assert list(world.substrate.pods) == [(SESSION, 1)]
    assert world.memory.records[-1].gone is None
    world.happen("tombstone")
    world.settle()
    assert not world.substrate.pods
    assert world.gone == {1}


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=30))
def test_an_end_that_a_pass_has_begun_goes_on_in_silence(events: list[str]) -> None:
    world = World()
    for event in [*events, "tombstone", "pass", "silence"]:
        world.happen(event)
    world.settle()
    assert not world.substrate.pods
    assert not any(record.pending for record in world.memory.records)
