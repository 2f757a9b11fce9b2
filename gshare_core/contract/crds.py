"""The definitions of both custom resources (`apiextensions.k8s.io/v1`), made from the models that read and write them.

Guarantees: types, bounds, enumerations and patterns come from the models themselves; here stand only what a model cannot say
in a schema (CEL rules, list types, columns), and a test holds both against each other on a real API server. Every list and
text is bounded, so that the rules' cost is.
The spec of a session is one unit (`x-kubernetes-map-type: atomic`): whoever applies it replaces it as a whole, so that
nothing which somebody wrote by hand lives on inside. It is fenced: the API server itself refuses a spec that is not newer by
(run, generation), whoever sends it and however late it arrives (`FENCE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from gshare_core.contract.desired import SessionSpec
from gshare_core.contract.names import (
    ACCEPTED_VERSIONS,
    API_GROUP,
    KIND_MODE_CHANGE,
    KIND_SESSION,
    PLURAL_MODE_CHANGES,
    PLURAL_SESSIONS,
)
from gshare_core.contract.resources import Ended, ModeChange, ModeChangeStatus, SessionStatus
from gshare_core.contract.wire import SMALL_MAX

Schema = dict[str, Any]

# What the API server answers to a spec that is not newer; `cluster.adapters.kube` knows it by this text.
FENCE = "not newer than what is known, by run and generation"
_ORDER_GROWS = "self.run > oldSelf.run || (self.run == oldSelf.run && self.generation > oldSelf.generation)"
_ENDS_WHAT_IS_KNOWN = (
    "self.run == oldSelf.run && self.generation == oldSelf.generation && has(self.tombstone) && "
    "(!has(oldSelf.tombstone) || (self.tombstone.confirmed && !oldSelf.tombstone.confirmed))"
)
_FINAL = "({0}.phase == 'Done' || {0}.phase == 'Failed')"
_PATHS = "self.all(mount, !mount.mountPath.split('/').exists(part, part == '.' || part == '..'))"


def definitions() -> tuple[Schema, Schema]:
    """The CustomResourceDefinitions of `GShareSession` and `GpuModeChange`."""
    return _session(), _mode_change()


def _session() -> Schema:
    named = "self.metadata.name == 's-' + self.spec.sessionId.replace('-', '')"
    root = _object(spec=_session_spec(), status=_status_of_session())
    root["x-kubernetes-validations"] = [
        _rule(named, "must be 's-' and the session id's 32 hex digits", path=".spec.sessionId")
    ]
    return _definition(
        KIND_SESSION,
        PLURAL_SESSIONS,
        "gss",
        root | {"description": "A session: what the control plane wants of it, and what its cluster has."},
        [
            _column("Desired", ".spec.desired"),
            _column("Phase", ".status.phase"),
            _column("Reason", ".status.reason"),
            _column("Run", ".spec.run", kind="integer"),
            _column("Node", ".status.node"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
            _column("Generation", ".spec.generation", kind="integer", wide=True),
            _column("Observed", ".status.observedGeneration", kind="integer", wide=True),
            _column("Mode", ".spec.gpu.mode", wide=True),
            _column("Cards", ".status.cards", wide=True),
            _column("Pod", ".status.pod", wide=True),
        ],
    )


def _mode_change() -> Schema:
    spec = structural(ModeChange)
    spec["x-kubernetes-validations"] = [_rule("self == oldSelf", "a mode change is never edited: make another one")]
    spec["properties"]["cardUuids"]["x-kubernetes-list-type"] = "set"
    status = structural(ModeChangeStatus)
    # Whoever comes late, or hears of it twice, cannot take back what was said.
    status["x-kubernetes-validations"] = [
        _rule(f"{_FINAL.format('oldSelf')} ? self.phase == oldSelf.phase : true", "it has ended", path=".phase"),
        _rule(
            "(has(self.begun) && self.begun) || !(has(oldSelf.begun) && oldSelf.begun)", "it has begun", path=".begun"
        ),
    ]
    root = _object(spec=spec, status=status)
    return _definition(
        KIND_MODE_CHANGE,
        PLURAL_MODE_CHANGES,
        "gmc",
        root | {"description": "Cards of a node that shall be cut by MIG, or shared by HAMi's core again."},
        [
            _column("Node", ".spec.node"),
            _column("Target", ".spec.targetMode"),
            _column("Phase", ".status.phase"),
            _column("Message", ".status.message"),
            _column("Age", ".metadata.creationTimestamp", kind="date"),
            _column("Begun", ".status.begun", kind="boolean", wide=True),
            _column("Since", ".status.since", kind="date", wide=True),
            _column("Cards", ".spec.cardUuids", wide=True),
        ],
    )


def _session_spec() -> Schema:
    schema, ended = structural(SessionSpec), structural(Ended)
    fields = schema["properties"] = schema["properties"] | {"tombstone": ended["properties"]["tombstone"]}
    fields["contractVersion"]["enum"] = sorted(ACCEPTED_VERSIONS)
    fields["apps"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    fields["volumes"] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["mountPath"]}
    fields["volumes"]["x-kubernetes-validations"] = [_rule(_PATHS, "mountPath: a path must not climb")]
    fields["gpu"]["properties"]["cards"]["x-kubernetes-list-type"] = "set"
    fields["gpu"]["x-kubernetes-validations"] = [
        _rule("self.mode == 'exclusive' || self.cards.size() == 1", "a fractional share is of one card", path=".cards")
    ]
    # A tombstone has no use for what runs; the others must say it.
    needed = [name for name in schema["required"] if name not in ended["properties"]]
    # Whoever writes by hand must be plain about what the models take for granted.
    schema["required"] = ["contractVersion", *(name for name in schema["required"] if name not in needed)]
    schema["x-kubernetes-map-type"] = "atomic"
    schema["x-kubernetes-validations"] = [
        *(_needed(name) for name in needed),
        _rule("!has(self.tombstone) || self.desired == 'Stopped'", "a tombstone wants Stopped", path=".desired"),
        _rule(
            "has(self.tombstone) || !has(self.class) || (self.class == 'gpu') == has(self.gpu)",
            "class gpu needs gpu, class cpu has none",
            path=".class",
        ),
        _rule(
            "!has(self.gpu) || !has(self.privileged) || !self.privileged",
            "a privileged session has no gpu",
            path=".privileged",
        ),
        _rule(
            "!has(self.access) || self.access.tokenSecret == 's-' + self.sessionId.replace('-', '') + '-access'",
            "must be the session's own secret",
            path=".access.tokenSecret",
        ),
        _rule(f"self == oldSelf || {_ORDER_GROWS} || ({_ENDS_WHAT_IS_KNOWN})", FENCE, path=".generation"),
    ]
    return schema


def _status_of_session() -> Schema:
    schema = structural(SessionStatus)
    conditions = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    schema["properties"]["conditions"] |= conditions
    return schema


def _needed(name: str) -> Schema:
    rule = _rule(f"has(self.tombstone) || has(self.{name})", "required unless nothing is wanted", path=f".{name}")
    return rule | {"reason": "FieldValueRequired"}


def _rule(rule: str, message: str, *, path: str = "") -> Schema:
    return {"rule": rule, "message": message} | ({"fieldPath": path} if path else {})


def _column(name: str, path: str, *, kind: str = "string", wide: bool = False) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": 1} if wide else {})


def _object(**parts: Schema) -> Schema:
    return {"type": "object", "required": ["spec"], "properties": parts}


def _definition(kind: str, plural: str, short: str, schema: Schema, columns: list[Schema]) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{API_GROUP}"},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                "categories": ["gshare"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


# From a model to a structural schema -----------------------------------------------------------------------------------

_KEPT = (
    "type",
    "description",
    "enum",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "required",
)
_INLINE_MAX = 64  # the length of what is bounded by its enumeration or format


def structural(model: type[BaseModel]) -> Schema:
    """The model's schema without references, unions and nulls, every number and text bounded, as Kubernetes demands it."""
    whole = model.model_json_schema(by_alias=True)
    return _structural(whole, whole.get("$defs", {}))


