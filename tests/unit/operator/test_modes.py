"""What stands against cutting cards another way, HAMi's settings of nodes, and the job that turns MIG off."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cluster.domain.hami_config import operating_mode, with_mode
from cluster.operator.manifests.mig_off import SCRIPT, mig_off, mig_off_name
from cluster.operator.reading.modes import hindrance, objection, unconfirmed, why_not_ready
from cluster.operator.substrates.kubernetes.api import Refused
from cluster.operator.substrates.kubernetes.modes import ModeChanges, ModeSettings
from gshare_core.clock import ManualClock
from gshare_core.contract.resources import ModeChange
from tests.kube.hami_twin.bench import MIG_PROFILES, NOW
from tests.kube.nodes import a_card, a_node
from tests.kube.rest import JSON

IMAGE = "registry.example/base"
MIG = ModeChange(node="gpu-01", card_uuids=("GPU-a", "GPU-b"), target_mode="mig")
SHARED = MIG.model_copy(update={"target_mode": "hami-core"})


def node(**fields: Any) -> JSON:
    return a_node("gpu-01", [a_card(uuid, **fields) for uuid in MIG.card_uuids])


# HAMi's settings ------------------------------------------------------------------------------------------------------


def test_only_the_mode_of_one_node_changes_in_hamis_settings() -> None:
    others = [{"name": "gpu-09", "operatingmode": "mig", "devicesplitcount": 16, "filterdevices": {"uuid": ["GPU-x"]}}]
    known = {"nodeconfig": [*others, {"name": "gpu-01", "devicememoryscaling": 1.5}], "unknown": [1]}

    changed = with_mode(json.dumps(known), "gpu-01", "mig")

    kept = {"name": "gpu-01", "devicememoryscaling": 1.5, "operatingmode": "mig"}
    assert json.loads(changed) == {"nodeconfig": [*others, kept], "unknown": [1]}
    assert (operating_mode(changed, "gpu-01"), operating_mode(changed, "gpu-02")) == ("mig", "")


@pytest.mark.parametrize("text", [None, "", "{}", '{"nodeconfig": null}', '{"nodeconfig": []}'])
def test_a_node_without_settings_gets_its_own(text: str | None) -> None:
    changed = with_mode(text, "gpu-01", "mig")
    assert json.loads(changed) == {"nodeconfig": [{"name": "gpu-01", "operatingmode": "mig"}]}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"nodeconfig": {}}',
        '{"nodeconfig": ["gpu-01"]}',
        '{"nodeconfig": [{"name": "gpu-01"}, {"name": "gpu-01"}]}',
        '{"nodeconfig": [{"name": "gpu-01", "operatingmode": 1}]}',
    ],
)
def test_settings_that_cannot_be_read_are_refused_and_not_written_anew(text: str) -> None:
    with pytest.raises(ValueError, match=r"config\.json|nodeconfig|gpu-01"):
        operating_mode(text, "gpu-01")


# What stands against it -----------------------------------------------------------------------------------------------


def plugin(*args: str) -> JSON:
    return {
        "spec": {"containers": [{"name": "device-plugin", "command": ["nvidia-device-plugin"], "args": list(args)}]}
    }


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ""),
        (("--mig-strategy=none", "--device-list-strategy=envvar"), ""),
        (("--mig-strategy", "none", "-v=4"), ""),
        (("--mig-strategy=mixed",), "--mig-strategy=mixed"),
        (("--mig-strategy", "single"), "--mig-strategy=single"),
        (("--device-list-strategy=cdi-annotations",), "--device-list-strategy=cdi-annotations"),
    ],
)
def test_a_plugin_that_is_told_otherwise_is_named(args: tuple[str, ...], words: str) -> None:
    found = objection(MIG, node(), "{}", [plugin(*args)], image=IMAGE)
    assert (words in found, bool(found)) == (True, bool(words))
    assert objection(SHARED, node(), "{}", [plugin(*args)], image=IMAGE) == ""


def test_a_register_that_cannot_be_read_stands_against_mig_and_not_against_the_way_back() -> None:
    silent = a_node("gpu-01")
    assert objection(MIG, silent, "{}", [], image=IMAGE)
    assert objection(SHARED, silent, "{}", [], image=IMAGE) == ""


def test_many_pods_are_named_by_a_few_and_ended_ones_not_at_all() -> None:
    cordoned = node() | {"spec": {"unschedulable": True}}
    held = {"hami.io/vgpu-node": "gpu-01"}
    pods = [{"metadata": {"namespace": "n", "name": f"p{each}", "annotations": held}} for each in range(5)]
    assert hindrance(MIG, cordoned, pods) == "waits for n/p0, n/p1, n/p2 and 2 more"
    assert hindrance(MIG, cordoned, [pod | {"status": {"phase": "Succeeded"}} for pod in pods]) == ""
    assert hindrance(MIG, node(), []) == "waits until the node is cordoned"


def test_only_a_register_that_shows_it_confirms_it() -> None:
    cut = node(mode="mig", migProfiles=MIG_PROFILES)
    assert (unconfirmed(MIG, cut), unconfirmed(SHARED, node())) == ("", "")
    assert unconfirmed(MIG, node()) == "card GPU-a is registered as hami-core"
    assert unconfirmed(MIG, node(mode="mig")) == "card GPU-a says no MIG profiles"
    assert unconfirmed(SHARED, node(health=False)) == "HAMi holds card GPU-a for broken"
    assert unconfirmed(MIG, None) == "card GPU-a is not registered"


def test_a_plugin_that_does_not_come_up_is_told_in_the_kubelets_words() -> None:
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "model is not allowed"}}}
    assert why_not_ready({"status": {"containerStatuses": [waiting]}}) == "CrashLoopBackOff: model is not allowed"
    assert why_not_ready({"status": {"phase": "Pending"}}) == "Pending"


class Refusing:
    """An API server that has not the definition of mode changes."""

    async def list(self, *_given: object) -> JSON:
        raise Refused(404, "NotFound", "the server could not find the requested resource")


def test_a_cluster_without_the_definition_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def looks() -> None:
        modes = ModeChanges(Refusing(), ModeSettings(), ManualClock(NOW))  # type: ignore[arg-type]
        for _look in range(3):
            await modes.keep()

    asyncio.run(looks())
    assert [record.levelname for record in caplog.records if "cannot be seen" in record.getMessage()] == ["WARNING"]


# The job --------------------------------------------------------------------------------------------------------------


def test_the_job_has_nothing_of_the_machine_but_its_cards() -> None:
    job = mig_off("gpu-01", MIG.card_uuids, change="m-1", image=IMAGE, namespace="gshare-infra")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (job["metadata"]["name"], container["securityContext"]) == (mig_off_name("gpu-01"), {"privileged": True})
    assert {"name": "CARDS", "value": "GPU-a GPU-b"} in container["env"]
    assert pod["nodeSelector"] == {"kubernetes.io/hostname": "gpu-01"}
    assert not pod["automountServiceAccountToken"]
    assert not pod.keys() & {"volumes", "hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "nodeName"}
    assert len(mig_off_name("n" * 253)) <= 63


DRIVER = """\
#!/bin/sh
echo "$@" >> "$STATE/calls"
card=$(echo "$@" | sed -n 's/.*-i \\([^ ]*\\).*/\\1/p')
case "$*" in
  *query-gpu*) cat "$STATE/$card" ;;
  *"-mig 0"*)
    [ -e "$STATE/$card.busy" ] && { echo "In use by another client"; exit 19; }
    [ -e "$STATE/$card.sticky" ] || echo Disabled > "$STATE/$card" ;;
  *--gpu-reset*) [ -e "$STATE/$card.stuck" ] || { [ -e "$STATE/$card.sticky" ] && echo Disabled > "$STATE/$card"; } ;;
