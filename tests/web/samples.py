"""One story for every page: alice of Vision Lab, Wed 14 Oct 2026, 16:42 in Seoul. Contexts as the views make them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from types import SimpleNamespace as Record
from typing import Any

from django import forms

from gshare_core.kit.pictures import Bar, CardPart, CardPicture, Point, Series, SplitPart, Zone

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
        row("vit-ft", "running", SIZES["L"], "A100 80GB", "12.50", cost_micro=cr("46.25"), use=gpu, use_text="GPU 0 %",
            next=Record(icon="idle", lead="", text="idle, pauses in", at=at(17, 20)), act="open"),
        row("prep-data", "running", None, "", "0.00", cost_micro=0, use=cpu, use_text="CPU 41 %",
            next=Record(icon="", lead="", text="busy", at=None), act="open"),
        row("seg-sweep", "starting", SIZES["M"], "A100 80GB", "6.25", cost_micro=0,
            next=Record(icon="", lead="", text="pulling the image, 64 %", at=None), act="stop"),
        row("seg-xl", "queued", SIZES["XL"], "A100 80GB", "25.00", node="",
            next=Record(icon="", lead="1st", text="about 17:20", at=None), act="cancel"),
        row("night-run", "queued", SIZES["1"], "A100 80GB", "15.00", node="",
            next=Record(icon="", lead="2nd", text="passed over: group limit", at=None), act="cancel"),
        row("llm-eval", "queued", SIZES["1"], "H100 80GB", "110.00", node="",
            next=Record(icon="", lead="3rd", text="about 17:00", at=None), act="cancel"),
        row("notebook", "paused", SIZES["M"], "T4 16GB", "1.00", free_now="free while paused", cost_micro=cr("38.12"), node="",
            next=Record(icon="", lead="", text="since 11:52, was idle", at=None), act="resume"),
    ]  # fmt: skip


def limits() -> list[Record]:
    """Alice's limits with use."""
    return [
        Record(
            name=name, value=value, limit=limit, value_text=value_text, limit_text=limit_text, tone="", scope_text=scope
        )
        for name, value, limit, value_text, limit_text, scope in [
            ("Sessions", 3, 4, "3", "4", "Vision Lab"),
            ("GPU memory", 299, 2560, "29.9", "256 GiB", "Vision Lab"),
            ("Whole cards", 0, 2, "0", "2", "Engineering"),
            ("CPU", 28, 48, "28", "48 cores", "everybody"),
            ("Waiting", 3, 4, "3", "4", "everybody"),
            ("Storage", 312, 500, "312", "500 GiB", "you"),
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
        Record(name="A100 80GB", rate_micro_per_hour=cr("50"), cards=A100, waiting=2, words="16 cards: 7 quarters are free",
               free=[("Whole", 0), (half, 0), (quarter, 7), (eighth, 18), (sixteenth, None)]),
        Record(name="H100 80GB", rate_micro_per_hour=cr("110"), cards=H100, waiting=3, words="8 cards: nothing is free",
               free=[("Whole", 0), (half, 0), (quarter, 0), (eighth, 0), (sixteenth, 0)]),
        Record(name="T4 16GB", rate_micro_per_hour=cr("8"), cards=T4, waiting=0, words="8 cards: 7 quarters are free",
               free=[("Whole", 1), (half, 3), (quarter, 7), (eighth, 15), (sixteenth, None)]),
    ]  # fmt: skip


def dashboard() -> dict[str, Any]:
    """The dashboard of somebody in the middle of things."""
    return {
        "now": NOW,
        "wallet": Record(
            balance_micro=cr("460"), held_micro=cr("168.75"), available_micro=cr("291.25"), rate_micro_per_hour=cr("18.75"),
            lasts_until=at(8, 14, days=1), spend=spend_bars(), spend_first="1 Oct", spend_last="today 20.54 cr",
            spend_per_day_micro=cr("17.17"),
            split=[SplitPart(cr("291.25"), "accent", "available", "291.25 cr"), SplitPart(cr("12.5"), "grey", "running", "18.75 cr"),
                   SplitPart(cr("6.25"), "grey"), SplitPart(cr("110"), "pale", "waiting", "150.00 cr"),
                   SplitPart(cr("25"), "pale"), SplitPart(cr("15"), "pale")],
        ),
        "limits": limits(),
        "notices": [
            Record(icon="calendar", tone="accent", title="Sat 17 Oct: gpu-03 drains", text="From 08:00, firmware. Files stay.", url=""),
            Record(icon="queued", tone="queued", title="night-run is passed over", url="/queue/",
                   text="Vision Lab uses 2 of 2 whole cards. The place in line stays."),
            Record(icon="coins", tone="", title="100.00 cr from Vision Lab", text="Your request, today 14:05", url=""),
        ],
        "sessions": rows(),
        "sessions_text": "3 running, 3 waiting, 1 paused",
        "offerings": offerings(),
        "keys": KEYS,
        "versions": Record(wallet=12, sessions=40, queue=7),
        "first_step": "Choose a size and a GPU. An eighth of a T4 costs 1.00 cr an hour.",
    }  # fmt: skip


def dashboard_empty() -> dict[str, Any]:
    """The dashboard of somebody new: nothing yet, and an empty wallet."""
    context = dashboard()
    context["wallet"] = Record(
        balance_micro=0, held_micro=0, available_micro=0, rate_micro_per_hour=0, lasts_until=None, spend=[], spend_first="",
        spend_last="", spend_per_day_micro=0, split=[],
    )  # fmt: skip
    context |= {"sessions": [], "notices": [], "sessions_text": ""}
    return context


class SignInForm(forms.Form):
    """Stands for the view's form."""

    email = forms.EmailField(label="Email", widget=forms.EmailInput(attrs={"autocomplete": "username"}))
    password = forms.CharField(
        label="Password", widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}, render_value=True)
    )


