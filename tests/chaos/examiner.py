"""Looks at the demo's database from a process of its own: `python -m tests.chaos.examiner`, a question a line.

`["prepare"]` adds an image that has a terminal only and answers its id; `["examine", SESSION …]` answers what does not agree
(`tests.recount`, `manage.py reconcile --check`, deadlines that have passed) and how each run of the sessions was billed. All of
it is one snapshot, so that sessions that go on meanwhile make no false differences. The process stays: loading Django takes
longer than looking.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from types import TracebackType
from typing import Any

import django

from tests.e2e.running import ROOT, Demo
from tests.waiting import until

# A sweep acts on a deadline within its period; killed processes and a database in recovery take their time.
LATE = timedelta(seconds=90)


class Examiner:
    """The process, from the side of the tests. Started at the first question, and anew after a failed one."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Examiner:
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._end()

    def prepare(self) -> str:
        """Make the image; answers its id."""
        return str(self._ask("prepare"))

    def examine(self, *sessions: str) -> dict[str, Any]:
        """`{"disagreements": [...], "runs": [...], "paid": …}`."""
        found: dict[str, Any] = self._ask("examine", *sessions)
        return found

    def _ask(self, *question: str) -> Any:
        """Repeated while the demo's database is being started again."""
        told: list[str] = []

        def answered() -> tuple[Any] | None:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            answer = json.loads(line) if line else {"failed": "the examiner ended"}
            if "failed" not in answer:
                return (answer["found"],)
            told.append(answer["failed"])
            self._end()
            return None

        try:
            found = until(answered, within=90, what="the examiner")
        except AssertionError as failed:
            raise AssertionError(told[-1]) from failed
        assert found is not None
        return found[0]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.examiner"],
                cwd=ROOT,
                env=self._demo.environment | {"DJANGO_SETTINGS_MODULE": "gshare_site.settings"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


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


def _examine(sessions: list[str]) -> dict[str, Any]:
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
    return {"disagreements": [*disagreements(), *_recount(), *_overdue()], "runs": runs, "paid": charges_of(sessions)}


def _recount() -> list[str]:
    """What `manage.py reconcile --check` complains about."""
    from django.core.management import CommandError, call_command

    told = StringIO()
    try:
        call_command("reconcile", check=True, stdout=StringIO(), stderr=told)
    except CommandError:
        return told.getvalue().splitlines()
    return []


def _overdue() -> list[str]:
    """Sessions that hang in a transient state past their deadline."""
    from gshare_core.kit import clock
    from sessions_app.models import Session

    late = Session.objects.filter(deadline_at__lt=clock.now() - LATE)
    return [f"session {one.pk} is {one.state}, its deadline was {one.deadline_at}" for one in late]


def _answer(what: str, *sessions: str) -> Any:
    from django.db import connection, transaction

    if what == "prepare":
        return _prepare()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return _examine(list(sessions))


def main() -> None:
    django.setup()
    for line in sys.stdin:
        try:
            answer = {"found": _answer(*json.loads(line))}
        except Exception as error:  # noqa: BLE001 -- told to whoever asked, who asks again
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    assert os.environ.get("GSHARE_HOME"), "run by the tests, in the demo's environment"
    main()
