"""What every page of the story shares: alice of Vision Lab, Wed 14 Oct 2026, 16:42 in Seoul."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace as Record
from typing import Any

from gshare_core.kit.pictures import Bar, CardPart, CardPicture, Point, Series

NOW = datetime(2026, 10, 14, 7, 42, tzinfo=UTC)


ZONE = "Asia/Seoul"


CREDIT = 1_000_000


SIZES = {"XL": Fraction(1, 2), "L": Fraction(1, 4), "M": Fraction(1, 8), "S": Fraction(1, 16), "1": Fraction(1)}


def cr(text: str) -> int:
    """Micro-credits of a decimal string."""
    whole, _, part = text.partition(".")
    return int(whole) * CREDIT + int(part.ljust(6, "0") or 0)


def at(hour: int, minute: int, *, days: int = 0) -> datetime:
    """A time of the story's day in Seoul."""
    return datetime(2026, 10, 14, hour, minute, tzinfo=UTC) - timedelta(hours=9) + timedelta(days=days)


def strip(
    sizes: str, *, mine: str = "", look: str = "ready", held: str = "", node: str = "", index: int = 0
) -> CardPicture:
    """A card as members see it: sizes in order (``-L`` is a gap), `mine` the places that are one's own."""
    parts: list[CardPart] = []
    start = Fraction(0)
    for place, size in enumerate(sizes.split()):
        share = SIZES[size.lstrip("-")]
        if not size.startswith("-"):
            parts.append(CardPart(start, share, "mine" if str(place) in mine.split() else "other"))
        start += share
    if held:
        parts.append(CardPart(start, SIZES[held], "held"))
    return CardPicture(parts, look=look, node=node, index=index)


A100 = [
    strip("L L XL", mine="0", node="gpu-01", index=0),
    strip("XL M", node="gpu-01", index=1),
    strip("XL L M M", node="gpu-01", index=2),
    strip("XL M", mine="1", node="gpu-01", index=3),
    strip("1", node="gpu-01", index=4),
    strip("L L L", node="gpu-01", index=5),
    strip("XL L", node="gpu-01", index=6),
    strip("M M L L", node="gpu-01", index=7),
    strip("1", node="gpu-02", index=0),
    strip("1", node="gpu-02", index=1),
    strip("XL L M", node="gpu-02", index=2),
    strip("XL M", node="gpu-02", index=3),
    strip("L M", look="draining", node="gpu-02", index=4),
    strip("L L L", held="L", node="gpu-02", index=5),
    strip("XL L M", node="gpu-02", index=6),
    strip("L -L L", node="gpu-02", index=7),
]


H100 = [
    strip(sizes, node="gpu-03", index=i)
    for i, sizes in enumerate(["1", "1", "1", "1", "L XL L", "XL XL", "1", "L L L L"])
]


T4 = [
    strip("M M M M M M M M", node="gpu-04", index=0),
    strip("M M M M M", node="gpu-04", index=1),
    strip("L L", node="gpu-04", index=2),
    strip("", node="gpu-04", index=3),
    strip("L M", look="silent", node="gpu-05", index=0),
    strip("L", look="silent", node="gpu-05", index=1),
    strip("", look="silent", node="gpu-05", index=2),
    strip("", look="silent", node="gpu-05", index=3),
]


KEYS = [
    ("mine", "yours"),
    ("other", "in use"),
    ("free", "free"),
    ("held", "held for seg-xl"),
    ("draining", "draining"),
    ("silent", "cluster silent"),
]


def wave(base: float, swing: float, count: int, *, quiet: int = 0, step: int = 60, dips: int = 0) -> list[Point]:
    """A plausible measured series that ends now: pseudo-noise without chance, optional dips, a quiet tail."""
    points = []
    for i in range(count):
        noise = ((i * 7919) % 101) / 101 - 0.5
        value = max(0.0, base + swing * (0.5 + 0.42 * math.sin(i / 5.3) * math.cos(i / 13.7) + 0.16 * noise))
        if dips and i % dips == dips // 2:
            value *= 0.3
        if i >= count - quiet:
            value = 0.0
        moment = NOW - timedelta(seconds=step * (count - 1 - i))
        points.append(Point(moment, round(value, 1), f"{value:.1f}"))
    return points


def series(name: str, points: list[Point], top: float, **more: Any) -> Series:
    """A series over its own points."""
    return Series(name=name, points=points, start=points[0].at, end=points[-1].at, top=top, **more)


def user_shell(**changes: Any) -> Record:
    """What the frame around every page shows."""
    shell = Record(
        user=Record(email="alice@vision.example", name="Alice Kim", initial="A"),
        organisation="Engineering",
        group="Vision Lab",
        groups=[
            Record(name="Vision Lab", organisation="Engineering", url="?group=1", current=True),
            Record(name="Language Lab", organisation="Engineering", url="?group=2", current=False),
        ],
        wallet=Record(available_micro=cr("291.25"), lasts_until=at(8, 14, days=1)),
        counts=Record(sessions=3, queue=3, notifications=3),
        admin=True,
        time_zone=ZONE,
        now=NOW,
    )
    vars(shell).update(changes)
    return shell


APPS = [
    Record(name="lab", word="JupyterLab"),
    Record(name="code", word="VS Code"),
    Record(name="terminal", word="Terminal"),
]