class PasswordForm(forms.Form):
    """Stands for the view's form."""

    current = forms.CharField(label="The password so far", widget=forms.PasswordInput())
    new = forms.CharField(
        label="New password", help_text="12 characters or more, and not a common one", widget=forms.PasswordInput()
    )
    repeat = forms.CharField(label="Once more", widget=forms.PasswordInput())


def sign_in(*, refused: bool = False) -> dict[str, Any]:
    """The way in."""
    form = SignInForm({"email": "alice@vision.example", "password": "correct horse!"}) if refused else SignInForm()
    if refused:
        form.add_error(None, "E-mail and password do not belong together. 4 tries are left.")
    return {
        "form": form, "next": "/", "sizes_of": "A100 80GB",
        "card": CardPicture([
            CardPart(Fraction(0), SIZES["XL"], "mine", "XL", "half"), CardPart(Fraction(1, 2), SIZES["L"], "mine", "L", "quarter"),
            CardPart(Fraction(3, 4), SIZES["M"], "mine", "M"), CardPart(Fraction(7, 8), SIZES["S"], "mine", "S"),
        ]),
        "sizes": [
            Record(name="XL", share=SIZES["XL"], words="", memory_mib=40779, each=False, compute_percent=50),
            Record(name="L", share=SIZES["L"], words="", memory_mib=20389, each=False, compute_percent=25),
            Record(name="M", share=SIZES["M"], words="", memory_mib=10194, each=False, compute_percent=12),
            Record(name="S", share=SIZES["S"], words="", memory_mib=5097, each=False, compute_percent=6),
            Record(name="Whole card", share=Fraction(1), words="1–8 cards", memory_mib=81559, each=True, compute_percent=100),
        ],
    }  # fmt: skip


