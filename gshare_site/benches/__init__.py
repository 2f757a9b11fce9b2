"""Benches: one module a subject, found by name, run by `manage.py bench`.

A module in this package that has `HELP`, `add_arguments(parser)` and `run(options)` is a bench: `run` yields `Figure`s and
raises `WrongAnswer` when what it timed was wrong. Guarantees: every figure says what was verified; bars are compared
here, in one place. Refuses to hide a wrong answer behind a good time.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, cast


class WrongAnswer(Exception):
    """What a bench measured was not correct: no figure counts."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `bar` is the floor (or ceiling) it must reach, None when it is only reported."""

    name: str
    value: float
    unit: str
    verified: str
    bar: float | None = None
    better: Literal["more", "less"] = "more"
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def meets_bar(self) -> bool:
        """Whether the bar is reached; a figure without a bar always does."""
        if self.bar is None:
            return True
        return self.value >= self.bar if self.better == "more" else self.value <= self.bar

    def as_dict(self) -> dict[str, Any]:
        """The figure as one JSON line says it."""
        return {
            "figure": self.name,
            "value": round(self.value, 6),
            "unit": self.unit,
            "bar": self.bar,
            "better": self.better,
            "meets_bar": self.meets_bar,
            "verified": self.verified,
            **self.facts,
        }

    def as_text(self) -> str:
        """The figure as one line for people."""
        bar = ""
        if self.bar is not None:
            sign = "≥" if self.better == "more" else "≤"
            bar = f"  (bar {sign} {self.bar:g}: {'met' if self.meets_bar else 'MISSED'})"
        return f"{self.name:<52} {self.value:>12,.3f} {self.unit}{bar}"


class Bench(Protocol):
    """What a module of this package offers."""

    HELP: str

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the bench's own options."""

    def run(self, options: Mapping[str, Any]) -> Iterator[Figure]:
        """Measure; raises WrongAnswer when a result was wrong and ValueError when options do not suffice."""


def benches() -> dict[str, Bench]:
    """Every bench by name, in the order of the names."""
    found: dict[str, Bench] = {}
    for module in pkgutil.iter_modules(__path__):
        loaded = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(loaded, "HELP") and hasattr(loaded, "run"):
            found[module.name] = cast("Bench", loaded)
    return dict(sorted(found.items()))


def machine() -> dict[str, Any]:
    """What the figures were measured on, and how busy it was."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that `percent` per cent of the values do not exceed (nearest rank)."""
    ranked = sorted(values)
    if not ranked:
        raise ValueError("no values")
    return ranked[max(0, -(-len(ranked) * percent // 100).__int__() - 1)]
