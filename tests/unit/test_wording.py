"""Numbers, times and states as a person reads them."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from django.utils import timezone, translation

from gshare_core.kit import wording

NOW = datetime(2026, 10, 14, 7, 42, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _seoul():
    with timezone.override("Asia/Seoul"), translation.override("en"):
        yield


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (5520, "1 h 32 min"),
        (11100, "3 h 05 min"),
        (86400, "1 d"),
        (187200, "2 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_a_span_reads_in_its_two_largest_units(seconds, words):
    assert wording.duration(seconds) == words
    assert wording.duration(timedelta(seconds=seconds, milliseconds=400 if seconds >= 0 else 0)) == words


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (20389, ("19.9", "GiB")),
        (10194, ("9.9", "GiB")),
        (81559, ("79.6", "GiB")),
        (32768, ("32", "GiB")),
        (512, ("512", "MiB")),
        (1572864, ("1.5", "TiB")),
    ],
)
def test_memory_is_floored_so_that_nobody_is_shown_more_than_he_has(mib, text):
    assert wording.memory(mib) == text


def test_times_are_as_short_as_they_can_be_without_losing_the_day():
    assert wording.clock(NOW - timedelta(minutes=2), NOW) == "16:40"
    assert wording.clock(NOW + timedelta(hours=15, minutes=32), NOW) == "Thu 08:14"
    assert wording.clock(NOW - timedelta(days=20), NOW) == "24 Sep 16:42"
    assert wording.day(NOW, NOW) == "Today"
    assert wording.day(NOW - timedelta(days=1), NOW) == "Yesterday"
    assert wording.day(NOW - timedelta(days=2), NOW) == "Mon 12 Oct"
    assert wording.day(NOW - timedelta(days=400), NOW) == "9 Sep 2025"


def test_the_day_is_the_readers_not_the_servers():
    before, after = datetime(2026, 10, 14, 14, 30, tzinfo=UTC), datetime(2026, 10, 14, 15, 30, tzinfo=UTC)
    assert wording.day(before, after) == "Yesterday", "one hour ago, but midnight in Seoul lies between"
    with timezone.override(UTC):
        assert wording.day(before, after) == "Today"


def test_relative_times_look_both_ways_and_turn_into_dates():
    assert wording.relative(NOW - timedelta(minutes=7), NOW) == "7 min ago"
    assert wording.relative(NOW + timedelta(minutes=38), NOW) == "in 38 min"
    assert wording.relative(NOW - timedelta(days=2), NOW) == "Mon 12 Oct"


def test_shares_read_as_fractions_only_where_they_are_plain_ones():
    assert wording.fraction(Fraction(1, 16)) == "1/16"
    assert wording.fraction(Fraction(3, 4)) == "3/4"
    assert wording.fraction(Fraction(2)) == "2"
    assert wording.fraction(Fraction(127, 1000)) == "12.7 %"


def test_places_in_line_are_ordinals():
    assert [wording.ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        "1st",
        "2nd",
        "3rd",
        "4th",
        "11th",
        "12th",
        "13th",
        "21st",
        "112th",
    ]


def test_identifiers_are_shortened_in_their_middle():
    assert wording.short_id("019a2f6e-4c1d-7a55-8e02-61c0aa57b7d0") == "019a2f6e…b7d0"
    assert wording.short_id("sha256:9f3c0b1d2e3f405162738495a6b7c8d9e0f171be") == "sha256:9f3c…71be"
    assert wording.short_id("GPU-5d1e7a90-31c4-4b0e-9f55-2a6c7c1b0c42") == "GPU-5d1e…0c42"
    assert wording.short_id("gpu-01") == "gpu-01"


def test_cores_read_without_needless_decimals():
    assert wording.cores(8000) == "8 cores"
    assert wording.cores(1000) == "1 core"
    assert wording.cores(500) == "0.5 cores"
    assert wording.core_count(1250) == "1.25"


def test_a_reason_without_own_words_is_still_readable():
    assert wording.reason_words("idle") == "was idle"
    assert wording.reason_words("something_new") == "something new"
    assert wording.reason_words(None) == ""