def password_change() -> dict[str, Any]:
    """The first password must be changed; the new one was too short."""
    form = PasswordForm({"current": "x", "new": "short", "repeat": "short"})
    form.add_error("new", "It has 5 characters; 12 are needed.")
    return {"form": form, "forced": True, "expires_at": at(9, 0, days=6), "now": NOW}


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
        ("cards", "Cards", None, ["79.6 GiB", "1–8 cards"], "50.00", ""),
        ("cpu", "CPU", None, ["no GPU"], "0.00", ""),
    ]
    review: dict[str, Any] = {
        "title": "L", "share": SIZES["L"], "of": "A100 80GB", "rate_micro_per_hour": cr("12.50"),
        "facts": [("GPU", "19.9 GiB, 25 % of compute"), ("Host", "8 cores, 32 GiB, 50 GiB scratch"), ("Held at start", "12.50 of 291.25 cr"),
                  ("All sessions", "31.25 cr/h"), ("Lasts until", "Thu 01:37")],
        "landing": Record(node="gpu-01", index=1, leaves="leaves 1/8 free", card=CardPicture([
            CardPart(Fraction(0), SIZES["XL"], "other"), CardPart(Fraction(1, 2), SIZES["M"], "other"),
            CardPart(Fraction(5, 8), SIZES["L"], "planned", "vit-large")], node="gpu-01", index=1)),
        "verdict": Record(outcome="starts", title="Starts now", text=""), "checked_at": NOW - timedelta(seconds=1),
        "gates": [Record(name=n, passed=p, text=t) for n, p, t in GATES], "can_start": True, "reason": "", "submit": "Start vit-large",
        "until": at(1, 37, days=1),
    }  # fmt: skip
    if refused:
        review |= {
            "landing": None, "can_start": False, "reason": "22.50 cr are missing. Take a smaller size, or ask Vision Lab.",
            "verdict": Record(outcome="refused", title="Refused at gate 6, credit hold",
                              text="It needs 110.00 cr, 87.50 cr are available. Take a half, or ask Vision Lab for 22.50 cr."),
        }  # fmt: skip
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
        "values": Record(name="vit-large", group="g1", cards=1, cards_shown=False, priority=0, preemptible=False, pause_mode="cold", cluster="",
                         auto_resume=False, custom=False, idempotency_key="0197f3c2-a1b2-7c4e-9d10-aabbccddeeff"),
        "errors": {}, "error": None,
        "groups": [Record(id="g1", name="Vision Lab", organisation="Engineering"), Record(id="g2", name="Language Lab", organisation="Engineering")],
        "sizes": [Record(id=i, name=n, share=s, bar=s or (Fraction(1) if i == "cards" else Fraction(0)), lines=ls,
                         rate_micro_per_hour=cr(r) if r else None, chosen=i == "L", reason=why) for i, n, s, ls, r, why in sizes],
        "size_note": "L comes with 8 CPU cores, 32 GiB memory, 50 GiB scratch", "size_name": "L",
        "custom_bounds": [
            Record(name="cpu_milli", label="CPU", unit="m", least=100, most=48000, step=100, value=8000, hint="", error=""),
            Record(name="memory_mib", label="Memory", unit="MiB", least=512, most=262144, step=256, value=32768, hint="", error=""),
            Record(name="scratch_gib", label="Scratch", unit="GiB", least=1, most=500, step=1, value=50, hint="", error=""),
            Record(name="vram_mib", label="GPU memory", unit="MiB", least=1024, most=81559, step=256, value=20389, hint="", error=""),
            Record(name="core_percent", label="GPU compute", unit="%", least=1, most=100, step=1, value=25,
                   hint="at most twice the memory's share, at least half of it", error=""),
        ],
        "offerings": [Record(id=o.name, name=o.name, memory_text=m, cards=o.cards, words=o.words, verdict=v, rate_micro_per_hour=cr(r),
                             chosen=i == 0, reason="") for i, (o, v, r, m) in enumerate(zip(offerings(), verdicts, rates, memories, strict=True))],
        "images": [
            Record(id="i1", name="PyTorch 2.9", cuda="CUDA 12.8", apps_text="JupyterLab, VS Code, terminal", chosen=True, reason=""),
            Record(id="i2", name="JAX 0.7", cuda="CUDA 12.9", apps_text="JupyterLab, terminal", chosen=False, reason=""),
            Record(id="i3", name="TensorFlow 2.13", cuda="CUDA 11.8", apps_text="", chosen=False, reason="A100 80GB needs CUDA 12.0 or newer"),
        ],
        "mounts": [
            Record(volume="v1", name="home", path="/home/work", mode="rw", mode_text="read and write", use_text="212 of 300 GiB", error=""),
            Record(volume="v2", name="imagenet-1k", path="/data/imagenet", mode="ro", mode_text="read only", use_text="148 of 160 GiB", error=""),
        ],
        "volumes": [Record(id="v3", name="checkpoints", access_text="read and write")], "next_path": "/data/checkpoints",
        "more": Record(priority_max=0, priority_hint="0 is normal; above it is a right", preemptible_allowed=True,
                       preemptible_text="at 30 %: 3.75 cr/h, makes room when asked", yield_allowed=False, clusters=[Record(id="c1", name="seoul-1")],
                       lines=[("Priority", "0, normal"), ("Preemptible", "no, at 30 %: 3.75 cr/h"), ("When pausing", "give the card back"),
                              ("Cluster", "any")]),
        "review": Record(**review),
    }  # fmt: skip


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
        series("GPU", gpu, 100, unit="%", top_text="100 %", middle_text="50", now_text="0 %", of_text="of the own slice", zones=idle, ticks=ticks),
        series("GPU memory", vram, 20, unit="GiB", top_text="20 GiB", middle_text="10", now_text="15.2 GiB", of_text="of 19.9", limit=19.9,
               zones=idle, ticks=ticks),
        series("CPU", cpu, 100, unit="%", top_text="100 %", middle_text="50", now_text="2.1 %", of_text="of 8 cores", zones=idle, ticks=ticks),
        series("Memory", memory, 32, unit="GiB", top_text="32 GiB", middle_text="16", now_text="20.9 GiB", of_text="of 32", limit=32, zones=idle,
               ticks=ticks),
    ]  # fmt: skip


