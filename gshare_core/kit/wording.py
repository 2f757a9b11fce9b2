"""How numbers, times and states read on a screen.

Guarantees: pure functions of their arguments (no clock, no query), integer arithmetic, words through gettext so that every
language is complete. Money, memory and shares are rounded towards what a user really has: memory is floored.
Refuses: naive datetimes, and a state it has no icon, word and tone for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction

from django.utils import timezone
from django.utils.dateformat import format as format_date
from django.utils.functional import Promise
from django.utils.translation import get_language, gettext, ngettext, pgettext
from django.utils.translation import gettext_lazy as _

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
MIB_PER_GIB = 1024
MIB_PER_TIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StateLook:
    """What a state of a session wears: an icon of the sprite, a tone of the tokens, a word, one line that explains it."""

    icon: str
    tone: str
    word: str | Promise
    meaning: str | Promise
    moving: bool = False


STATE_LOOKS: Mapping[str, StateLook] = {
    "queued": StateLook("queued", "queued", _("queued"), _("waits for room")),
    "starting": StateLook("moving", "starting", _("starting"), _("card taken, coming up"), moving=True),
    "running": StateLook("running", "running", _("running"), _("ready, billed")),
    "pausing": StateLook("moving", "paused", _("pausing"), _("on the way to paused"), moving=True),
    "yielding": StateLook("moving", "paused", _("yielding"), _("memory goes to the host"), moving=True),
    "yielded": StateLook("yielded", "paused", _("yielded"), _("in place, card lent")),
    "resuming": StateLook("moving", "starting", _("resuming"), _("memory moves back"), moving=True),
    "paused": StateLook("paused", "paused", _("paused"), _("free, volumes kept")),
    "lost": StateLook("lost", "lost", _("lost"), _("silent, not billed")),
    "stopping": StateLook("moving", "paused", _("stopping"), _("on the way to stopped"), moving=True),
    "stopped": StateLook("stopped", "paused", _("stopped"), _("ended by somebody")),
    "failed": StateLook("failed", "failed", _("failed"), _("ended by an error")),
}

REASONS: Mapping[str, str | Promise] = {
    "user": _("by request"),
    "admin": _("by an administrator"),
    "idle": _("was idle"),
    "credit_exhausted": _("credits used up"),
    "budget_exhausted": _("budget used up"),
    "max_runtime": _("longest run reached"),
    "preempted": _("made room for a higher priority"),
    "access_revoked": _("access was taken away"),
    "start_timeout": _("did not start in time"),
    "image_pull_failed": _("image could not be pulled"),
    "mount_failed": _("volume could not be mounted"),
    "crash_loop": _("program kept crashing"),
    "exited": _("program ended by itself"),
    "node_lost": _("node fell silent"),
    "cluster_lost": _("cluster fell silent"),
    "cluster_stopped": _("cluster was stopped"),
    "evicted": _("evicted from the node"),
    "disk_exceeded": _("scratch space exceeded"),
    "drained": _("node was drained"),
    "placement_failed": _("could not be placed"),
    "vanished": _("its process vanished"),
}


def state_look(state: str) -> StateLook:
    """The look of a session's state. Raises KeyError for a state that does not exist."""
    return STATE_LOOKS[state]


def reason_words(reason: str | None) -> str:
    """A typed reason in words; a reason without own words is shown as it is, with spaces."""
    if not reason:
        return ""
    return str(REASONS.get(reason, reason.replace("_", " ")))