NOTHING_NEXT = Record(icon="", lead="", text="", at=None)


def row(name: str, state: str, share: Fraction | None, offering: str, rate: str, **more: Any) -> Record:
    """A session as a row."""
    base: dict[str, Any] = {
        "id": f"0197f3c2-a1b2-7c4e-9d10-{abs(hash(name)) % 10**12:012d}",
        "url": "/sessions/1/",
        "name": name,
        "state": state,
        "share": share,
        "cards": 1,
        "offering": offering,
        "node": "gpu-01",
        "rate_micro_per_hour": cr(rate),
        "free_now": "",
        "cost_micro": None,
        "use": None,
        "use_text": "",
        "next": NOTHING_NEXT,
        "act": "",
        "apps": APPS,
        "version": 3,
    }
    return Record(**(base | more))


def rows() -> list[Record]:
    """Alice's sessions, one of each kind of situation."""
    gpu = series("GPU", wave(86, 10, 60, quiet=21, step=5, dips=17), 100)
    cpu = series("CPU", wave(20, 60, 60, step=5), 100)
    return [
        row(
            "vit-ft",
            "running",
            SIZES["L"],
            "A100 80GB",
            "12.50",
            cost_micro=cr("46.25"),
            use=gpu,
            use_text="GPU 0 %",
            next=Record(icon="idle", lead="", text="idle, pauses in", at=at(17, 20)),
            act="open",
        ),
        row(
            "prep-data",
            "running",
            None,
            "",
            "0.00",
            cost_micro=0,
            use=cpu,
            use_text="CPU 41 %",
            next=Record(icon="", lead="", text="busy", at=None),
            act="open",
        ),
        row(
            "seg-sweep",
            "starting",
            SIZES["M"],
            "A100 80GB",
            "6.25",
            cost_micro=0,
            next=Record(icon="", lead="", text="pulling the image, 64 %", at=None),
            act="stop",
        ),
        row(
            "seg-xl",
            "queued",
            SIZES["XL"],
            "A100 80GB",
            "25.00",
            node="",
            next=Record(icon="", lead="1st", text="about 17:20", at=None),
            act="cancel",
        ),
        row(
            "night-run",
            "queued",
            SIZES["1"],
            "A100 80GB",
            "15.00",
            node="",
            next=Record(icon="", lead="2nd", text="passed over: group limit", at=None),
            act="cancel",
        ),
        row(
            "llm-eval",
            "queued",
            SIZES["1"],
            "H100 80GB",
            "110.00",
            node="",
            next=Record(icon="", lead="3rd", text="about 17:00", at=None),
            act="cancel",
        ),
        row(
            "notebook",
            "paused",
            SIZES["M"],
            "T4 16GB",
            "1.00",
            free_now="free while paused",
            cost_micro=cr("38.12"),
            node="",
            next=Record(icon="", lead="", text="since 11:52, was idle", at=None),
            act="resume",
        ),
    ]


def limits() -> list[Record]:
    """Alice's limits with use."""
    return [
        Record(
            name=name, value=value, limit=limit, value_text=value_text, limit_text=limit_text, tone="", scope_text=scope
        )
        for name, value, limit, value_text, limit_text, scope in [
            ("Sessions", 3, 4, "3", "4", "the group Vision Lab"),
            ("GPU memory", 299, 2560, "29.9", "256 GiB", "the group Vision Lab"),
            ("Whole cards", 0, 2, "0", "2", "the organisation Engineering"),
            ("CPU", 28, 48, "28", "48 cores", "the general policy"),
            ("Waiting", 3, 4, "3", "4", "the general policy"),
            ("Storage", 312, 500, "312", "500 GiB", "an administrator, for you alone"),
        ]
    ]


SPEND = ["9.4", "31.1", "0.4", "0.4", "22.7", "36.0", "30.4", "18.7", "12.6", "3.1", "0.5", "28.2", "26.8", "20.54"]


def spend_bars() -> list[Bar]:
    """Spend per day, today last."""
    return [Bar(f"{i + 1} Oct", float(text), f"{text} cr", current=i == 13) for i, text in enumerate(SPEND)]


def offerings() -> list[Record]:
    """What is free, per offering."""
    half, quarter, eighth, sixteenth = SIZES["XL"], SIZES["L"], SIZES["M"], SIZES["S"]
    return [
        Record(
            name="A100 80GB",
            rate_micro_per_hour=cr("50"),
            cards=A100,
            waiting=2,
            words="16 cards: 7 quarters are free",
            free=[("Whole", 0), (half, 0), (quarter, 7), (eighth, 18), (sixteenth, None)],
        ),
        Record(
            name="H100 80GB",
            rate_micro_per_hour=cr("110"),
            cards=H100,
            waiting=3,
            words="8 cards: nothing is free",
            free=[("Whole", 0), (half, 0), (quarter, 0), (eighth, 0), (sixteenth, 0)],
        ),
        Record(
            name="T4 16GB",
            rate_micro_per_hour=cr("8"),
            cards=T4,
            waiting=0,
            words="8 cards: 7 quarters are free",
            free=[("Whole", 1), (half, 3), (quarter, 7), (eighth, 15), (sixteenth, None)],
        ),
    ]