def session_detail() -> dict[str, Any]:
    """vit-ft, running and idle."""

    def event(
        moment: datetime,
        day: str,
        state: str | None,
        text: str,
        by: str = "",
        charged: str = "",
        held: str = "",
        rule: bool = False,
    ) -> Record:
        return Record(at=moment, day=day, state=state, text=text, by=by, charged_micro=cr(charged) if charged else None,
                      held_micro=cr(held) if held else None, rule=rule)  # fmt: skip

    y = -1
    return {
        "now": NOW,
        "session": Record(id="019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0", name="vit-ft", url="/sessions/1/", state="running", running_text="1 h 32 min, run 2",
                          version=17, reason_text="", allowed=["pause", "restart", "stop", "keep-alive", "access"], apps=APPS, stop_word="Stop"),
        "figures": [
            Record(name="Rate", micro=cr("12.50"), per="h", at=None, text="", note=""), Record(name="This run", micro=cr("19.17"), per="", at=None, text="", note=""),
            Record(name="Both runs", micro=cr("46.25"), per="", at=None, text="", note=""), Record(name="Held", micro=cr("12.50"), per="", at=None, text="", note=""),
            Record(name="Money lasts until", micro=None, per="", at=at(8, 14, days=1), text="", note=""),
        ],
        "news": None, "wait": None,
        "idle": Record(since=at(16, 35), pause_at=at(17, 20), warnings=[at(17, 5), at(17, 15)], keep_alive_until=at(18, 42), evidence=[
            Record(name="Last GPU kernel", value="16:35:12", text="7 min ago"), Record(name="GPU in own slice", value="0 %", text="quiet below 1 %"),
            Record(name="CPU, mean", value="2.1 %", text="quiet below 5 % of 8 cores"), Record(name="JupyterLab", value="16:31:40", text="last activity 11 min ago")]),
        "place": Record(node="gpu-01", index=0, note="A100 80GB, card full", words="The thick line at the foot of your part is memory in use: 15.2 of 19.9 GiB.",
                        card=CardPicture([CardPart(Fraction(0), SIZES["L"], "mine", "vit-ft", used=Fraction(3, 4)), CardPart(Fraction(1, 4), SIZES["L"], "other"),
                                          CardPart(Fraction(1, 2), SIZES["XL"], "other")], node="gpu-01", index=0)),
        "setup": [
            Record(name="Size", text="L, 19.9 GiB, 25 %", id=""), Record(name="Host", text="8 cores, 32 GiB memory", id=""), Record(name="Scratch", text="50 GiB", id=""),
            Record(name="Image", text="PyTorch 2.9, CUDA 12.8", id=""), Record(name="Digest", text="", id="sha256:9f3c0b1d2e3f405162738495a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d71be"),
            Record(name="Card", text="", id="GPU-5d1e7a90-31c4-4b0e-9f55-2a6c7c1b0c42"), Record(name="Session", text="", id="019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0"),
            Record(name="Group", text="Vision Lab", id=""), Record(name="Pause", text="cold", id=""), Record(name="Longest run", text="24 h, until Thu 15:10", id=""),
        ],
        "volumes": [Record(path="/home/work", mode_text="read and write", name="home", used=212, size=300, use_text="212 of 300 GiB"),
                    Record(path="/data/imagenet", mode_text="read only", name="imagenet-1k", used=148, size=160, use_text="148 of 160 GiB")],
        "charts": _charts(),
        "ranges": [Record(name="5 min", url="?range=5m", current=False), Record(name="1 h", url="?range=1h", current=True), Record(name="Run", url="?range=run", current=False)],
        "live_text": "live, 1 s",
        "timeline": [
            event(at(16, 40), "Wed 14 Oct", None, "Hold topped up", charged="6.25", held="12.50"), event(at(16, 10), "", None, "Hold topped up", charged="6.25", held="12.50"),
            event(at(15, 40), "", None, "Hold topped up", charged="6.25", held="12.50"), event(at(15, 10), "", "running", "on gpu-01, card 0"),
            event(at(15, 8), "", "starting", "resumed", by="alice", held="12.50"),
            event(at(16, 9, days=y), "Tue 13 Oct", "paused", "idle for 45 min", charged="2.08", held="0.00", rule=True),
            event(at(15, 59, days=y), "", None, "Hold topped up, 4 times", charged="25.00", held="12.50"), event(at(13, 59, days=y), "", "running", "on gpu-02, card 3"),
            event(at(13, 58, days=y), "", "starting", "created", by="alice", held="12.50"),
        ],
        "total": Record(text="Charged 45.83 cr, and 0.42 cr since 16:40", charged_micro=cr("46.25"), held_micro=cr("12.50")),
        "older_url": "", "logs_url": "/sessions/1/logs/", "summary": None,
    }  # fmt: skip


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
        "idle": None, "place": None, "charts": [], "live_text": "",
        "wait": Record(place=1, of_text="of 2 for A100 80GB", title="No A100 has half a card free in one piece",
                       text="Seven quarters are free, on seven cards. After 10 min of waiting a card is held for you: it takes nobody new.",
                       at=at(17, 20), basis="At the latest, if longest runs hold"),
        "figures": context["figures"][:1] + context["figures"][3:4],
    }  # fmt: skip
    return context