def duration(span: timedelta | int) -> str:
    """A span (or whole seconds) in its two largest units: ``5520`` → ``1 h 32 min``; negative spans count as none."""
    seconds = max(0, span // timedelta(seconds=1) if isinstance(span, timedelta) else int(span))
    if seconds < MINUTE:
        return gettext("%(seconds)d s") % {"seconds": seconds}
    if seconds < HOUR:
        return gettext("%(minutes)d min") % {"minutes": seconds // MINUTE}
    if seconds < DAY:
        hours, minutes = divmod(seconds // MINUTE, 60)
        if not minutes:
            return gettext("%(hours)d h") % {"hours": hours}
        return gettext("%(hours)d h %(minutes)02d min") % {"hours": hours, "minutes": minutes}
    days, hours = divmod(seconds // HOUR, 24)
    if not hours:
        return gettext("%(days)d d") % {"days": days}
    return gettext("%(days)d d %(hours)d h") % {"days": days, "hours": hours}


def relative(at: datetime, now: datetime) -> str:
    """How far `at` is from `now`: ``7 min ago``, ``in 38 min``; beyond two days the date."""
    span = at - now
    if abs(span) >= timedelta(days=2):
        return day(at, now)
    if span > timedelta(0):
        return gettext("in %(span)s") % {"span": duration(span)}
    return gettext("%(span)s ago") % {"span": duration(-span)}


def clock(at: datetime, now: datetime) -> str:
    """The shortest exact time in the reader's zone: ``16:40`` today, ``Thu 08:14`` within a week, else with the date."""
    local, here = timezone.localtime(at), timezone.localtime(now)
    if local.date() == here.date():
        return format_date(local, "H:i")
    if abs((local.date() - here.date()).days) < 7:
        return format_date(local, pgettext("date format: weekday and time", "D H:i"))
    return format_date(local, pgettext("date format: day, month and time", "j M H:i"))


def hours_minutes(at: datetime) -> str:
    """Hours and minutes in the reader's zone."""
    return format_date(timezone.localtime(at), "H:i")


def day(at: datetime, now: datetime) -> str:
    """The day in the reader's zone: Today, Yesterday, ``Mon 12 Oct``, with the year when it is another one."""
    local, here = timezone.localtime(at), timezone.localtime(now)
    distance = (here.date() - local.date()).days
    if distance == 0:
        return gettext("Today")
    if distance == 1:
        return gettext("Yesterday")
    if local.year != here.year:
        return format_date(local, pgettext("date format: day with year", "j M Y"))
    return format_date(local, pgettext("date format: weekday and day", "D j M"))


def month_day(at: date) -> str:
    """A day without its year, for axes; a time in the reader's zone."""
    shown = timezone.localtime(at) if isinstance(at, datetime) else at
    return format_date(shown, pgettext("date format: day and month", "j M"))


def month(at: date) -> str:
    """A month with its year."""
    return format_date(at, pgettext("date format: month and year", "F Y"))


def exact(at: datetime) -> str:
    """The whole truth for a tooltip: weekday, date, seconds and zone."""
    return format_date(timezone.localtime(at), pgettext("date format: everything", "D j M Y, H:i:s T"))


def memory(mib: int) -> tuple[str, str]:
    """Number and unit of a memory size, floored to one decimal: ``20389`` → ``("19.9", "GiB")``."""
    if abs(mib) >= MIB_PER_TIB:
        return _tenths(mib, MIB_PER_TIB), "TiB"
    if abs(mib) >= MIB_PER_GIB:
        return _tenths(mib, MIB_PER_GIB), "GiB"
    return str(mib), "MiB"


def gibibytes(mib: int) -> str:
    """A memory size as a number of GiB, floored to one decimal, for columns that say the unit once."""
    return _tenths(mib, MIB_PER_GIB)


def _tenths(value: int, unit: int) -> str:
    whole, tenth = divmod(abs(value) * 10 // unit, 10)
    return f"{'-' if value < 0 else ''}{whole:,}" + (f".{tenth}" if tenth else "")


def cores(milli: int) -> str:
    """CPU in cores with the unit: ``8000`` → ``8 cores``, ``500`` → ``0.5 cores``."""
    number = core_count(milli)
    return ngettext("%(cores)s core", "%(cores)s cores", 1 if milli == 1000 else 2) % {"cores": number}


def core_count(milli: int) -> str:
    """CPU in cores without the unit, at most two decimals."""
    whole, rest = divmod(milli, 1000)
    return f"{whole}.{rest // 10:02d}".rstrip("0").rstrip(".") if rest >= 10 else str(whole)


def fraction(share: Fraction) -> str:
    """A share of a card as text: ``1/4``, or ``12.7 %`` where the denominator is no power of two."""
    if share.denominator == 1:
        return str(share.numerator)
    if share.denominator in (2, 4, 8, 16) and share < 1:
        return f"{share.numerator}/{share.denominator}"
    tenths = share.numerator * 1000 // share.denominator
    return f"{tenths // 10}.{tenths % 10} %" if tenths % 10 else f"{tenths // 10} %"


def ordinal(number: int) -> str:
    """A place in line: ``1st``, ``2nd``, ``13th``."""
    if (get_language() or "en").split("-")[0] != "en":
        return gettext("no. %(number)d") % {"number": number}
    tail = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{tail}"


def short_id(text: str) -> str:
    """An identifier shortened in its middle: ``019a2f6e…b7d0``; a digest keeps its algorithm; short ones stay whole."""
    head, colon, rest = text.rpartition(":")
    if len(rest) <= 14:
        return text
    keep = 4 if colon or rest.startswith("GPU-") else 8
    if rest.startswith("GPU-"):
        return f"{rest[:8]}…{rest[-4:]}"
    return f"{head}{colon}{rest[:keep]}…{rest[-4:]}"
