"""Looks at the demo's database from a process of its own: `python -m tests.chaos.examiner prepare|examine [SESSION …]`.

`prepare` adds an image that has a terminal only and prints its id; `examine` prints as JSON what does not agree (see
`tests.recount`) and how each run of the named sessions was billed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import django

from tests.e2e.conftest import ROOT, Demo, environment
from tests.waiting import until


def prepare(demo: Demo) -> str:
    """Make the image; answers its id."""
    return _run(demo, "prepare").strip()


def examine(demo: Demo, *sessions: str) -> dict[str, Any]:
    """`{"disagreements": [...], "runs": [...]}`."""
    found: dict[str, Any] = json.loads(_run(demo, "examine", *sessions))
    return found


def _run(demo: Demo, *arguments: str) -> str:
    """In the demo's environment; repeated while its database is being started again."""
    env = environment(demo.home, demo.port) | {"DJANGO_SETTINGS_MODULE": "gshare_site.settings"}
    command = [sys.executable, "-m", "tests.chaos.examiner", *arguments]
    told: list[str] = []

    def done() -> subprocess.CompletedProcess[str] | None:
        ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        told.append(ended.stderr)
        return ended if ended.returncode == 0 else None

    try:
        ended = until(done, within=60, what="the examiner")
    except AssertionError as failed:
        raise AssertionError(told[-1]) from failed
    assert ended is not None
    return ended.stdout


def _prepare() -> str:
    from catalog.models import Image

    image, _made = Image.objects.get_or_create(
        name="Terminal only",
        defaults={
            "reference": f"registry.gshare.internal/sessions/terminal@sha256:{'0' * 64}",
            "cuda": "12.8",
            "apps": ["terminal"],
        },
    )
    return str(image.pk)


def _examine(sessions: list[str]) -> str:
    from billing.models import Meter, MeterInterval
    from sessions_app.models import Run, TimelineEntry
    from tests.recount import charges_of, disagreements

    runs = []
    for run in Run.objects.filter(session_id__in=sessions).select_related("session").order_by("session_id", "number"):
        meter = Meter.objects.filter(pk=run.pk).first()
        rows = TimelineEntry.objects.filter(session_id=run.session_id, run=run.number)
        intervals = MeterInterval.objects.filter(meter_id=run.pk)
        runs.append(
            {
                "session": str(run.session_id),
                "run": run.number,
                "rate": run.rate_micro_per_hour,
                "occupancy": [run.session.occupancy_numerator, run.session.occupancy_denominator],
                "charged": meter.charged if meter else 0,
                "settled": bool(meter and meter.settled_at),
                "intervals": [[x.starts_at.isoformat(), x.ends_at and x.ends_at.isoformat()] for x in intervals],
                "settlements": rows.exclude(billed_from=None).count(),
                "end_asked_at": run.end_asked_at and run.end_asked_at.isoformat(),
            }
        )
    return json.dumps({"disagreements": list(disagreements()), "runs": runs, "paid": charges_of(sessions)})


def main(what: str, *sessions: str) -> None:
    django.setup()
    print(_prepare() if what == "prepare" else _examine(list(sessions)))


if __name__ == "__main__":
    assert os.environ.get("GSHARE_HOME"), "run by the tests, in the demo's environment"
    main(*sys.argv[1:])
