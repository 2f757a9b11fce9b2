"""One session in each of its situations."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace as Record
from typing import Any

from gshare_core.kit.pictures import CardPart, CardPicture, Point, Series, Zone
from tests.web.samples.story import APPS, NOW, SIZES, at, cr, series, wave


def _charts() -> list[Series]:
    start = NOW - timedelta(minutes=60)
    idle = (Zone(at(16, 35), NOW),)
    ticks = [(start, "15:42"), (at(15, 57), "15:57"), (at(16, 12), "16:12"), (at(16, 27), "16:27"), (NOW, "now")]
    gpu = wave(84, 14, 61, quiet=7, dips=12)
    cpu = wave(30, 34, 61)
    cpu[-7:] = [Point(p.at, 2.1, "2.1") for p in cpu[-7:]]
    vram = [
        Point(p.at, round(13.8 + min(i, 22) * 0.064, 1), f"{13.8 + min(i, 22) * 0.064:.1f}") for i, p in enumerate(gpu)
    ]
    memory = [Point(p.at, round(18.2 + i * 0.045, 1), f"{18.2 + i * 0.045:.1f}") for i, p in enumerate(gpu)]
    return [
        series(
            "GPU",
            gpu,
            100,
            unit="%",
            levels=((100, "100 %"), (50, "50"), (0, "0")),
            now_text="0 %",
            of_text="of the own slice",
            zones=idle,
            ticks=ticks,
        ),
        series(
            "GPU memory",
            vram,
            20,
            unit="GiB",
            levels=((20, "20 GiB"), (10, "10"), (0, "0")),
            now_text="15.2 GiB",
            of_text="of 19.9",
            limit=19.9,
            zones=idle,
            ticks=ticks,
        ),
        series(
            "CPU",
            cpu,
            100,
            unit="%",
            levels=((100, "100 %"), (50, "50"), (0, "0")),
            now_text="2.1 %",
            of_text="of 8 cores",
            zones=idle,
            ticks=ticks,
        ),
        series(
            "Memory",
            memory,
            32,
            unit="GiB",
            levels=((32, "32 GiB"), (16, "16"), (0, "0")),
            now_text="20.9 GiB",
            of_text="of 32",
            limit=32,
            zones=idle,
            ticks=ticks,
        ),
    ]


def session_detail() -> dict[str, Any]:
    """vit-ft, running and idle."""

    def event(
        moment: datetime,
        day: str,
        state: str | None,
        text: str,
        *,
        by: str = "",
        charged: str = "",
        held: str = "",
        rule: bool = False,
    ) -> Record:
        return Record(
            at=moment,
            day=day,
            state=state,
            text=text,
            by=by,
            charged_micro=cr(charged) if charged else None,
            held_micro=cr(held) if held else None,
            rule=rule,
        )

    y = -1
    return {
        "now": NOW,
        "session": Record(
            id="019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0",
            name="vit-ft",
            url="/sessions/1/",
            state="running",
            running_text="1 h 32 min, run 2",
            version=17,
            reason_text="",
            allowed=["pause", "restart", "stop", "keep-alive", "access"],
            apps=APPS,
            stop_word="Stop",
        ),
        "figures": [
            Record(name="Rate", micro=cr("12.50"), per="h", at=None, text="", note=""),
            Record(name="This run", micro=cr("19.17"), per="", at=None, text="", note=""),
            Record(name="Both runs", micro=cr("46.25"), per="", at=None, text="", note=""),
            Record(name="Held", micro=cr("12.50"), per="", at=None, text="", note=""),
            Record(name="Money lasts until", micro=None, per="", at=at(8, 14, days=1), text="", note=""),
        ],
        "news": None,
        "wakes": None,
        "wait": None,
        "awake": None,
        "was_idle": [],
        "idle": Record(
            since=at(16, 35),
            pause_at=at(17, 20),
            warnings=[at(17, 5), at(17, 15)],
            keep_alive_until=at(18, 42),
            kept_until=None,
            evidence=[
                Record(name="Last GPU kernel", value="16:35:12", text="7 min ago", icon="check"),
                Record(name="GPU in own slice", value="0 %", text="quiet below 1 %", icon="check"),
                Record(name="CPU, mean", value="2.1 %", text="quiet below 5 % of 8 cores", icon="check"),
                Record(name="JupyterLab", value="16:31:40", text="last activity 11 min ago", icon="check"),
            ],
        ),
        "place": Record(
            node="gpu-01",
            index=0,
            note="A100 80GB, card full",
            words="The thick line at the foot of your part is memory in use: 15.2 of 19.9 GiB.",
            card=CardPicture(
                [
                    CardPart(Fraction(0), SIZES["L"], "mine", "vit-ft", used=Fraction(3, 4)),
                    CardPart(Fraction(1, 4), SIZES["L"], "other"),
                    CardPart(Fraction(1, 2), SIZES["XL"], "other"),
                ],
                node="gpu-01",
                index=0,
            ),
        ),
        "setup": [
            Record(name="Size", text="L, 19.9 GiB, 25 %", id=""),
            Record(name="Host", text="8 cores, 32 GiB memory", id=""),
            Record(name="Scratch", text="50 GiB", id=""),
            Record(name="Image", text="PyTorch 2.9, CUDA 12.8", id=""),
            Record(
                name="Digest", text="", id="sha256:9f3c0b1d2e3f405162738495a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d71be"
            ),
            Record(name="Card", text="", id="GPU-5d1e7a90-31c4-4b0e-9f55-2a6c7c1b0c42"),
            Record(name="Session", text="", id="019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0"),
            Record(name="Group", text="Vision Lab", id=""),
            Record(name="Pause", text="cold", id=""),
            Record(name="Longest run", text="24 h, until Thu 15:10", id=""),
        ],
        "volumes": [
            Record(
                path="/home/work",
                mode_text="read and write",
                name="home",
                used=212,
                size=300,
                use_text="212 of 300 GiB",
            ),
            Record(
                path="/data/imagenet",
                mode_text="read only",
                name="imagenet-1k",
                used=148,
                size=160,
                use_text="148 of 160 GiB",
            ),
        ],
        "charts": _charts(),
        "ranges": [
            Record(name="5 min", url="?range=5m", current=False),
            Record(name="1 h", url="?range=1h", current=True),
            Record(name="Run", url="?range=run", current=False),
        ],
        "live_text": "live, 1 s",
        "timeline": [
            event(at(16, 40), "Wed 14 Oct", None, "Hold topped up", charged="6.25", held="12.50"),
            event(at(16, 10), "", None, "Hold topped up", charged="6.25", held="12.50"),
            event(at(15, 40), "", None, "Hold topped up", charged="6.25", held="12.50"),
            event(at(15, 10), "", "running", "on gpu-01, card 0"),
            event(at(15, 8), "", "starting", "resumed", by="alice", held="12.50"),
            event(at(16, 9, days=y), "Tue 13 Oct", "paused", "idle for 45 min", charged="2.08", held="0.00", rule=True),
            event(at(15, 59, days=y), "", None, "Hold topped up, 4 times", charged="25.00", held="12.50"),
            event(at(13, 59, days=y), "", "running", "on gpu-02, card 3"),
            event(at(13, 58, days=y), "", "starting", "created", by="alice", held="12.50"),
        ],
        "total": Record(
            text="Charged 45.83 cr, and 0.42 cr since 16:40", charged_micro=cr("46.25"), held_micro=cr("12.50")
        ),
        "older_url": "",
        "logs_url": "/sessions/1/logs/",
        "summary": None,
    }


def session_queued() -> dict[str, Any]:
    """seg-xl, waiting."""
    context = session_detail()
    session = context["session"]
    session.name, session.state, session.allowed, session.running_text = (
        "seg-xl",
        "queued",
        ["stop"],
        "waiting 14 min, run 1",
    )
    session.reason_text, session.stop_word = "It opens once it runs.", "Cancel"
    context |= {
        "idle": None,
        "place": None,
        "charts": [],
        "live_text": "",
        "wait": Record(
            place=1,
            of_text="of 2 for A100 80GB",
            title="No A100 has half a card free in one piece",
            text="Seven quarters are free, on seven cards. After 10 min of waiting a card is held for you: it takes nobody new.",
            at=at(17, 20),
            basis="At the latest, if longest runs hold",
            picture=None,
            soon=False,
            said="seg-xl 1st, about 17:20",
        ),
        "figures": context["figures"][:1] + context["figures"][3:4],
    }
    return context


def session_failed() -> dict[str, Any]:
    """bad-image, ended by an error, with the container's own words."""
    context = session_detail()
    session = context["session"]
    session.name, session.state, session.allowed, session.running_text = "bad-image", "failed", [], "ended 16:38, run 1"
    session.reason_text = "It ended and cannot be resumed. Its volumes are kept."
    context |= {
        "idle": None,
        "place": None,
        "charts": [],
        "live_text": "",
        "logs_url": "",
        "news": Record(
            tone="failed",
            icon="failed",
            title="The program kept crashing",
            text="It ended 3 times within 10 min. Nothing was billed after 16:36.",
            words="Traceback (most recent call last):\n  File \"/opt/start.py\", line 3, in <module>\n    import torch\nModuleNotFoundError: No module named 'torch'",
            percent=None,
        ),
        "summary": Record(
            facts=[
                ("Ran", "2 min, in one run"),
                ("Charged", "0.42 cr"),
                ("Node", "gpu-01, card 1"),
                ("Ended by", "the program"),
            ]
        ),
    }
    return context


def session_starting() -> dict[str, Any]:
    """seg-sweep, pulling its image."""
    context = session_detail()
    session = context["session"]
    session.name, session.state, session.allowed, session.running_text = (
        "seg-sweep",
        "starting",
        ["stop", "pause"],
        "40 s, run 1",
    )
    session.reason_text = "It opens once it is ready, usually within a minute."
    context |= {
        "idle": None,
        "charts": [],
        "live_text": "",
        "news": Record(
            tone="starting",
            icon="moving",
            title="Pulling the image, 64 %",
            text="PyTorch 2.9 on gpu-01 for the first time. Nothing is billed before it is ready.",
            words="",
            percent=64,
        ),
    }
    return context