esac
exit 0
"""


def run_job(folder: Path, cards: dict[str, str], **marks: str) -> tuple[int, str, list[str]]:
    """The job's script against a driver that is in `cards` states; exit status, its last words, its calls."""
    programs, state = folder / "bin", folder / "state"
    programs.mkdir()
    state.mkdir()
    (programs / "nvidia-smi").write_text(DRIVER)
    (programs / "nvidia-smi").chmod(0o755)
    for card, mode in cards.items():
        (state / card).write_text(f"{mode}\n")
    for card, mark in marks.items():
        for each in mark.split():
            (state / f"{card}.{each}").touch()
    message = folder / "message"
    environment = {"PATH": f"{programs}:{os.environ['PATH']}", "STATE": str(state), "MESSAGE_FILE": str(message)}
    command = ["/bin/sh", "-c", SCRIPT]
    ended = subprocess.run(command, env=environment | {"CARDS": " ".join(cards)}, check=False, timeout=30)
    calls = (state / "calls").read_text().splitlines()
    return ended.returncode, message.read_text().strip(), calls


def test_the_job_turns_mig_off_where_it_is_on_and_touches_nothing_else(tmp_path: Path) -> None:
    status, words, calls = run_job(tmp_path, {"a": "Enabled", "b": "Disabled", "c": "[N/A]"})
    assert (status, words) == (0, "MIG is off")
    assert [call for call in calls if "query" not in call] == ["mig -dci -i a", "mig -dgi -i a", "-i a -mig 0"]


@pytest.mark.parametrize(
    ("mark", "status", "words"),
    [
        ("busy", 1, "a: In use by another client"),
        ("sticky", 0, "MIG is off"),
        ("sticky stuck", 1, "a: MIG stays on until the card is reset: end what uses it, or restart the machine"),
    ],
)
def test_the_job_believes_the_driver_alone(tmp_path: Path, mark: str, status: int, words: str) -> None:
    assert run_job(tmp_path, {"a": "Enabled"}, a=mark)[:2] == (status, words)


def test_a_card_that_the_driver_does_not_know_fails_the_job(tmp_path: Path) -> None:
    assert run_job(tmp_path, {"a": "No devices were found"})[:2] == (1, "a: No devices were found")