def session_failed() -> dict[str, Any]:
    """bad-image, ended by an error, with the container's own words."""
    context = session_detail()
    session = context["session"]
    session.name, session.state, session.allowed, session.running_text = "bad-image", "failed", [], "ended 16:38, run 1"
    session.reason_text = "It ended and cannot be resumed. Its volumes are kept."
    context |= {
        "idle": None, "place": None, "charts": [], "live_text": "", "logs_url": "",
        "news": Record(tone="failed", icon="failed", title="The program kept crashing", text="It ended 3 times within 10 min. Nothing was billed after 16:36.",
                       words="Traceback (most recent call last):\n  File \"/opt/start.py\", line 3, in <module>\n    import torch\nModuleNotFoundError: No module named 'torch'",
                       percent=None),
        "summary": Record(facts=[("Ran", "2 min, in one run"), ("Charged", "0.42 cr"), ("Node", "gpu-01, card 1"), ("Ended by", "the program")]),
    }  # fmt: skip
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
        "idle": None, "charts": [], "live_text": "",
        "news": Record(tone="starting", icon="moving", title="Pulling the image, 64 %", text="PyTorch 2.9 on gpu-01 for the first time. Nothing is billed before it is ready.",
                       words="", percent=64),
    }  # fmt: skip
    return context


def sessions(*, search: str = "", empty: bool = False) -> dict[str, Any]:
    """Own sessions as a list."""
    shown = [] if search or empty else rows()
    return {
        "now": NOW, "rows": shown, "sessions_text": "" if empty else "3 running, 3 waiting, 1 paused", "any": not empty,
        "tabs": [Record(name="Live", url="?tab=live", count="6", current=True), Record(name="Paused", url="?tab=paused", count="1", current=False),
                 Record(name="Ended", url="?tab=ended", count="41", current=False)],
        "current_tab": "live", "search": search, "found": 0 if search else None, "hidden": 7, "clear_url": "/sessions/", "list_words": f"{len(shown)} sessions",
        "columns": [Record(name="Name", url="?sort=name", direction="none", **{"class": ""}), Record(name="State", url="?sort=-state", direction="ascending", **{"class": ""}),
                    Record(name="GPU", url="", direction="", **{"class": ""}), Record(name="Node", url="", direction="", **{"class": "cell-node"}),
                    Record(name="Rate", url="", direction="", **{"class": "right"}), Record(name="So far", url="", direction="", **{"class": "right cell-cost"}),
                    Record(name="Next", url="", direction="", **{"class": ""})],
        "bulk": [Record(act="pause", word="Pause"), Record(act="stop", word="Stop")], "previous": "", "next": "?cursor=x", "versions": Record(sessions=40),
        "empty_title": "Nothing is paused", "empty_text": "Pausing a session gives its card back and keeps its files.",
        "first_step": "Choose a size and a GPU. An eighth of a T4 costs 1.00 cr an hour.",
    }  # fmt: skip


def ask() -> dict[str, Any]:
    """Stop vit-ft?"""
    return {
        "question": Record(
            title="Stop vit-ft?", effects=["The run settles: 0.42 cr more, 12.08 cr of the hold come back",
                                           "Anything outside /home/work and /data is lost", "home and imagenet-1k stay"],
            note="To keep it for later, pause it. Pausing is free.", url="/sessions/1/stop/", submit="Stop vit-ft", danger=True, cancel_url="/sessions/1/",
            cancel="Keep running", type_name="", reason=False, alternative=Record(url="/sessions/1/pause/", words="Pause"), error="", reason_error="", fields={}),
        "back": [Record(name="Sessions", url="/sessions/"), Record(name="vit-ft", url="/sessions/1/")],
    }  # fmt: skip


def queue() -> dict[str, Any]:
    """Three entries that wait for three reasons."""
    quarter = SIZES["L"]
    return {
        "now": NOW, "queue_text": "3 sessions wait, 150.00 cr held for them", "versions": Record(queue=7),
        "entries": [
            Record(id="q1", name="seg-xl", url="/sessions/1/", share=SIZES["XL"], what="XL of A100 80GB", waiting_text="waiting 14 min", holds_micro=cr("25"), place=1,
                   of_text="of 2 for A100 80GB", title="No A100 has half a card free in one piece",
                   text="Seven quarters are free, on seven cards. After 10 min of waiting a card is held for you: it takes nobody new.",
                   picture=Record(kind="card", node="gpu-02", index=5, right="the third quarter ends by 17:20", card=CardPicture([
                       CardPart(Fraction(0), quarter, "other"), CardPart(Fraction(1, 4), quarter, "other"),
                       CardPart(Fraction(1, 2), quarter, "other", "until 17:20"), CardPart(Fraction(3, 4), quarter, "held")], node="gpu-02", index=5),
                       bracket=Record(x="50%", width="50%", text="seg-xl")), at=at(17, 20), basis="At the latest, if longest runs hold"),
            Record(id="q2", name="night-run", url="/sessions/2/", share=SIZES["1"], what="1 A100 80GB, preemptible", waiting_text="waiting 12 min", holds_micro=cr("15"),
                   place=2, of_text="of 2 for A100 80GB", title="Passed over: Vision Lab uses 2 of 2 whole cards",
                   text="It keeps its place. It starts once a whole card of the group comes back, or the group’s limit is raised.",
                   picture=Record(kind="cards", cards=[strip("1"), strip("1")], text="limit 2, set by Engineering"), at=None,
                   basis="The sessions in the way have no longest run"),
            Record(id="q3", name="llm-eval", url="/sessions/3/", share=SIZES["1"], what="1 H100 80GB, Language Lab", waiting_text="waiting 22 min", holds_micro=cr("110"),
                   place=3, of_text="of 3 for H100 80GB", title="All 8 H100 are taken, and two requests are before yours",
                   text="Sessions on four whole cards must end by 16:58. The two before you need three of them.",
                   picture=Record(kind="line", card=CardPicture([CardPart(Fraction(0), Fraction(1, 2), "other", "1st", "2 cards"),
                                                                 CardPart(Fraction(1, 2), quarter, "other", "2nd", "1 card"),
                                                                 CardPart(Fraction(3, 4), quarter, "mine", "3rd", "llm-eval")])), at=at(17, 0),
                   basis="From longest runs, earlier if somebody stops"),
        ],
        "lanes": [
            Record(name="A100 80GB", waiting=2, first_wait="14 min", median_wait="4 min", longest_wait="1 h 10 min", series=series("Waiting", wave(1, 3, 72), 5)),
            Record(name="H100 80GB", waiting=3, first_wait="36 min", median_wait="26 min", longest_wait="3 h 05 min", series=series("Waiting", wave(2, 4, 72), 7)),
            Record(name="T4 16GB", waiting=0, first_wait="", median_wait="0 min", longest_wait="6 min", series=series("Waiting", wave(0, 0.1, 72), 5)),
        ],
        "lanes_note": "priority first, then waiting time. Your use of the last week moves you back 6 min",
    }  # fmt: skip


