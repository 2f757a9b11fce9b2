"""Geometry of the pictures that templates draw: card bars, share marks, meters, charts.

Guarantees: pure; positions come out as percent strings of the picture's own width or height, so that one picture fits
every width; shares are exact fractions until that last step; the same card always draws the same way.
Refuses: parts that reach beyond their card, and kinds or looks that the style sheet does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction

from django.utils.translation import gettext

from gshare_core.kit.wording import fraction

KINDS = frozenset({"mine", "other", "planned", "session", "free", "held", "foreign"})
LOOKS = frozenset({"ready", "draining", "silent"})


@dataclass(frozen=True, slots=True)
class CardPart:
    """One part of a card, from `start` for `share` of it.

    `kind`: mine and other (members see no names), planned (you would land here), session (administrators: name and
    `tone` of the state), free (an empty MIG slot), held (for the queue), foreign (not ours).
    `used` is the measured part of the reserved memory, None when nobody measured. `borrower` sits inside a lent card.
    """

    start: Fraction
    share: Fraction
    kind: str
    name: str = ""
    size: str = ""
    tone: str = ""
    used: Fraction | None = None
    href: str = ""
    title: str = ""
    borrower: CardPart | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"a card bar knows no part {self.kind!r}")
        if self.start < 0 or self.share <= 0 or self.start + self.share > 1:
            raise ValueError(f"{self.kind} {self.name!r} reaches beyond its card")

    @property
    def x(self) -> str:
        """Where the part starts, in percent of the card."""
        return percent(self.start)

    @property
    def width(self) -> str:
        """How wide the part is, in percent of the card."""
        return percent(self.share)

    @property
    def used_width(self) -> str:
        """How far the line at the part's foot reaches, in percent of the part."""
        return percent(min(self.used, Fraction(1))) if self.used is not None else ""

    @property
    def edged(self) -> bool:
        """Whether the part wears the thick edge of something that runs here."""
        return self.kind in ("mine", "other", "session", "foreign") and self.borrower is None

    @property
    def label(self) -> str:
        """The word inside the part."""
        kinds = {"other": gettext("in use"), "foreign": gettext("foreign"), "held": gettext("held")}
        return self.name or kinds.get(self.kind, "")

    @property
    def words(self) -> str:
        """The part as a sentence, for the tooltip and for who does not see the picture."""
        if self.title:
            return self.title
        who = {
            "other": gettext("in use"),
            "free": gettext("free slot"),
            "foreign": gettext("used by others than GShare"),
            "held": gettext("held for %(name)s") % {"name": self.size} if self.size else gettext("held for the queue"),
            "planned": gettext("%(name)s would land here") % {"name": self.name},
        }.get(self.kind, self.name)
        return gettext("%(who)s, %(share)s of the card") % {"who": who, "share": fraction(self.share)}


@dataclass(frozen=True, slots=True)
class CardPicture:
    """One card with what sits on it, in the order on the card."""

    parts: Sequence[CardPart] = ()
    look: str = "ready"
    mig: bool = False
    node: str = ""
    index: int = 0
    note: str = ""
    href: str = ""

    def __post_init__(self) -> None:
        if self.look not in LOOKS:
            raise ValueError(f"a card bar knows no look {self.look!r}")

    @property
    def role(self) -> str:
        """What the picture is to who does not see it: one image, or a group when its parts lead somewhere."""
        return "group" if any(part.href for part in self.parts) else "img"

    @property
    def taken(self) -> Fraction:
        """The share that is in use or held."""
        return sum((part.share for part in self.parts if part.kind not in ("free", "planned")), Fraction(0))

    @property
    def free_x(self) -> str:
        """Where the room behind the last part begins: the place of the card's note."""
        return percent(max((part.start + part.share for part in self.parts), default=Fraction(0)))

    @property
    def free_width(self) -> str:
        """Room behind the last part, in percent of the card."""
        return percent(1 - max((part.start + part.share for part in self.parts), default=Fraction(0)))

    @property
    def words(self) -> str:
        """The whole card as a sentence, for who does not see the picture."""
        name = gettext("%(node)s card %(index)d") % {"node": self.node, "index": self.index} if self.node else ""
        look = {"draining": gettext("draining"), "silent": gettext("silent")}.get(self.look, "")
        says = [part.words for part in self.parts] or [gettext("free")]
        return "; ".join(text for text in (name, look, *says, self.note) if text)


