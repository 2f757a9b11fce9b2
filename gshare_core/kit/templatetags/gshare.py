"""Filters and tags of the templates: thin names for `gshare_core.kit.wording` and `gshare_core.kit.pictures`.

Guarantees: formatting only; no query, no clock (what depends on the present takes `now`). Registered as a builtin library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from django import template
from django.http import HttpRequest
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from gshare_core.kit import pictures, wording
from gshare_core.money import display_credits

register = template.Library()

_SHARES = re.compile(r"(?<![\w/.])([13]/(?:2|4|8|16))(?![\w/])")


@register.filter("credits")
def display(micro: int | None) -> str:
    """Micro-credits as credits with two decimals, half up: ``12500000`` → ``12.50``; nothing for None."""
    return "" if micro is None else display_credits(micro)


@register.filter
def signed_credits(micro: int) -> str:
    """Credits with their sign: ``+100.00``, ``-6.25``, ``0.00``."""
    text = display_credits(micro)
    return f"+{text}" if micro > 0 and text != "0.00" else text


@register.filter
def duration(span: timedelta | int | None) -> str:
    """Seconds or a timedelta in its two largest units."""
    return "" if span is None else wording.duration(span)


@register.filter
def ago(at: datetime | None, now: datetime) -> str:
    """How far a time is from now."""
    return "" if at is None else wording.relative(at, now)


@register.filter
def clock(at: datetime | None, now: datetime) -> str:
    """The shortest exact time."""
    return "" if at is None else wording.clock(at, now)


@register.filter
def day(at: datetime | None, now: datetime) -> str:
    """The day of a time."""
    return "" if at is None else wording.day(at, now)


@register.filter
def exact(at: datetime | None) -> str:
    """A time with everything, for tooltips."""
    return "" if at is None else wording.exact(at)


@register.filter
def until(at: datetime | None, now: datetime) -> str:
    """How long until a time; nothing is left when it has passed."""
    return "" if at is None else wording.duration(at - now)


@register.filter
def exact_clock(at: datetime | None) -> str:
    """Hours and minutes in the reader's zone, for the tables behind charts."""
    return "" if at is None else wording.hours_minutes(at)


@register.filter
def epoch(at: datetime) -> str:
    """Whole seconds since 1970, for scripts."""
    return str(int(at.timestamp()))


@register.filter
def iso(at: datetime | None) -> str:
    """RFC 3339, for the `datetime` attribute."""
    return "" if at is None else at.isoformat()


@register.filter
def mib(value: int | None) -> SafeString | str:
    """A memory size with its unit: ``19.9 GiB``."""
    if value is None:
        return ""
    number, unit = wording.memory(value)
    return f"{number}\N{NO-BREAK SPACE}{unit}"


@register.filter
def gib(value: int | None) -> str:
    """A memory size in GiB without the unit."""
    return "" if value is None else wording.gibibytes(value)


@register.filter
def cores(milli: int | None) -> str:
    """CPU in cores with the unit."""
    return "" if milli is None else wording.cores(milli)


@register.filter
def core_count(milli: int | None) -> str:
    """CPU in cores without the unit."""
    return "" if milli is None else wording.core_count(milli)


@register.filter
def share(value: Fraction | str) -> SafeString:
    """A share of a card, set as a fraction: 1/4."""
    text = value if isinstance(value, str) else wording.fraction(value)
    return format_html('<span class="frac">{}</span>', text) if "/" in text else format_html("{}", text)


@register.filter(is_safe=False)
def fractions(text: str) -> SafeString:
    """A sentence in which shares of a card, such as 1/8, are set as fractions."""
    return mark_safe(_SHARES.sub(r'<span class="frac">\1</span>', conditional_escape(text)))  # noqa: S308 -- escaped, then our own markup


@register.filter
def ordinal(number: int | None) -> str:
    """A place in line."""
    return "" if number is None else wording.ordinal(number)


@register.filter
def short_id(value: object) -> str:
    """An identifier shortened in its middle."""
    return wording.short_id(str(value))


