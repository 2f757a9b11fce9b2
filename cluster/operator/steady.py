"""Sessions of which nothing moves but the proof of life: `converge` need not be asked again to know what it would say.

Guarantees: what is remembered of a session is the same as `converge` would have it, to a second of its proof of life; in every doubt it is asked. Pure but for what it
remembers of its last answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from cluster.operator.converge import Step
from cluster.operator.state import Memory, Pod
from gshare_core.contract import DesiredDocument

_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class _Answer:
    """To what `converge` had nothing to say: the document, the memory that it left, the pod."""

    wanted: DesiredDocument | None
    memory: Memory
    pod: Pod


class Steady:
    """The last answer for each session whose only pod is ready, and of which nothing was to be done."""

    def __init__(self) -> None:
        self._answers: dict[UUID, _Answer] = {}

    def lives_on(self, wanted: DesiredDocument | None, memory: Memory, pods: Sequence[Pod]) -> Memory | None:
        """The memory with the newer proof of life, where nothing else has changed; None where `converge` must be asked.

        A proof that is newer by less than a second is not told apart: many looks a second are for those that move.
        """
        known = self._answers.get(memory.session)
        if known is None or len(pods) != 1 or known.wanted is not wanted or known.memory is not memory:
            return None
        [pod] = pods
        if replace(known.pod, alive_at=pod.alive_at) != pod:
            return None
        if known.pod.alive_at is not None and pod.alive_at is not None and pod.alive_at - known.pod.alive_at < _MOMENT:
            return memory
        lived = memory.lived(pod.run, pod.alive_at)
        self._answers[memory.session] = _Answer(wanted, lived, pod)
        return lived

    def note(self, wanted: DesiredDocument | None, before: Memory, pods: Sequence[Pod], step: Step) -> None:
        """What `converge` has answered; only an answer that changed nothing holds for the next time as well."""
        session = before.session
        if (
            len(pods) == 1
            and _is_quiet(pods[0])
            and not _is_ending(step.memory, pods[0].run)
            and not step.actions
            and not step.forget
            and _same(before, step.memory)
        ):
            self._answers[session] = _Answer(wanted, step.memory, pods[0])
        else:
            self._answers.pop(session, None)

    def forget(self, session: UUID) -> None:
        """Nothing of the session is left to know."""
        self._answers.pop(session, None)


def _is_quiet(pod: Pod) -> bool:
    """Whether time alone changes nothing that is decided about it: no grace runs, no crash grows old."""
    return pod.ready and pod.stopping_since is None and not pod.crashed_at and pod.alive_at is not None


def _is_ending(memory: Memory, run: int) -> bool:
    """Whether its end was decided: until nothing of it is left, what asks for it is decided at every look."""
    record = memory.record(run)
    return record is None or any(fate is not None for fate in (record.ending, record.outcome, record.gone))


def _same(before: Memory, after: Memory) -> bool:
    return [record.but_proof() for record in before.records] == [record.but_proof() for record in after.records]