def queue_empty() -> dict[str, Any]:
    """Nothing waits."""
    return queue() | {"entries": [], "queue_text": ""}


def wallet(*, empty: bool = False) -> dict[str, Any]:
    """The wallet in mid-October; `empty`: somebody new."""
    month = datetime(2026, 9, 30, 15, 0, tzinfo=UTC)
    fall = [600, 592, 592, 560, 560, 560, 536, 502, 474, 452, 440, 436, 408, 380]
    points = []
    for i, value in enumerate(fall):
        for hour in (0, 9, 18):
            points.append(Point(month + timedelta(days=i, hours=hour), float(value), f"{value}.00 cr"))
    points += [
        Point(NOW - timedelta(hours=3), 380.0, "380.00 cr"),
        Point(NOW - timedelta(hours=2, minutes=37), 478.75, "478.75 cr"),
        Point(NOW, 460.0, "460.00 cr"),
    ]
    balance = Series(name="Balance", note="October", points=points, start=month, end=month + timedelta(days=18), top=600, unit="cr", top_text="600 cr", middle_text="300",
                     now_text="460.00", of_text="cr", limit=168.75, ticks=[(month + timedelta(days=d), t) for d, t in [(0, "1 Oct"), (3, "4"), (6, "7"), (9, "10"), (12, "13"), (15, "16")]],
                     forecast=[Point(NOW, 460.0), Point(NOW + timedelta(hours=15.5), 168.75)])  # fmt: skip
    entries = [
        ("Today", 16, 40, 0, "charge", "vit-ft", "run 2", "-6.25", "460.00"), ("", 16, 10, 0, "charge", "vit-ft", "run 2", "-6.25", "466.25"),
        ("", 15, 40, 0, "charge", "vit-ft", "run 2", "-6.25", "472.50"), ("", 14, 5, 0, "allocate", "Vision Lab", "your request, ablation week", "100.00", "478.75"),
        ("", 11, 52, 0, "charge", "notebook", "run 4", "-0.37", "378.75"), ("", 11, 30, 0, "charge", "notebook", "run 4", "-0.50", "379.12"),
        ("Yesterday", 16, 9, -1, "charge", "vit-ft", "run 1", "-2.08", "380.12"), ("", 15, 59, -1, "charge", "vit-ft", "run 1", "-6.25", "382.20"),
        ("Mon 12 Oct", 18, 40, -2, "charge", "llm-base", "run 6", "-3.60", "407.20"),
    ]  # fmt: skip
    ledger = [
        Record(id=str(i), at=at(h, m, days=d), day=day, kind=kind, kind_text=kind, direction="out" if amount.startswith("-") else "in", with_name=who,
               with_url="/sessions/1/" if kind == "charge" else "", mono=kind == "charge", note=note,
               amount_micro=-cr(amount[1:]) if amount.startswith("-") else cr(amount), balance_micro=cr(left))
        for i, (day, h, m, d, kind, who, note, amount, left) in enumerate(entries)
    ]  # fmt: skip
    context: dict[str, Any] = {
        "now": NOW, "versions": Record(wallet=12), "may_request": True, "any": True,
        "wallet": Record(id="w1", balance_micro=cr("460"), held_micro=cr("168.75"), available_micro=cr("291.25"), accrued_micro=cr("0.42"), lasts_until=at(8, 14, days=1),
                         held_note="for 2 running, 3 waiting", next_grant=Record(micro=cr("600"), note="1 Nov, from Vision Lab")),
        "balance": balance, "ranges": [Record(name="7 days", url="?range=7d", current=False), Record(name="Month", url="?range=month", current=True),
                                       Record(name="Year", url="?range=year", current=False)],
        "spend": spend_bars(), "spend_slots": 18, "spend_note": "17.17 cr a day on average", "spend_top": "40 cr",
        "spend_ticks": [("2.8%", "1 Oct"), ("19.4%", "4"), ("36.1%", "7"), ("52.8%", "10"), ("69.4%", "13"), ("86.1%", "16")],
        "holds": [Record(state=s, name=n, url="/sessions/1/", covers=c, micro=cr(m)) for s, n, c, m in [
            ("running", "vit-ft", "until 17:40", "12.50"), ("starting", "seg-sweep", "60 min", "6.25"), ("queued", "seg-xl", "60 min", "25.00"),
            ("queued", "night-run", "60 min", "15.00"), ("queued", "llm-eval", "60 min", "110.00")]],
        "spent": Record(title="Spent, 1 to 14 Oct", most_micro=cr("71.30"), all_text="All, 17.17 a day", all_micro=cr("240.42"), rows=[
            Record(name=n, url="/sessions/1/", micro=cr(m)) for n, m in [("llm-base", "71.30"), ("detr-aug", "52.40"), ("vit-ft", "46.25"), ("notebook", "38.12"), ("mask-test", "32.35")]]),
        "ledger": ledger, "entries_text": "64 entries", "csv_url": "/wallet/?format=csv", "older_url": "?cursor=x", "newer_url": "",
        "filters": Record(q="", kinds=[("", "All kinds", True), ("charge", "charge", False), ("allocate", "allocate", False)], months=[("2026-10", "October", True)],
                          sessions=[("", "Any session", True), ("1", "vit-ft", False)]),
    }  # fmt: skip
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