@register.filter
def reason_words(reason: str | None) -> str:
    """A typed reason in words."""
    return wording.reason_words(reason)


@register.filter
def state_look(state: str) -> wording.StateLook:
    """Icon, tone and word of a session's state."""
    return wording.state_look(state)


@register.filter
def named_bar(size: str) -> bool:
    """Whether a card bar of this height carries names, edges and ticks; strips do not."""
    return size in ("44", "28")


@register.filter
def verdict_icon(outcome: str) -> str:
    """Icon of a verdict: starts, queues or refused."""
    return {"starts": "verdict", "queues": "queued"}.get(outcome, "failed")


@register.filter
def percent_of(value: int | float, limit: int | float) -> str:
    """How far a meter reaches."""
    return pictures.filled(value, limit)


@register.filter
def share_width(value: Fraction) -> str:
    """A share as the width of a picture's part."""
    return pictures.percent(min(Fraction(value), Fraction(1)))


@register.filter
def split(parts: Sequence[pictures.SplitPart]) -> list[pictures.PlacedPart]:
    """Parts of an amount with their places."""
    return pictures.split(parts)


@register.filter
def draw_line(series: pictures.Series) -> pictures.LineDrawing:
    """A series as paths."""
    return pictures.draw_line(series)


@register.filter
def table_of(charts: Sequence[pictures.Series]) -> list[tuple[datetime, list[pictures.Point]]]:
    """Several series that share their times as one table: a time, then a point of each."""
    return [(points[0].at, list(points)) for points in zip(*(series.points for series in charts), strict=False)]


@register.simple_tag
def draw_bars(
    bars: Sequence[pictures.Bar], slots: int | None = None, top: float | None = None
) -> list[pictures.PlacedBar]:
    """Bars with their places; `slots` leaves room for days to come, `top` is the highest value of the scale."""
    return pictures.draw_bars(bars, top, slots=slots)


@register.filter
def time_scale(window: Any, now: datetime) -> pictures.TimeScale:
    """The line of an idle window (`since`, `pause_at`, `warnings`)."""
    return pictures.time_scale(window.since, window.pause_at, now, window.warnings)


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: Any) -> str:
    """The present address's query with some parameters changed, None removes one: ``?q=vit&page=…``."""
    request: HttpRequest | None = context.get("request")
    params = request.GET.copy() if request is not None else None
    if params is None:
        return "?"
    for name, value in changes.items():
        if value is None or value == "":
            params.pop(name, None)
        else:
            params[name] = str(value)
    return f"?{params.urlencode()}"


@register.simple_tag(takes_context=True)
def current(context: template.Context, path: str, *, exactly: bool = False) -> str:
    """``page`` when `path` is this page, ``true`` when this page lies below it, else nothing: for `aria-current`."""
    request: HttpRequest | None = context.get("request")
    if request is None:
        return ""
    if request.path == path:
        return "page"
    return "true" if not exactly and path != "/" and request.path.startswith(path) else ""


@register.simple_tag
def time_words() -> SafeString:
    """The words with which the page keeps relative times true: the very ones that the server used."""
    return format_html(
        '<template id="time-words" data-seconds="{}" data-minutes="{}" data-hours="{}" data-hours-minutes="{}"'
        ' data-days="{}" data-days-hours="{}" data-ago="{}" data-ahead="{}"></template>',
        gettext("%(seconds)d s"),
        gettext("%(minutes)d min"),
        gettext("%(hours)d h"),
        gettext("%(hours)d h %(minutes)02d min"),
        gettext("%(days)d d"),
        gettext("%(days)d d %(hours)d h"),
        gettext("%(span)s ago"),
        gettext("in %(span)s"),
    )


@register.filter
def undo_url(tags: str | None) -> str:
    """The address that takes an act back, from a message's extra tags ``"undo /volumes/…/restore/"``."""
    word, _, url = (tags or "").partition(" ")
    return url.split(" ")[0] if word == "undo" else ""
