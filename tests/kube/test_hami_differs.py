"""The twin and the real scheduler are asked the same questions, beyond those that were recorded, and answer alike.

Needs the binary of a real scheduler (``GSHARE_HAMI_SCHEDULER``); ``GSHARE_TEST_HAMI_SEED`` gives other stories.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from gshare_site.settings.test import GIVEN
from tests.kube.hami import REAL, Real, real_scheduler
from tests.kube.hami_stories import Story, stories
from tests.kube.hami_twin import words
from tests.kube.hami_twin.recorded import replay
from tests.kube.nodes import NODES, a_node, add_node
from tests.kube.plane import ControlPlane
from tests.kube.rest import Rest
from tests.waiting import until

SEED, COUNT = int(GIVEN.get("GSHARE_TEST_HAMI_SEED", "1")), int(GIVEN.get("GSHARE_TEST_SOAK_ROUNDS", "60"))
PAUSE = "registry.k8s.io/pause:3.10"

pytestmark = [
    pytest.mark.skipif(not REAL, reason="GSHARE_HAMI_SCHEDULER names no real scheduler"),
    pytest.mark.timeout(600),
]


class Recorder:
    """Asks the real scheduler, as kube-scheduler would, about pods that exist and that nobody binds."""

    def __init__(self, rest: Rest, namespace: str, real: Real) -> None:
        self._rest, self._pods, self._real = rest, f"/api/v1/namespaces/{namespace}/pods", real
        self._http = httpx.Client(trust_env=False, timeout=30)

    def record(self, story: Story) -> Story:
        """The story with the real scheduler's results, as a line of the recording."""
        steps = [self._step(story["node"], number, step) for number, step in enumerate(story["steps"])]
        return {**story, "steps": steps}

    def knows(self, node: str) -> bool:
        """Whether the scheduler has looked at the node yet."""
        asking = self._create("probe", {words.RESOURCE_COUNT: 1, words.RESOURCE_MEMORY: 2**30}, {})
        answer = self._filter(asking, node)
        self._rest.delete(f"{self._pods}/probe", grace=0)
        return answer.get("failed") != words.NODE_UNREGISTERED

    def _step(self, node: str, number: int, step: dict[str, Any]) -> dict[str, Any]:
        if "delete" in step:
            name = f"{node}-{step['delete']}"
            self._rest.delete(f"{self._pods}/{name}", grace=0)
            until(lambda: not self._counts(name), within=20, what=f"the scheduler hears that {name} has gone")
            return step
        return {
            **step,
            "result": self._filter(self._create(f"{node}-{number}", step["limits"], step["annotations"]), node),
        }

    def _create(self, name: str, limits: dict[str, int], annotations: dict[str, str]) -> dict[str, Any]:
        resources = {"limits": {key: str(value) for key, value in limits.items()}}
        return self._rest.create(
            self._pods,
            {
                "metadata": {"name": name, "annotations": annotations},
                "spec": {
                    "schedulerName": "nobody",
                    "containers": [{"name": "c0", "image": PAUSE, "resources": resources}],
                },
            },
        )

    def _filter(self, pod: dict[str, Any], node: str) -> dict[str, Any]:
        answer = self._http.post(f"{self._real.url}/filter", json={"Pod": pod, "NodeNames": [node]}).json()
        if answer["Error"]:
            return {"fits": False, "error": answer["Error"]}
        if answer["FailedNodes"]:
            return {"fits": False, "failed": answer["FailedNodes"][node]}
        written = self._rest.get(f"{self._pods}/{pod['metadata']['name']}")["metadata"].get("annotations", {})
        found: dict[str, Any] = {"fits": True, "allocated": written.get(words.ALLOCATED)}
        if words.MIG_ALLOCATIONS in written:
            found["mig"] = json.loads(written[words.MIG_ALLOCATIONS])
        return found

    def _counts(self, name: str) -> bool:
        return f'pod="{name}"' in self._http.get(self._real.metrics).text


@pytest.fixture
def recorder(plane: ControlPlane, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    told = list(stories(SEED, COUNT))
    rest = plane.rest()
    for story in told:
        add_node(rest, a_node(story["node"], story["cards"]))
    with real_scheduler(plane, tmp_path_factory.mktemp("real")) as real:
        made = Recorder(rest, namespace, real)
        until(lambda: made.knows(told[-1]["node"]), within=90, what="the first look at the nodes")
        yield made
    for story in told:
        rest.delete(f"{NODES}/{story['node']}")


def test_the_twin_answers_what_the_real_scheduler_answers(recorder: Recorder) -> None:
    fitted: list[bool] = []
    for story in stories(SEED, COUNT):
        for replayed in replay(recorder.record(story)):
            assert dict(replayed.answered) == dict(replayed.recorded), f"{replayed.where}: {json.dumps(story)}"
            fitted.append(replayed.recorded["fits"])
    assert 0.2 < sum(fitted) / len(fitted) < 0.8, "the questions are neither all easy nor all impossible"
