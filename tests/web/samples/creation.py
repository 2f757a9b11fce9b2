"""The form of a new session."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from types import SimpleNamespace as Record
from typing import Any

from gshare_core.kit.pictures import CardPart, CardPicture
from tests.web.samples.story import NOW, SIZES, at, cr, offerings

GATES = [
    ("References", True, "CUDA 12.8, needs 12.0"),
    ("Mounts", True, "home is free to write"),
    ("Wallet", True, "your own"),
    ("Policy", True, "sessions 4 of 4, the last one"),
    ("Budget", True, "Vision Lab 61 % of October"),
    ("Credit hold", True, "12.50 of 291.25 cr"),
    ("Card", True, "gpu-01, card 1"),
    ("Hand-off", None, "after you start"),
]


def session_new(*, refused: bool = False) -> dict[str, Any]:
    """The form with everything chosen; `refused` by the credit hold."""
    sizes = [
        ("S", "S", SIZES["S"], ["A100 80GB", "starts at 1/8"], None, "A100 80GB starts at 1/8"),
        ("M", "M", SIZES["M"], ["9.9 GiB", "12 %"], "6.25", ""),
        ("L", "L", SIZES["L"], ["19.9 GiB", "25 %"], "12.50", ""),
        ("XL", "XL", SIZES["XL"], ["39.8 GiB", "50 %"], "25.00", ""),
        ("cards", "Cards", None, ["79.6 GiB", "1 to 8 cards"], "50.00", ""),
        ("cpu", "CPU", None, ["no GPU"], "0.00", ""),
    ]
    review: dict[str, Any] = {
        "title": "L",
        "share": SIZES["L"],
        "of": "A100 80GB",
        "rate_micro_per_hour": cr("12.50"),
        "facts": [
            ("GPU", "19.9 GiB, 25 % of compute"),
            ("Host", "8 cores, 32 GiB, 50 GiB scratch"),
            ("Held at start", "12.50 of 291.25 cr"),
            ("All sessions", "31.25 cr/h"),
            ("Lasts until", "Thu 01:37"),
        ],
        "landing": Record(
            node="gpu-01",
            index=1,
            leaves="leaves 1/8 free",
            card=CardPicture(
                [
                    CardPart(Fraction(0), SIZES["XL"], "other"),
                    CardPart(Fraction(1, 2), SIZES["M"], "other"),
                    CardPart(Fraction(5, 8), SIZES["L"], "planned", "vit-large"),
                ],
                node="gpu-01",
                index=1,
            ),
        ),
        "verdict": Record(outcome="starts", title="Starts now", text=""),
        "checked_at": NOW - timedelta(seconds=1),
        "gates": [Record(name=n, passed=p, text=t) for n, p, t in GATES],
        "can_start": True,
        "reason": "",
        "submit": "Start vit-large",
        "until": at(1, 37, days=1),
    }
    if refused:
        review |= {
            "landing": None,
            "can_start": False,
            "reason": "22.50 cr are missing. Take a smaller size, or ask Vision Lab.",
            "verdict": Record(
                outcome="refused",
                title="Refused at gate 6, credit hold",
                text="It needs 110.00 cr, 87.50 cr are available. Take a half, or ask Vision Lab for 22.50 cr.",
            ),
        }
        review["gates"] = [
            Record(name=n, passed=None if n in ("Card", "Hand-off") else n != "Credit hold", text=t)
            for n, _, t in GATES
        ]
    verdicts = [
        Record(outcome="starts", title="Starts now", text="7 quarters free"),
        Record(outcome="queues", title="Queues as 4th", text="about 40 min"),
        Record(outcome="starts", title="Starts now", text="7 quarters free"),
    ]
    rates, memories = ["12.50", "27.50", "2.00"], ["19.9 GiB", "19.9 GiB", "3.8 GiB"]
    return {
        "now": NOW,
        "values": Record(
            name="vit-large",
            group="g1",
            cards=1,
            cards_shown=False,
            priority=0,
            preemptible=False,
            pause_mode="cold",
            cluster="",
            auto_resume=False,
            custom=False,
            idempotency_key="0197f3c2-a1b2-7c4e-9d10-aabbccddeeff",
        ),
        "errors": {},
        "error": None,
        "groups": [
            Record(id="g1", name="Vision Lab", organisation="Engineering"),
            Record(id="g2", name="Language Lab", organisation="Engineering"),
        ],
        "sizes": [
            Record(
                id=i,
                name=n,
                share=s,
                bar=s or (Fraction(1) if i == "cards" else Fraction(0)),
                lines=ls,
                rate_micro_per_hour=cr(r) if r else None,
                chosen=i == "L",
                reason=why,
            )
            for i, n, s, ls, r, why in sizes
        ],
        "size_note": "L comes with 8 CPU cores, 32 GiB memory, 50 GiB scratch",
        "size_name": "L",
        "custom_bounds": [
            Record(
                name="cpu_milli", label="CPU", unit="m", least=100, most=48000, step=100, value=8000, hint="", error=""
            ),
            Record(
                name="memory_mib",
                label="Memory",
                unit="MiB",
                least=512,
                most=262144,
                step=256,
                value=32768,
                hint="",
                error="",
            ),
            Record(
                name="scratch_gib", label="Scratch", unit="GiB", least=1, most=500, step=1, value=50, hint="", error=""
            ),
            Record(
                name="vram_mib",
                label="GPU memory",
                unit="MiB",
                least=1024,
                most=81559,
                step=256,
                value=20389,
                hint="",
                error="",
            ),
            Record(
                name="core_percent",
                label="GPU compute",
                unit="%",
                least=1,
                most=100,
                step=1,
                value=25,
                hint="at most twice the memory's share, at least half of it",
                error="",
            ),
        ],
        "offerings": [
            Record(
                id=o.name,
                name=o.name,
                memory_text=m,
                cards=o.cards,
                words=o.words,
                verdict=v,
                rate_micro_per_hour=cr(r),
                chosen=i == 0,
                reason="",
            )
            for i, (o, v, r, m) in enumerate(zip(offerings(), verdicts, rates, memories, strict=True))
        ],
        "images": [
            Record(
                id="i1",
                name="PyTorch 2.9",
                cuda="CUDA 12.8",
                apps_text="JupyterLab, VS Code, terminal",
                chosen=True,
                reason="",
            ),
            Record(
                id="i2", name="JAX 0.7", cuda="CUDA 12.9", apps_text="JupyterLab, terminal", chosen=False, reason=""
            ),
            Record(
                id="i3",
                name="TensorFlow 2.13",
                cuda="CUDA 11.8",
                apps_text="",
                chosen=False,
                reason="A100 80GB needs CUDA 12.0 or newer",
            ),
        ],
        "mounts": [
            Record(
                volume="v1",
                name="home",
                path="/home/work",
                mode="rw",
                mode_text="read and write",
                use_text="212 of 300 GiB",
                error="",
            ),
            Record(
                volume="v2",
                name="imagenet-1k",
                path="/data/imagenet",
                mode="ro",
                mode_text="read only",
                use_text="148 of 160 GiB",
                error="",
            ),
        ],
        "volumes": [Record(id="v3", name="checkpoints", access_text="read and write")],
        "next_path": "/data/checkpoints",
        "more": Record(
            priority_max=0,
            priority_hint="0 is normal; above it is a right",
            preemptible_allowed=True,
            preemptible_text="at 30 %: 3.75 cr/h, makes room when asked",
            yield_allowed=False,
            clusters=[Record(id="c1", name="seoul-1")],
            lines=[
                ("Priority", "0, normal"),
                ("Preemptible", "no, at 30 %: 3.75 cr/h"),
                ("When pausing", "give the card back"),
                ("Cluster", "any"),
            ],
        ),
        "review": Record(**review),
    }
