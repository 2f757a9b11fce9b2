"""Every component with sample data on one page: for who builds the console. Registered in development and tests only.

Guarantees: reads nothing but its own samples; shows each look that a component has.
"""

from __future__ import annotations

from fractions import Fraction

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path

from gshare_core.kit.pictures import CardPart, CardPicture, SplitPart
from gshare_core.kit.wording import STATE_LOOKS

HALF, QUARTER, EIGHTH, SIXTEENTH = Fraction(1, 2), Fraction(1, 4), Fraction(1, 8), Fraction(1, 16)


def at(eighths: int) -> Fraction:
    """A place on the card in eighths."""
    return Fraction(eighths, 8)


def session(
    start: int, share: Fraction, name: str, size: str = "", used: int | None = None, tone: str = "running"
) -> CardPart:
    """A named session as administrators see it; `used` in percent of its memory."""
    return CardPart(at(start), share, "session", name, size, tone, Fraction(used, 100) if used is not None else None)


OWN_PAGE = CardPicture(
    [
        CardPart(at(0), QUARTER, "mine", "vit-ft", used=Fraction(3, 4)),
        CardPart(at(2), QUARTER, "other"),
        CardPart(at(4), EIGHTH, "other"),
        CardPart(at(5), QUARTER, "planned", "vit-large"),
    ]
)
FLEET = [
    CardPicture(
        [
            session(0, QUARTER, "alice", "L", 76),
            session(2, QUARTER, "bob", "L", tone="starting"),
            session(4, QUARTER, "zed", "L", tone="paused"),
            session(6, EIGHTH, "pam", tone="lost"),
        ]
    ),
    CardPicture(
        [session(0, QUARTER, "cleo", "L", 47), session(2, EIGHTH, "dov", used=62)],
        look="draining",
        note="drains to MIG",
    ),
    CardPicture(
        [
            session(0, HALF, "nils", "3g", 94),
            session(4, QUARTER, "olga", "2g", 77),
            session(6, EIGHTH, "paz", used=40),
            CardPart(at(7), EIGHTH, "free", "1g"),
        ],
        mig=True,
    ),
    CardPicture(
        [
            CardPart(
                at(0),
                Fraction(1),
                "session",
                "tess",
                tone="paused",
                borrower=session(0, Fraction(1), "max", "borrows the whole card", 64),
            )
        ]
    ),
    CardPicture(
        [
            session(0, QUARTER, "nat", "L", 83),
            CardPart(at(2), QUARTER, "foreign"),
            CardPart(at(4), HALF, "held", size="seg-xl"),
        ]
    ),
    CardPicture([session(0, QUARTER, "omar", "L", tone="lost"), session(2, EIGHTH, "pam", tone="lost")], look="silent"),
]


def strip(*eighths: int, mine: int | None = None, look: str = "ready", held: bool = False) -> CardPicture:
    """A card of a strip: sizes in eighths, one after the other; 0 is an eighth left free."""
    parts, start = [], 0
    for place, size in enumerate(eighths):
        if size:
            parts.append(CardPart(at(start), at(size), "mine" if place == mine else "other"))
        start += size or 1
    if held:
        parts.append(CardPart(at(start), QUARTER, "held"))
    return CardPicture(parts, look=look)


STRIPS = [
    strip(2, 2, 4, mine=0),
    strip(4, 1),
    strip(4, 2, 1, 1),
    strip(4, 1, mine=1),
    strip(8),
    strip(2, 2, 2),
    strip(4, 2),
    strip(1, 1, 2, 2),
]
SMALL_STRIPS = [
    strip(8),
    strip(8),
    strip(4, 2, 1),
    strip(4, 1),
    strip(2, 1, look="draining"),
    strip(2, 2, 2, held=True),
    strip(4, 2, 1),
    strip(2, 0, 0, 2, look="silent"),
]
SHARES = [("XL", HALF), ("L", QUARTER), ("M", EIGHTH), ("S", SIXTEENTH)]
LIMITS = [
    {"name": "Sessions", "value": 2, "limit": 4, "value_text": "2", "limit_text": "4", "tone": ""},
    {"name": "Storage", "value": 462, "limit": 500, "value_text": "462", "limit_text": "500 GiB", "tone": "caution"},
    {"name": "Waiting", "value": 4, "limit": 4, "value_text": "4", "limit_text": "4", "tone": "full"},
]
WALLET = [
    SplitPart(240_000_000, "pale", "spent", "240.00 cr"),
    SplitPart(168_750_000, "grey", "held", "168.75 cr"),
    SplitPart(291_250_000, "accent", "available", "291.25 cr"),
]


class SampleForm(forms.Form):
    """Fields with a hint, in focus, refused."""

    name = forms.CharField(label="Name", help_text="Letters, digits, hyphens")
    focus = forms.CharField(label="Focus")
    amount = forms.CharField(label="Amount")


def sample_form() -> SampleForm:
    """The form after the server refused its amount."""
    form = SampleForm({"name": "vit-large", "focus": "vit-large", "amount": "9,000.00"})
    form.add_error("amount", "Vision Lab has 3,100.00 cr free")
    return form


def parts(request: HttpRequest) -> HttpResponse:
    """The gallery."""
    return render(
        request,
        "components/gallery.html",
        {
            "states": STATE_LOOKS,
            "own": OWN_PAGE,
            "fleet": FLEET,
            "strips": STRIPS,
            "small_strips": SMALL_STRIPS,
            "shares": SHARES,
            "limits": LIMITS,
            "wallet": WALLET,
            "form": sample_form(),
        },
    )


urlpatterns = [path("gallery/", parts, name="gallery")]