class VolumeForm(forms.Form):
    """Stands for the view's form."""

    name = forms.CharField(label="Name", help_text="Letters, digits, hyphens")
    kind = forms.ChoiceField(
        label="Kind",
        choices=[
            ("home", "home: your files"),
            ("data", "data: large, can be shared"),
            ("scratch", "scratch: fast, on one node"),
        ],
    )
    size_gib = forms.IntegerField(label="Size", min_value=1, max_value=188, help_text="188 GiB are left")


def volumes(*, empty: bool = False) -> dict[str, Any]:
    """Three volumes, one of them on its way out."""

    def volume(name: str, kind: str, access: str, size: int, used: int | None, **more: Any) -> Record:
        base: dict[str, Any] = {"id": "0197f3c2-a1b2-7c4e-9d10-000000000001", "name": name, "kind_text": kind, "access_text": access, "size_gib": size, "used_gib": used,
                                "use_text": f"{used} of {size} GiB" if used is not None else "", "cluster": "seoul-1", "shared_text": "", "attached_to": [], "detail": "",
                                "gone_at": None, "shares_url": ""}  # fmt: skip
        return Record(**(base | more))

    return {
        "now": NOW, "quota": Record(used_gib=312, limit_gib=500, text="312 of 500 GiB", tone=""), "form": VolumeForm({"name": "Check points", "kind": "data", "size_gib": "250"}) if not empty else VolumeForm(),
        "volumes": [] if empty else [
            volume("home", "home", "one writer", 300, 212, attached_to=[Record(name="vit-ft", url="/sessions/1/")], detail="vit-ft uses it. Stop or pause vit-ft first."),
            volume("imagenet-1k", "data", "many readers", 160, 148, shared_text="shared by Vision Lab, read only", attached_to=[Record(name="vit-ft", url="/sessions/1/"), Record(name="seg-sweep", url="/sessions/2/")]),
            volume("imagenet-old", "data", "many readers", 12, None, gone_at=at(15, 0, days=1)),
        ],
    }  # fmt: skip


def notifications(*, empty: bool = False) -> dict[str, Any]:
    """What was told to alice."""

    def note(
        icon: str, tone: str, title: str, text: str, moment: datetime, *, unread: bool = False, url: str = ""
    ) -> Record:
        return Record(id="n", icon=icon, tone=tone, title=title, text=text, url=url, at=moment, unread=unread)

    return {
        "now": NOW, "unread": 0 if empty else 3, "previous": "", "next": "",
        "days": [] if empty else [
            Record(day="Today", notices=[
                note("idle", "", "vit-ft is idle and pauses at 17:20", "No kernel since 16:35, CPU 2.1 %. Keep it alive on its page.", at(16, 40), unread=True, url="/sessions/1/"),
                note("queued", "queued", "night-run is passed over", "Vision Lab uses 2 of 2 whole cards. The place in line stays.", at(16, 31), unread=True, url="/queue/"),
                note("coins", "", "100.00 cr from Vision Lab", "Your request, ablation week", at(14, 5), unread=True, url="/wallet/"),
                note("paused", "", "notebook was paused, it was idle", "No kernel for 45 min, no activity since 11:07. Resume it when you like.", at(11, 52), url="/sessions/7/")]),
            Record(day="Yesterday", notices=[note("calendar", "accent", "Sat 17 Oct: gpu-03 drains", "From 08:00, firmware. Files stay.", at(9, 0, days=-1))]),
        ],
        "kinds": [Record(name="idle", label="Idle warnings", hint="15 and 5 min before a pause", chosen=True), Record(name="money", label="Credits", hint="low, used up, or arrived", chosen=True),
                  Record(name="queue", label="Queue", hint="passed over, held card, started", chosen=True)],
    }  # fmt: skip