@dataclass(frozen=True, slots=True)
class SplitPart:
    """One part of an amount, such as held of a balance. `tone`: accent, mine, grey, pale."""

    amount: int
    tone: str
    word: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A part of an amount with its place in percent of the whole."""

    part: SplitPart
    x: str
    width: str


def split(parts: Sequence[SplitPart]) -> list[PlacedPart]:
    """Parts of an amount side by side, to scale; parts of nothing are left out."""
    whole = sum(part.amount for part in parts)
    placed: list[PlacedPart] = []
    before = 0
    for part in parts:
        if part.amount > 0:
            placed.append(PlacedPart(part, percent(Fraction(before, whole)), percent(Fraction(part.amount, whole))))
            before += part.amount
    return placed


def filled(value: int | float, limit: int | float) -> str:
    """How far a meter reaches, in percent, between nothing and full; a limit of 0 is full as soon as anything is used."""
    if limit <= 0:
        return "100%" if value > 0 else "0%"
    return percent(min(Fraction(1), max(Fraction(0), Fraction(value) / Fraction(limit))))


def percent(share: Fraction) -> str:
    """A share as a percent string with at most four decimals, as SVG wants it."""
    text = f"{share.numerator * 1_000_000 // share.denominator / 10_000:.4f}".rstrip("0").rstrip(".")
    return f"{text}%"


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a series; None is a gap."""

    at: datetime
    value: float | None
    text: str = ""

    @property
    def number(self) -> str:
        """The value for scripts, whatever the reader's language; empty for a gap."""
        return "" if self.value is None else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Zone:
    """A stretch of time that is marked, such as idle."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Mark:
    """A word beside a point of a chart. `side`: start (to its right), middle (above it), end (to its left)."""

    at: datetime
    value: float
    text: str
    side: str = "start"
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """What a line chart shows: one series between `start` and `end`, from 0 to `top`.

    `levels` are its hairlines with their words, the unit only on the highest; `points` are also the table behind
    it, whose times are written with their day when `days`.
    """

    name: str
    points: Sequence[Point]
    start: datetime
    end: datetime
    top: float
    unit: str = ""
    levels: Sequence[tuple[float, str]] = ()
    now_text: str = ""
    of_text: str = ""
    limit: float | None = None
    zones: Sequence[Zone] = ()
    ticks: Sequence[tuple[datetime, str]] = ()
    forecast: Sequence[Point] = ()
    marks: Sequence[Mark] = ()
    note: str = ""
    days: bool = False

    @property
    def top_number(self) -> str:
        """The top of the scale for scripts, whatever the reader's language."""
        return f"{self.top:g}"


@dataclass(frozen=True, slots=True)
class LineDrawing:
    """A series as paths in a box of 1000 by 100 that is stretched to its place, and marks in percent of it."""

    line: str
    area: str
    forecast: str
    dot_x: str
    dot_y: str
    limit_y: str
    zones: Sequence[tuple[str, str]] = field(default_factory=tuple)
    ticks: Sequence[tuple[str, str]] = field(default_factory=tuple)
    levels: Sequence[tuple[str, str]] = field(default_factory=tuple)
    marks: Sequence[tuple[str, str, Mark]] = field(default_factory=tuple)


