"""Dashboard, list of sessions, queue, wallet's neighbour pages: what one sees at a glance."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace as Record
from typing import Any

from gshare_core.kit.pictures import CardPart, CardPicture, SplitPart
from tests.web.samples.story import (
    KEYS,
    NOW,
    SIZES,
    at,
    cr,
    limits,
    offerings,
    rows,
    series,
    spend_bars,
    strip,
    wave,
)


def dashboard() -> dict[str, Any]:
    """The dashboard of somebody in the middle of things."""
    return {
        "now": NOW,
        "wallet": Record(
            balance_micro=cr("460"),
            held_micro=cr("168.75"),
            available_micro=cr("291.25"),
            rate_micro_per_hour=cr("18.75"),
            lasts_until=at(8, 14, days=1),
            spend=spend_bars(),
            spend_first="1 Oct",
            spend_last="today 20.54 cr",
            spend_per_day_micro=cr("17.17"),
            split=[
                SplitPart(cr("291.25"), "accent", "available", "291.25 cr"),
                SplitPart(cr("12.5"), "grey", "running", "18.75 cr"),
                SplitPart(cr("6.25"), "grey"),
                SplitPart(cr("110"), "pale", "waiting", "150.00 cr"),
                SplitPart(cr("25"), "pale"),
                SplitPart(cr("15"), "pale"),
            ],
        ),
        "limits": limits(),
        "notices": [
            Record(
                icon="calendar",
                tone="accent",
                title="Sat 17 Oct: gpu-03 drains",
                text="From 08:00, firmware. Files stay.",
                url="",
            ),
            Record(
                icon="queued",
                tone="queued",
                title="night-run is passed over",
                url="/queue/",
                text="Vision Lab uses 2 of 2 whole cards. The place in line stays.",
            ),
            Record(icon="coins", tone="", title="100.00 cr from Vision Lab", text="Your request, today 14:05", url=""),
        ],
        "sessions": rows(),
        "sessions_text": "3 running, 3 waiting, 1 paused",
        "offerings": offerings(),
        "keys": KEYS,
        "versions": Record(wallet=12, sessions=40, queue=7),
        "first_step": "Choose a size and a GPU. An eighth of a T4 costs 1.00 cr an hour.",
    }


def dashboard_empty() -> dict[str, Any]:
    """The dashboard of somebody new: nothing yet, and an empty wallet."""
    context = dashboard()
    context["wallet"] = Record(
        balance_micro=0,
        held_micro=0,
        available_micro=0,
        rate_micro_per_hour=0,
        lasts_until=None,
        spend=[],
        spend_first="",
        spend_last="",
        spend_per_day_micro=0,
        split=[],
    )
    context |= {"sessions": [], "notices": [], "sessions_text": ""}
    return context


def sessions(*, search: str = "", empty: bool = False) -> dict[str, Any]:
    """Own sessions as a list."""
    shown = [] if search or empty else rows()
    return {
        "now": NOW,
        "rows": shown,
        "sessions_text": "" if empty else "3 running, 3 waiting, 1 paused",
        "any": not empty,
        "tabs": [
            Record(name="Live", url="?tab=live", count="6", current=True),
            Record(name="Paused", url="?tab=paused", count="1", current=False),
            Record(name="Ended", url="?tab=ended", count="41", current=False),
        ],
        "current_tab": "live",
        "search": search,
        "found": 0 if search else None,
        "hidden": 7,
        "clear_url": "/sessions/",
        "list_words": f"{len(shown)} sessions",
        "columns": [
            Record(name="Name", url="?sort=name", direction="none", css=""),
            Record(name="State", url="?sort=-state", direction="ascending", css=""),
            Record(name="GPU", url="", direction="", css=""),
            Record(name="Node", url="", direction="", css="cell-node"),
            Record(name="Rate", url="", direction="", css="right"),
            Record(name="So far", url="", direction="", css="right cell-cost"),
            Record(name="Next", url="", direction="", css=""),
        ],
        "bulk": [Record(act="pause", word="Pause"), Record(act="stop", word="Stop")],
        "previous": "",
        "next": "?cursor=x",
        "versions": Record(sessions=40),
        "empty_title": "Nothing is paused",
        "empty_text": "Pausing a session gives its card back and keeps its files.",
        "first_step": "Choose a size and a GPU. An eighth of a T4 costs 1.00 cr an hour.",
    }


def ask() -> dict[str, Any]:
    """Stop vit-ft?"""
    return {
        "question": Record(
            title="Stop vit-ft?",
            effects=[
                "The run settles: 0.42 cr more, 12.08 cr of the hold come back",
                "Anything outside /home/work and /data is lost",
                "home and imagenet-1k stay",
            ],
            note="To keep it for later, pause it. Pausing is free.",
            url="/sessions/1/stop/",
            submit="Stop vit-ft",
            danger=True,
            cancel_url="/sessions/1/",
            cancel="Keep running",
            type_name="",
            reason=False,
            alternative=Record(url="/sessions/1/pause/", words="Pause"),
            error="",
            reason_error="",
            fields={},
        ),
        "back": [Record(name="Sessions", url="/sessions/"), Record(name="vit-ft", url="/sessions/1/")],
    }


def queue() -> dict[str, Any]:
    """Three entries that wait for three reasons."""
    quarter = SIZES["L"]
    return {
        "now": NOW,
        "queue_text": "3 sessions wait, 150.00 cr held for them",
        "versions": Record(queue=7),
        "said": "seg-xl 1st, about 17:20; night-run 2nd; llm-eval 3rd, about 17:00",
        "entries": [
            Record(
                id="q1",
                name="seg-xl",
                url="/sessions/1/",
                share=SIZES["XL"],
                what="XL of A100 80GB",
                waiting_text="waiting 14 min",
                holds_micro=cr("25"),
                place=1,
                of_text="of 2 for A100 80GB",
                title="No A100 has half a card free in one piece",
                text="Seven quarters are free, on seven cards. After 10 min of waiting a card is held for you: it takes nobody new.",
                picture=Record(
                    kind="card",
                    node="gpu-02",
                    index=5,
                    right="the third quarter ends by 17:20",
                    card=CardPicture(
                        [
                            CardPart(Fraction(0), quarter, "other"),
                            CardPart(Fraction(1, 4), quarter, "other"),
                            CardPart(Fraction(1, 2), quarter, "other", "until 17:20"),
                            CardPart(Fraction(3, 4), quarter, "held"),
                        ],
                        node="gpu-02",
                        index=5,
                    ),
                    bracket=Record(x="50%", width="50%", text="seg-xl"),
                ),
                at=at(17, 20),
                soon=False,
                basis="At the latest, if longest runs hold",
            ),
            Record(
                id="q2",
                name="night-run",
                url="/sessions/2/",
                share=SIZES["1"],
                what="1 A100 80GB, preemptible",
                waiting_text="waiting 12 min",
                holds_micro=cr("15"),
                place=2,
                of_text="of 2 for A100 80GB",
                title="Passed over: Vision Lab uses 2 of 2 whole cards",
                text="It keeps its place. It starts once a whole card of the group comes back, or the group's limit is raised.",
                picture=Record(kind="cards", cards=[strip("1"), strip("1")], text="limit 2, set by Engineering"),
                at=None,
                soon=False,
                basis="The sessions in the way have no longest run",
            ),
            Record(
                id="q3",
                name="llm-eval",
                url="/sessions/3/",
                share=SIZES["1"],
                what="1 H100 80GB, Language Lab",
                waiting_text="waiting 22 min",
                holds_micro=cr("110"),
                place=3,
                of_text="of 3 for H100 80GB",
                title="All 8 H100 are taken, and two requests are before yours",
                text="Sessions on four whole cards must end by 16:58. The two before you need three of them.",
                picture=Record(
                    kind="line",
                    card=CardPicture(
                        [
                            CardPart(Fraction(0), Fraction(1, 2), "other", "1st", "2 cards"),
                            CardPart(Fraction(1, 2), quarter, "other", "2nd", "1 card"),
                            CardPart(Fraction(3, 4), quarter, "mine", "3rd", "llm-eval"),
                        ]
                    ),
                ),
                at=at(17, 0),
                soon=False,
                basis="From longest runs, earlier if somebody stops",
            ),
        ],
        "lanes": [
            Record(
                name="A100 80GB",
                waiting=2,
                first_wait="14 min",
                median_wait="4 min",
                longest_wait="1 h 10 min",
                series=series("Waiting", wave(1, 3, 72), 5),
            ),
            Record(
                name="H100 80GB",
                waiting=3,
                first_wait="36 min",
                median_wait="26 min",
                longest_wait="3 h 05 min",
                series=series("Waiting", wave(2, 4, 72), 7),
            ),
            Record(
                name="T4 16GB",
                waiting=0,
                first_wait="",
                median_wait="0 min",
                longest_wait="6 min",
                series=series("Waiting", wave(0, 0.1, 72), 5),
            ),
        ],
        "lanes_note": "priority first, then waiting time. Your use of the last week moves you back 6 min",
    }


def queue_empty() -> dict[str, Any]:
    """Nothing waits."""
    return queue() | {"entries": [], "queue_text": ""}