class AccountForm(forms.Form):
    """Stands for the view's form."""

    language = forms.ChoiceField(label="Language", choices=[("en", "English"), ("ko", "한국어")])
    time_zone = forms.ChoiceField(
        label="Time zone", choices=[("Asia/Seoul", "Asia/Seoul"), ("Europe/Berlin", "Europe/Berlin")]
    )


def account() -> dict[str, Any]:
    """Alice's account."""
    return {
        "now": NOW, "form": AccountForm({"language": "en", "time_zone": "Asia/Seoul"}), "limits": limits(),
        "profile": Record(name="Alice Kim", email="alice@vision.example", organisation="Engineering", id="0197f3c2-a1b2-7c4e-9d10-aabbccddeeff", password_changed_at=at(9, 0, days=-40)),
        "memberships": [Record(organisation="Engineering", group="Vision Lab", role_text="member"), Record(organisation="Engineering", group="Language Lab", role_text="guest")],
        "devices": [Record(id="1", icon="device", name="Firefox on Linux", where="10.20.0.14, since 14 Oct 09:02", at=NOW, here=True),
                    Record(id="2", icon="phone", name="Safari on iPhone", where="10.20.3.7, since 12 Oct 18:31", at=at(8, 10), here=False)],
    }  # fmt: skip


PAGES: dict[str, tuple[str, Any]] = {
    "sign-in": ("accounts/sign_in.html", sign_in),
    "sign-in-refused": ("accounts/sign_in.html", lambda: sign_in(refused=True)),
    "password": ("accounts/password_change.html", password_change),
    "dashboard": ("sessions_app/dashboard.html", dashboard),
    "dashboard-empty": ("sessions_app/dashboard.html", dashboard_empty),
    "new-session": ("sessions_app/session_new.html", session_new),
    "new-session-refused": ("sessions_app/session_new.html", lambda: session_new(refused=True)),
    "session": ("sessions_app/session.html", session_detail),
    "session-queued": ("sessions_app/session.html", session_queued),
    "session-starting": ("sessions_app/session.html", session_starting),
    "session-failed": ("sessions_app/session.html", session_failed),
    "sessions": ("sessions_app/sessions.html", sessions),
    "sessions-nothing-found": ("sessions_app/sessions.html", lambda: sessions(search="vit-x")),
    "sessions-nothing-yet": ("sessions_app/sessions.html", lambda: sessions(empty=True)),
    "ask": ("sessions_app/ask.html", ask),
    "queue": ("sessions_app/queue.html", queue),
    "queue-empty": ("sessions_app/queue.html", queue_empty),
    "wallet": ("billing/wallet.html", wallet),
    "wallet-empty": ("billing/wallet.html", lambda: wallet(empty=True)),
    "volumes": ("sessions_app/volumes.html", volumes),
    "volumes-empty": ("sessions_app/volumes.html", lambda: volumes(empty=True)),
    "notifications": ("accounts/notifications.html", notifications),
    "notifications-empty": ("accounts/notifications.html", lambda: notifications(empty=True)),
    "account": ("accounts/account.html", account),
    "400": ("400.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "403": ("403.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "404": ("404.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "500": ("500.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
    "503": ("503.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2", "retry_after_seconds": 30}),
    "csrf": ("csrf_failure.html", lambda: {"request_id": "5f0c2a9e-77b1-4f60-8a2c-30c1f4e0a9d2"}),
}
PATHS = {
    "dashboard": "/", "dashboard-empty": "/", "new-session": "/sessions/new/", "new-session-refused": "/sessions/new/", "sessions": "/sessions/",
    "sessions-nothing-found": "/sessions/", "sessions-nothing-yet": "/sessions/", "queue": "/queue/", "queue-empty": "/queue/", "wallet": "/wallet/",
    "wallet-empty": "/wallet/", "volumes": "/volumes/", "volumes-empty": "/volumes/", "notifications": "/notifications/",
    "notifications-empty": "/notifications/", "account": "/account/", "sign-in": "/login/", "sign-in-refused": "/login/", "password": "/password/",
}  # fmt: skip


def path_of(page: str) -> str:
    """The address under which a page is rendered: what the navigation marks as current depends on it."""
    return PATHS.get(page, "/sessions/019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0/")
