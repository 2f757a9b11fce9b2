"""The wallet and its ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace as Record
from typing import Any

from gshare_core.kit.pictures import Mark, Point, Series
from tests.web.samples.story import NOW, at, cr, spend_bars


def wallet(*, empty: bool = False) -> dict[str, Any]:
    """The wallet in mid-October; `empty`: somebody new."""
    month = datetime(2026, 9, 30, 15, 0, tzinfo=UTC)
    fall = [600, 592, 592, 560, 560, 560, 536, 502, 474, 452, 440, 436, 408, 380]
    points = [
        Point(month + timedelta(days=i, hours=hour), float(value), f"{value}.00 cr")
        for i, value in enumerate(fall)
        for hour in (0, 9, 18)
    ]
    points += [
        Point(NOW - timedelta(hours=3), 380.0, "380.00 cr"),
        Point(NOW - timedelta(hours=2, minutes=37), 478.75, "478.75 cr"),
        Point(NOW, 460.0, "460.00 cr"),
    ]
    balance = Series(
        name="Balance",
        note="October",
        points=points,
        start=month,
        end=month + timedelta(days=18),
        top=600,
        unit="cr",
        levels=((600, "600 cr"), (400, "400"), (200, "200"), (0, "0")),
        days=True,
        marks=[
            Mark(NOW, 460.0, "460.00 cr", strong=True),
            Mark(NOW - timedelta(hours=2, minutes=37), 515.0, "+100.00 cr from Vision Lab", "end"),
            Mark(NOW + timedelta(hours=15.5), 210.0, "Thu 08:14", strong=True),
            Mark(month + timedelta(days=18), 130.0, "held 168.75 cr", "end"),
        ],
        now_text="460.00",
        of_text="cr",
        limit=168.75,
        ticks=[
            (month + timedelta(days=d), t)
            for d, t in [(0, "1 Oct"), (3, "4"), (6, "7"), (9, "10"), (12, "13"), (15, "16")]
        ],
        forecast=[Point(NOW, 460.0), Point(NOW + timedelta(hours=15.5), 168.75)],
    )
    entries = [
        ("Today", 16, 40, 0, "charge", "vit-ft", "run 2", "-6.25", "460.00"),
        ("", 16, 10, 0, "charge", "vit-ft", "run 2", "-6.25", "466.25"),
        ("", 15, 40, 0, "charge", "vit-ft", "run 2", "-6.25", "472.50"),
        ("", 14, 5, 0, "allocate", "Vision Lab", "your request, ablation week", "100.00", "478.75"),
        ("", 11, 52, 0, "charge", "notebook", "run 4", "-0.37", "378.75"),
        ("", 11, 30, 0, "charge", "notebook", "run 4", "-0.50", "379.12"),
        ("Yesterday", 16, 9, -1, "charge", "vit-ft", "run 1", "-2.08", "380.12"),
        ("", 15, 59, -1, "charge", "vit-ft", "run 1", "-6.25", "382.20"),
        ("Mon 12 Oct", 18, 40, -2, "charge", "llm-base", "run 6", "-3.60", "407.20"),
    ]
    ledger = [
        Record(
            id=str(i),
            at=at(h, m, days=d),
            day=day,
            kind=kind,
            kind_text=kind,
            direction="out" if amount.startswith("-") else "in",
            with_name=who,
            with_url="/sessions/1/" if kind == "charge" else "",
            mono=kind == "charge",
            note=note,
            amount_micro=-cr(amount[1:]) if amount.startswith("-") else cr(amount),
            balance_micro=cr(left),
        )
        for i, (day, h, m, d, kind, who, note, amount, left) in enumerate(entries)
    ]
    context: dict[str, Any] = {
        "now": NOW,
        "versions": Record(wallet=12),
        "may_request": True,
        "any": True,
        "wallet": Record(
            id="w1",
            balance_micro=cr("460"),
            held_micro=cr("168.75"),
            available_micro=cr("291.25"),
            accrued_micro=cr("0.42"),
            lasts_until=at(8, 14, days=1),
            held_note="for 2 running, 3 waiting",
            next_grant=Record(micro=cr("600"), note="1 Nov, from Vision Lab"),
        ),
        "balance": balance,
        "ranges": [
            Record(name="7 days", url="?range=7d", current=False),
            Record(name="Month", url="?range=month", current=True),
            Record(name="Year", url="?range=year", current=False),
        ],
        "spend": spend_bars(),
        "spend_slots": 18,
        "spend_note": "17.17 cr a day on average",
        "spend_top": 40.0,
        "spend_levels": [("0%", "40 cr"), ("50%", "20"), ("100%", "0")],
        "spend_ticks": [
            ("2.8%", "1 Oct"),
            ("19.4%", "4"),
            ("36.1%", "7"),
            ("52.8%", "10"),
            ("69.4%", "13"),
            ("86.1%", "16"),
        ],
        "holds": [
            Record(state=s, name=n, url="/sessions/1/", covers=c, micro=cr(m))
            for s, n, c, m in [
                ("running", "vit-ft", "until 17:40", "12.50"),
                ("starting", "seg-sweep", "60 min", "6.25"),
                ("queued", "seg-xl", "60 min", "25.00"),
                ("queued", "night-run", "60 min", "15.00"),
                ("queued", "llm-eval", "60 min", "110.00"),
            ]
        ],
        "spent": Record(
            title="Spent, 1 to 14 Oct",
            most_micro=cr("71.30"),
            all_text="All, 17.17 a day",
            all_micro=cr("240.42"),
            rows=[
                Record(name=n, url="/sessions/1/", micro=cr(m))
                for n, m in [
                    ("llm-base", "71.30"),
                    ("detr-aug", "52.40"),
                    ("vit-ft", "46.25"),
                    ("notebook", "38.12"),
                    ("mask-test", "32.35"),
                ]
            ],
        ),
        "ledger": ledger,
        "entries_text": "64 entries",
        "csv_url": "/wallet/?format=csv",
        "older_url": "?cursor=x",
        "newer_url": "",
        "filters": Record(
            q="",
            kinds=[("", "All kinds", True), ("charge", "charge", False), ("allocate", "allocate", False)],
            months=[("2026-10", "October", True)],
            sessions=[("", "Any session", True), ("1", "vit-ft", False)],
        ),
    }
    if empty:
        context |= {
            "balance": None,
            "spend": [],
            "holds": [],
            "spent": None,
            "ledger": [],
            "entries_text": "",
            "csv_url": "",
            "older_url": "",
            "any": False,
        }
        context["wallet"] = Record(
            id="w1",
            balance_micro=0,
            held_micro=0,
            available_micro=0,
            accrued_micro=0,
            lasts_until=None,
            held_note="",
            next_grant=None,
        )
    return context