def draw_line(series: Series) -> LineDrawing:
    """The drawing of a series; gaps end one stroke and begin the next."""
    span = max((series.end - series.start).total_seconds(), 1.0)
    top = series.top if series.top > 0 else 1.0

    def x(at: datetime) -> float:
        return (at - series.start).total_seconds() / span * 1000

    def y(value: float) -> float:
        return 100 - min(max(value / top, 0.0), 1.0) * 100

    strokes: list[list[str]] = [[]]
    ends: list[tuple[float, float]] = []
    for point in series.points:
        if point.value is None:
            strokes.append([])
            continue
        strokes[-1].append(f"{x(point.at):.1f},{y(point.value):.2f}")
        ends.append((x(point.at), y(point.value)))
    strokes = [stroke for stroke in strokes if stroke]
    last = ends[-1] if ends else None
    ahead = [f"{x(p.at):.1f},{y(p.value):.2f}" for p in series.forecast if p.value is not None]
    return LineDrawing(
        line=" ".join("M" + " L".join(stroke) for stroke in strokes),
        area=" ".join(f"M{s[0].split(',')[0]},100 L{' L'.join(s)} L{s[-1].split(',')[0]},100 Z" for s in strokes),
        forecast="M" + " L".join(ahead) if ahead else "",
        dot_x=f"{last[0] / 10:.2f}%" if last else "",
        dot_y=f"{last[1]:.2f}%" if last else "",
        limit_y=f"{y(series.limit):.2f}%" if series.limit is not None else "",
        zones=[(f"{x(z.start) / 10:.2f}%", f"{(x(z.end) - x(z.start)) / 10:.2f}%") for z in series.zones],
        ticks=[(f"{x(at) / 10:.2f}%", text) for at, text in series.ticks],
        levels=[(f"{y(value):.2f}%", text) for value, text in series.levels],
        marks=[(f"{x(mark.at) / 10:.2f}%", f"{y(mark.value):.2f}%", mark) for mark in series.marks],
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a bar chart, such as a day."""

    label: str
    value: float
    text: str = ""
    current: bool = False


@dataclass(frozen=True, slots=True)
class PlacedBar:
    """A bar with its place in percent of the picture."""

    bar: Bar
    x: str
    width: str
    y: str
    height: str


def draw_bars(bars: Sequence[Bar], top: float | None = None, *, slots: int | None = None) -> list[PlacedBar]:
    """Bars side by side with a quarter of their pitch between them; nothing still shows a hairline."""
    count = max(slots or len(bars), 1)
    highest = top or max((bar.value for bar in bars), default=0) or 1.0
    pitch = 100 / count
    placed = []
    for place, bar in enumerate(bars):
        height = max(min(bar.value / highest, 1.0) * 100, 1.0)
        placed.append(
            PlacedBar(
                bar,
                x=f"{place * pitch + pitch * 0.11:.3f}%",
                width=f"{pitch * 0.78:.3f}%",
                y=f"{100 - height:.3f}%",
                height=f"{height:.3f}%",
            )
        )
    return placed


@dataclass(frozen=True, slots=True)
class TimeScale:
    """A window of time as a line: how much is gone, and where its marks stand, in percent."""

    now: str
    anchor: str
    start_shown: bool
    warnings: Sequence[tuple[str, datetime, bool]]  # place, moment, whether its word has room


def time_scale(start: datetime, end: datetime, now: datetime, warnings: Sequence[datetime]) -> TimeScale:
    """The line from `start` to `end`; a word that would stand on another one is left out."""
    span = max((end - start).total_seconds(), 1.0)

    def place(moment: datetime) -> float:
        return min(max((moment - start).total_seconds() / span * 100, 0.0), 100.0)

    here = place(now)
    return TimeScale(
        now=f"{here:.2f}%",
        anchor="end" if here > 90 else "start" if here < 3 else "middle",
        start_shown=here > 12,
        warnings=[(f"{x:.2f}%", moment, _has_room(x, here)) for moment in warnings for x in (place(moment),)],
    )


def _has_room(x: float, here: float) -> bool:
    """Whether a warning's word fits between the words of the present and of the end."""
    return abs(x - here) > 9 and x < 89