def _structural(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Schema:
    schema = _resolved(schema, known)
    plain = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in plain:
        plain["description"] = " ".join(plain["description"].split())
    if "const" in schema:
        plain["enum"] = [schema["const"]]
    kind = plain.get("type")
    if kind == "integer":
        plain |= _bounds(schema)
    if kind == "string" and "maxLength" not in plain:
        plain["maxLength"] = _longest(schema)
    if kind == "object":
        plain["properties"] = {name: _structural(part, known) for name, part in schema["properties"].items()}
    if kind == "array":
        plain["items"] = _structural(schema["items"], known)
    return plain


def _resolved(schema: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema that a reference or a choice between something and null stands for."""
    if "anyOf" in schema:
        (schema,) = (each for each in schema["anyOf"] if each.get("type") != "null")
    if "$ref" in schema:
        return _resolved(known[schema["$ref"].rsplit("/", 1)[1]], known)
    return schema


def _bounds(schema: Mapping[str, Any]) -> Schema:
    """Bounds of a number; those beyond 32 bits are left to `int64`, since a schema's numbers are floats."""
    bounds = {key: schema[key] for key in ("minimum", "maximum") if key in schema and schema[key] <= SMALL_MAX}
    return {"format": "int64"} | bounds


def _longest(schema: Mapping[str, Any]) -> int:
    """Texts without a bound of their own are enumerations, UUIDs, times, or names that their pattern bounds."""
    if "enum" in schema or "const" in schema or "format" in schema:
        return _INLINE_MAX
    return 253
