"""Custom resources as documents: nothing is lost either way, and nothing that cannot be read passes."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from gshare_core.contract import DesiredDocument, SessionSpec
from gshare_core.contract.crds import definitions, structural
from gshare_core.contract.resources import (
    ModeChange,
    SessionStatus,
    document_of,
    mode_change_resource,
    session_resource,
    status_of,
    wire,
)
from tests.unit.test_contract import SESSION, WIRE


def document(**fields) -> DesiredDocument:
    spec = SessionSpec.model_validate({**WIRE, **fields})
    return DesiredDocument(session=spec.session_id, seq=0, spec=spec)


@pytest.mark.parametrize(
    "said",
    [
        document(),
        document(group=str(uuid4()), organisation=str(uuid4())),
        document(**{"class": "cpu", "gpu": None, "node": "cpu-01"}),
        DesiredDocument(session=SESSION, seq=0, spec=None, run=3, generation=9),
        DesiredDocument(session=SESSION, seq=0, spec=None, run=3, generation=9, confirmed=True),
    ],
)
def test_what_is_written_is_read_again(said):
    assert document_of(session_resource(said)) == said


def test_the_labels_say_whose_it_is():
    group, organisation = uuid4(), uuid4()

    labels = session_resource(document(group=group, organisation=organisation))["metadata"]["labels"]

    assert labels == {
        "gshare.io/session": str(SESSION),
        "gshare.io/group": str(group),
        "gshare.io/organisation": str(organisation),
    }
    assert session_resource(document())["metadata"]["labels"] == {"gshare.io/session": str(SESSION)}


def test_a_tombstone_that_ends_nothing_in_particular_has_no_resource():
    with pytest.raises(ValueError, match="which run"):
        session_resource(DesiredDocument(session=SESSION, seq=0, spec=None))


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda body: body["metadata"].update(name=f"s-{UUID(int=1).hex}"), "metadata.name"),
        (lambda body: body["spec"].update(run=0), "run"),
        (lambda body: body["spec"].update(contractVersion=7), "contractVersion"),
        (lambda body: body["spec"].update(tombstone={}, desired="Running"), "desired"),
        (lambda body: body.pop("spec"), "spec"),
        (lambda body: body.pop("metadata"), "metadata"),
    ],
)
def test_a_resource_that_cannot_be_read_says_where(spoil, named):
    body = session_resource(document())
    spoil(body)

    with pytest.raises(ValueError, match=named):
        document_of(body)


def test_a_status_is_read_again_and_what_is_no_status_is_none():
    status = SessionStatus(observed_generation=7, run=2, phase="Running", cards=("GPU-1",), sequence=12)

    assert status_of({"status": wire(status)}) == status
    assert status_of({}) is None and status_of({"status": {"phase": "Dreaming"}}) is None


def test_a_mode_change_names_cards_once():
    change = ModeChange(node="gpu-01", card_uuids=("GPU-1",), target_mode="mig")
    assert mode_change_resource("gpu-01-mig", change)["spec"] == {
        "node": "gpu-01",
        "cardUuids": ["GPU-1"],
        "targetMode": "mig",
    }
    with pytest.raises(ValueError, match="once"):
        ModeChange(node="gpu-01", card_uuids=("GPU-1", "GPU-1"), target_mode="mig")


def test_every_field_of_a_definition_is_plain():
    """No reference, no choice, no number or text without a bound: what Kubernetes calls structural, and can count."""

    def walk(part):
        assert part.keys() <= {
            "type", "description", "properties", "required", "items", "enum", "format", "pattern", "minimum", "maximum",
            "minLength", "maxLength", "minItems", "maxItems", "x-kubernetes-validations", "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
        }  # fmt: skip
        assert part["type"] in {"object", "array", "string", "integer", "boolean"}
        assert part["type"] != "string" or "maxLength" in part
        for inner in (*part.get("properties", {}).values(), *([part["items"]] if "items" in part else [])):
            walk(inner)

    for definition in definitions():
        walk(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert structural(SessionSpec)["properties"].keys() == WIRE.keys()
