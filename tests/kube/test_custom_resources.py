"""The custom resources as a real API server keeps them: what it takes, refuses, fences and shows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from gshare_core.contract import FIELD_MANAGER, SessionSpec
from gshare_core.contract.crds import FENCE
from gshare_core.contract.resources import SessionStatus, wire
from gshare_core.ids import uuid7
from tests.kube.documents import CARD, a_card_share, a_session, a_tombstone, mode_changes, sessions, spec_of
from tests.kube.rest import JSON, Refused

DRY = {"dryRun": "All"}


@pytest.fixture
def rest(plane):
    return plane.rest()


def refusal(call: Callable[[], Any]) -> Refused:
    with pytest.raises(Refused) as refused:
        call()
    assert refused.value.status in {400, 422}, refused.value
    return refused.value


def test_the_definitions_are_structural_and_served(rest):
    for name in ("gsharesessions.gshare.io", "gpumodechanges.gshare.io"):
        found = rest.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert (conditions["Established"], conditions.get("NonStructuralSchema", "False")) == ("True", "False")


GOOD: dict[str, dict[str, Any]] = {
    "a part of a card": {},
    "whole cards": {"gpu": a_card_share(mode="exclusive", cards=["GPU-a", "GPU-b"], corePercent=100)},
    "a MIG slice": {"gpu": a_card_share(mig={"profile": "1g.10gb", "start": 6})},
    "a borrowed card": {"gpu": a_card_share(borrowed=True)},
    "without a card": {"class": "cpu", "gpu": None, "node": "cpu-01"},
    "privileged": {"class": "cpu", "gpu": None, "privileged": True},
    "only what is needed": {"volumes": None, "deadlines": None, "privileged": None},
    "stopping at once": {"desired": "Stopped", "deadlines": {"stopGraceSeconds": 0}},
    "with owners": {"group": str(uuid7()), "organisation": str(uuid7())},
}


@pytest.mark.parametrize("fields", GOOD.values(), ids=GOOD.keys())
def test_what_the_control_plane_writes_is_taken_and_kept_as_it_is(rest, namespace, fields):
    made = a_session(**fields)

    rest.apply(sessions(namespace, made["metadata"]["name"]), made, manager=FIELD_MANAGER)

    kept = rest.get(sessions(namespace, made["metadata"]["name"]))
    assert kept["spec"] == made["spec"]
    assert spec_of(kept) == spec_of(made)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown version": ({"contractVersion": 3}, "spec.contractVersion"),
    "no version": ({"contractVersion": None}, "spec.contractVersion"),
    "no run": ({"run": None}, "spec.run"),
    "run 0": ({"run": 0}, "spec.run"),
    "a run beyond its column": ({"run": 2**31}, "spec.run"),
    "no generation": ({"generation": None}, "spec.generation"),
    "generation 0": ({"generation": 0}, "spec.generation"),
    "an unknown wish": ({"desired": "Sleeping"}, "spec.desired"),
    "an unknown class": ({"class": "tpu"}, "spec.class"),
    "no class": ({"class": None}, "spec.class"),
    "class gpu without one": ({"gpu": None}, "spec.class"),
    "class cpu with a card": ({"class": "cpu"}, "spec.class"),
    "no image": ({"image": None}, "spec.image"),
    "an empty image": ({"image": ""}, "spec.image"),
    "no apps": ({"apps": None}, "spec.apps"),
    "an empty list of apps": ({"apps": []}, "spec.apps"),
    "an unknown app": ({"apps": [{"name": "vnc", "port": 1}]}, "spec.apps[0].name"),
    "an app twice": ({"apps": [{"name": "lab", "port": 1}, {"name": "lab", "port": 2}]}, "spec.apps[1]"),
    "a port beyond ports": ({"apps": [{"name": "lab", "port": 65536}]}, "spec.apps[0].port"),
    "no resources": ({"resources": None}, "spec.resources"),
    "no memory": ({"resources": {"cpuMilli": 1, "scratchGib": 1}}, "spec.resources.memoryMib"),
    "no CPU at all": ({"resources": {"cpuMilli": 0, "memoryMib": 1, "scratchGib": 1}}, "spec.resources.cpuMilli"),
    "an unknown mode": ({"gpu": a_card_share(mode="half")}, "spec.gpu.mode"),
    "no card": ({"gpu": a_card_share(cards=[])}, "spec.gpu.cards"),
    "parts of two cards": ({"gpu": a_card_share(cards=["GPU-a", "GPU-b"])}, "spec.gpu.cards"),
    "a card twice": ({"gpu": a_card_share(mode="exclusive", cards=["GPU-a", "GPU-a"])}, "spec.gpu.cards[1]"),
    "a list of cards in one": ({"gpu": a_card_share(cards=["GPU-a,GPU-b"])}, "spec.gpu.cards[0]"),
    "more cores than a card": ({"gpu": a_card_share(corePercent=101)}, "spec.gpu.corePercent"),
    "a node that is no name": ({"gpu": a_card_share(node="GPU 01")}, "spec.gpu.node"),
    "a slice without a start": ({"gpu": a_card_share(mig={"profile": "1g.10gb"})}, "spec.gpu.mig.start"),
    "a claim that is no name": (
        {"volumes": [{"claim": "../etc", "mountPath": "/data", "sizeGib": 1}]}, "spec.volumes[0].claim"),
    "a relative path": ({"volumes": [{"claim": "vol-1", "mountPath": "data", "sizeGib": 1}]}, "spec.volumes[0].mountPath"),
    "a path that climbs": ({"volumes": [{"claim": "vol-1", "mountPath": "/data/../etc", "sizeGib": 1}]}, "spec.volumes"),
    "a path twice": (
        {"volumes": [{"claim": f"vol-{each}", "mountPath": "/data", "sizeGib": 1} for each in "ab"]}, "spec.volumes[1]"),
    "an unknown way to share": (
        {"volumes": [{"claim": "vol-1", "mountPath": "/data", "sizeGib": 1, "accessMode": "RWX"}]},
        "spec.volumes[0].accessMode"),
    "no access": ({"access": None}, "spec.access"),
    "somebody else's secret": ({"access": {"host": "x.example", "tokenSecret": "s-0-access"}}, "spec.access.tokenSecret"),
    "privileged with a card": ({"privileged": True}, "spec.privileged"),
    "a deadline of nothing": ({"deadlines": {"startSeconds": 0}}, "spec.deadlines.startSeconds"),
    "a group that is no id": ({"group": "lab-b"}, "spec.group"),
    "a text for a number": ({"run": "1"}, "spec.run"),
    "a tombstone that wants to run": ({"tombstone": {"confirmed": True}}, "spec.desired"),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "field"), BAD.values(), ids=BAD.keys())
def test_a_bad_document_is_refused_with_the_field_named(rest, namespace, fields, field):
    refused = refusal(lambda: rest.create(sessions(namespace), a_session(**fields)))

    assert field in {name for name, _message in refused.causes}, refused.causes


def test_the_name_is_the_sessions(rest, namespace):
    made = a_session()
    made["metadata"]["name"] = "s-" + "0" * 32

    refused = refusal(lambda: rest.create(sessions(namespace), made))

    assert refused.causes[0][0] == "spec.sessionId"


# What the models allow and what the server allows is the same -----------------------------------------------------------

# Where the server asks for more: hands that write a resource must be plain where the models have a default.
STRICTER = {"contractVersion missing", "tokenSecret another text"}


def spoiled(document: JSON) -> Iterator[tuple[str, JSON]]:
    """The document with each of its values missing, at and beyond bounds, too long, or another text."""
    for path in paths(document):
        *way, last = path
        for what, value in variants(at(document, path)):
            spoilt = copy.deepcopy(document)
            holder = at(spoilt, tuple(way))
            if what == "missing":
                del holder[last]
            else:
                holder[last] = value
            yield f"{last} {what}", spoilt


def paths(part: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for name, value in inner:
        yield (*here, name)
        yield from paths(value, (*here, name))


def at(part: Any, path: tuple[Any, ...]) -> Any:
    for name in path:
        part = part[name]
    return part


def variants(value: Any) -> Iterator[tuple[str, Any]]:
    yield "missing", None
    if isinstance(value, bool):
        yield "turned", not value
    elif isinstance(value, int):
        yield from (
            (f"set to {number}", number) for number in (-1, 0, 1, 2, 100, 101, 65_535, 65_536, 2**31 - 1, 2**31)
        )
    elif isinstance(value, str):
        yield from (("empty", ""), ("another text", "Not so"), ("long", "a" * 300), ("longer", "a" * 600))
    elif isinstance(value, list):
        yield from (("emptied", []), ("doubled", value * 2), ("many", value * 20))


def test_the_server_refuses_exactly_what_the_models_refuse(rest, namespace):
    whole = a_session(
        gpu=a_card_share(mig={"profile": "1g.10gb", "start": 6}), group=str(uuid7()), organisation=str(uuid7())
    )
    different, tried = [], 0
    for what, spec in spoiled(whole["spec"]):
        tried += 1
        try:
            rest.create(sessions(namespace), whole | {"spec": spec}, **DRY)
            taken = True
        except Refused as error:
            if error.status != 422:
                raise
            taken = False
        if taken != readable(spec, whole["metadata"]["name"]) and what not in STRICTER:
            different.append((what, "taken" if taken else "refused"))

    assert different == []
    assert tried > 150


def readable(spec: JSON, name: str) -> bool:
    try:
        read = SessionSpec.model_validate(spec)
    except ValidationError:
        return False
    return f"s-{read.session_id.hex}" == name


# The fence ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def applied(rest, namespace):
    """Applies resources as the control plane does; answers what is kept."""

    def apply(resource: JSON, manager: str = FIELD_MANAGER) -> JSON:
        return rest.apply(sessions(namespace, resource["metadata"]["name"]), resource, manager=manager)

    return apply


@pytest.mark.parametrize(
    ("run", "generation"), [(2, 3), (1, 9), (2, 4)], ids=["older", "an older run", "as old, but different"]
)
def test_a_spec_that_is_not_newer_is_refused_by_the_server_itself(applied, run, generation):
    session = uuid7()
    applied(a_session(session, run=2, generation=4))

    refused = refusal(lambda: applied(a_session(session, run=run, generation=generation, desired="Paused")))

    assert refused.causes[0][0] == "spec.generation" and FENCE in refused.causes[0][1]


def test_the_same_spec_again_is_nothing_new(applied):
    session = uuid7()
    first = applied(a_session(session))

    assert applied(a_session(session))["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@pytest.mark.parametrize(("run", "generation"), [(2, 5), (3, 1)], ids=["a later generation", "a later run"])
def test_a_newer_spec_takes_its_place(applied, run, generation):
    session = uuid7()
    applied(a_session(session, run=2, generation=4))

    kept = applied(a_session(session, run=run, generation=generation, desired="Paused"))

    assert (kept["spec"]["run"], kept["spec"]["generation"], kept["spec"]["desired"]) == (run, generation, "Paused")


def test_a_tombstone_ends_the_very_document_that_stands_there_and_can_be_confirmed(applied):
    session = uuid7()
    applied(a_session(session, run=2, generation=4))

    ended = applied(a_tombstone(session, run=2, generation=4))
    confirmed = applied(a_tombstone(session, run=2, generation=4, confirmed=True))

    assert set(ended["spec"]) == {"contractVersion", "sessionId", "run", "generation", "desired", "tombstone"}
    assert (ended["spec"]["tombstone"], confirmed["spec"]["tombstone"]) == ({"confirmed": False}, {"confirmed": True})
    refusal(lambda: applied(a_tombstone(session, run=2, generation=4)))
    refusal(lambda: applied(a_session(session, run=2, generation=4)))


def test_what_a_hand_wrote_into_a_spec_is_refused_or_replaced_as_a_whole(rest, namespace, applied):
    session = uuid7()
    made = applied(a_session(session, **{"class": "cpu", "gpu": None}))
    path = sessions(namespace, made["metadata"]["name"])

    refusal(lambda: rest.patch(path, {"spec": {"privileged": True}}))
    rest.patch(path, {"spec": {"node": "elsewhere", "generation": 2}}, fieldManager="somebody")
    kept = applied(a_session(session, **{"class": "cpu", "gpu": None, "generation": 3}))

    assert "node" not in kept["spec"] and kept["spec"]["privileged"] is False


# Status ------------------------------------------------------------------------------------------------------------------


def test_status_and_spec_are_written_apart(rest, namespace, applied):
    made = applied(a_session() | {"status": {"phase": "Running", "run": 1, "observedGeneration": 1}})
    path = sessions(namespace, made["metadata"]["name"])
    assert "status" not in made

    status = wire(
        SessionStatus(
            observed_generation=1,
            run=1,
            phase="Running",
            node="gpu-01",
            cards=(CARD,),
            ready_at="2026-11-30T12:00:00.123456Z",
            sequence=1_764_504_000_000,
            conditions=[{"type": "PodReady", "status": "True"}],
        )
    )
    rest.patch(f"{path}/status", {"status": status, "spec": {"generation": 9, "desired": "Stopped"}})

    kept = rest.get(path)
    assert kept["spec"] == made["spec"]
    assert kept["status"] == status
    rest.patch(path, {"status": None})
    assert rest.get(path)["status"] == status


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"phase": "Dreaming"}, "status.phase"),
        ({"run": 0}, "status.run"),
        ({"observedGeneration": None}, "status.observedGeneration"),
        ({"conditions": [{"type": "A", "status": "Maybe"}]}, "status.conditions[0].status"),
        ({"readyAt": "yesterday"}, "status.readyAt"),
        ({"message": "m" * 2049}, "status.message"),
    ],
)
def test_a_bad_status_is_refused_with_the_field_named(rest, namespace, applied, status, field):
    made = applied(a_session())
    path = sessions(namespace, made["metadata"]["name"])

    whole = {"phase": "Running", "run": 1, "observedGeneration": 1} | status
    refused = refusal(lambda: rest.patch(f"{path}/status", {"status": whole}))

    assert field in {name for name, _message in refused.causes}, refused.causes


def test_the_list_that_people_see_says_what_is_wanted_and_what_is(rest, namespace, applied):
    made = applied(a_session())
    path = sessions(namespace, made["metadata"]["name"])
    status = {
        "phase": "Failed",
        "reason": "crash_loop",
        "run": 1,
        "observedGeneration": 1,
        "node": "gpu-01",
        "cards": [CARD],
    }
    rest.patch(f"{path}/status", {"status": status})

    (row,) = rest.table(sessions(namespace))

    assert list(row)[:7] == ["Name", "Desired", "Phase", "Reason", "Run", "Node", "Age"]
    assert (row["Desired"], row["Phase"], row["Reason"], row["Run"], row["Node"]) == (
        "Running", "Failed", "crash_loop", 1, "gpu-01",
    )  # fmt: skip
    assert (row["Generation"], row["Observed"], row["Mode"]) == (1, 1, "fractional")


def test_the_short_names_are_known(rest):
    served = {each["name"]: each for each in rest.get("/apis/gshare.io/v1")["resources"]}

    assert served["gsharesessions"]["shortNames"] == ["gss"] and "gsharesessions/status" in served
    assert served["gpumodechanges"]["shortNames"] == ["gmc"] and "gpumodechanges/status" in served


# Mode changes ------------------------------------------------------------------------------------------------------------


def a_mode_change(**fields: Any) -> JSON:
    spec = {"node": "gpu-01", "cardUuids": [CARD], "targetMode": "mig"} | fields
    return {
        "apiVersion": "gshare.io/v1",
        "kind": "GpuModeChange",
        "metadata": {"generateName": "gpu-01-"},
        "spec": spec,
    }


def test_a_mode_change_is_taken_shown_and_never_edited(rest, namespace):
    made = rest.create(mode_changes(namespace), a_mode_change())
    path = mode_changes(namespace, made["metadata"]["name"])

    rest.patch(f"{path}/status", {"status": {"phase": "Draining", "message": "waits for 2 sessions"}})
    refused = refusal(lambda: rest.patch(path, {"spec": {"targetMode": "hami-core"}}))

    assert refused.causes[0][0] == "spec"
    (row,) = rest.table(mode_changes(namespace))
    assert (row["Node"], row["Target"], row["Phase"], row["Message"]) == (
        "gpu-01", "mig", "Draining", "waits for 2 sessions",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"node": "GPU 01"}, "spec.node"),
        ({"cardUuids": []}, "spec.cardUuids"),
        ({"cardUuids": [CARD, CARD]}, "spec.cardUuids[1]"),
        ({"targetMode": "mps"}, "spec.targetMode"),
        ({"targetMode": None}, "spec.targetMode"),
    ],
)
def test_a_bad_mode_change_is_refused_with_the_field_named(rest, namespace, fields, field):
    refused = refusal(lambda: rest.create(mode_changes(namespace), a_mode_change(**fields)))

    assert field in {name for name, _message in refused.causes}, refused.causes
