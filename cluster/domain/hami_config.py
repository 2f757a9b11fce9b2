"""HAMi's settings of single nodes: the ConfigMap `hami-device-plugin`, key `config.json`, list `nodeconfig`.

The device plugin reads its node's entry when it starts: `operatingmode` is ``hami-core``, ``mig`` or ``mps``; what an entry does
not say is as the chart set it for all nodes (HAMi 2.10, `charts/hami/templates/device-plugin/configmap.yaml`).
Guarantees: only the mode of one node changes; everything else, known or not, stays as it was written. Pure.
Refuses: what cannot be read, rather than writing it anew.
"""

from __future__ import annotations

import json
from typing import Any

CONFIG_MAP = "hami-device-plugin"
CONFIG_KEY = "config.json"
_NODES, _NAME, _MODE = "nodeconfig", "name", "operatingmode"


def operating_mode(text: str | None, node: str) -> str:
    """The mode that is set for the node; empty where none is. Raises ValueError when it cannot be read."""
    entry = _entry(_read(text), node)
    mode = (entry or {}).get(_MODE) or ""
    if not isinstance(mode, str):
        raise ValueError(f"{_MODE} of node {node} is no text")  # noqa: TRY004 (bad input, whatever its type)
    return mode


def with_mode(text: str | None, node: str, mode: str) -> str:
    """The settings with the node's mode set. Raises ValueError when they cannot be read."""
    whole = _read(text)
    entry = _entry(whole, node)
    if entry is None:
        entry = {_NAME: node}
        whole.setdefault(_NODES, []).append(entry)
    entry[_MODE] = mode
    return json.dumps(whole, indent=2) + "\n"


def _read(text: str | None) -> dict[str, Any]:
    if text is None or not text.strip():
        return {}
    try:
        whole = json.loads(text)
    except ValueError:
        raise ValueError(f"{CONFIG_KEY} is no JSON") from None
    if not isinstance(whole, dict):
        raise ValueError(f"{CONFIG_KEY} is no object")  # noqa: TRY004 (bad input, whatever its type)
    entries = whole.get(_NODES)
    if entries is None:
        whole.pop(_NODES, None)
    elif not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError(f"{_NODES} is no list of objects")
    return whole


def _entry(whole: dict[str, Any], node: str) -> dict[str, Any] | None:
    found = [entry for entry in whole.get(_NODES, ()) if entry.get(_NAME) == node]
    if len(found) > 1:
        raise ValueError(f"node {node} is there {len(found)} times")
    return found[0] if found else None
