"""`docs/session-images.md` says what a container gets: exactly what the operator gives it."""

from __future__ import annotations

import re
from pathlib import Path

from gshare_core.contract import App
from tests.unit.operator.build import gpu, spec
from tests.unit.operator.objects import container_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "session-images.md"
APPS = (App(name="lab", port=8888), App(name="terminal", port=7681), App(name="code", port=8080))
HAMIS = {"NVIDIA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL"}  # between HAMi and the runtime, nothing for an image


def test_the_page_names_every_variable_of_the_container_and_no_other() -> None:
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    given = {entry["name"] for entry in container_of(spec(apps=APPS, gpu=gpu()))["env"]}
    assert told == given - HAMIS
