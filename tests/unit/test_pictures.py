"""The geometry of card bars, splits and charts."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gshare_core.kit import pictures
from gshare_core.kit.pictures import Bar, CardPart, CardPicture, Point, Series, SplitPart, Zone

QUARTER = Fraction(1, 4)
NOW = datetime(2026, 10, 14, 7, 42, tzinfo=UTC)


def test_a_part_stands_where_its_share_says_and_is_as_wide():
    part = CardPart(Fraction(5, 8), QUARTER, "planned", "vit-large")
    assert (part.x, part.width) == ("62.5%", "25%")


def test_a_sixteenth_loses_nothing_on_the_way_to_the_picture():
    assert CardPart(Fraction(15, 16), Fraction(1, 16), "other").x == "93.75%"


@pytest.mark.parametrize(
    ("start", "share"), [(Fraction(3, 4), Fraction(1, 2)), (Fraction(0), Fraction(0)), (Fraction(-1, 8), QUARTER)]
)
def test_a_part_that_reaches_beyond_its_card_is_refused(start, share):
    with pytest.raises(ValueError, match="beyond its card"):
        CardPart(start, share, "other")


def test_an_unknown_look_is_refused_instead_of_drawn_without_a_style():
    with pytest.raises(ValueError, match="knows no part"):
        CardPart(Fraction(0), QUARTER, "mystery")
    with pytest.raises(ValueError, match="knows no look"):
        CardPicture(look="broken")


def test_members_read_in_use_and_never_a_name():
    card = CardPicture(
        [CardPart(Fraction(0), QUARTER, "mine", "vit-ft"), CardPart(QUARTER, QUARTER, "other")], node="gpu-01", index=3
    )
    assert card.words == "gpu-01 card 3; vit-ft, 1/4 of the card; in use, 1/4 of the card"


def test_a_card_counts_what_is_taken_but_neither_plans_nor_empty_slots():
    card = CardPicture(
        [
            CardPart(Fraction(0), QUARTER, "other"),
            CardPart(QUARTER, QUARTER, "planned", "next"),
            CardPart(Fraction(1, 2), QUARTER, "free"),
            CardPart(Fraction(3, 4), QUARTER, "held"),
        ]
    )
    assert card.taken == Fraction(1, 2)


@given(st.lists(st.integers(min_value=0, max_value=10**15), min_size=1, max_size=8))
def test_the_parts_of_an_amount_fill_their_line_and_never_overlap(amounts):
    placed = pictures.split([SplitPart(amount, "grey") for amount in amounts])
    assert len(placed) == sum(amount > 0 for amount in amounts)
    edge = 0.0
    for part in placed:
        assert float(part.x[:-1]) == pytest.approx(edge, abs=0.001)
        edge += float(part.width[:-1])
    if placed:
        assert edge == pytest.approx(100, abs=0.001)


@pytest.mark.parametrize(
    ("value", "limit", "width"), [(3, 4, "75%"), (0, 2, "0%"), (5, 4, "100%"), (0, 0, "0%"), (1, 0, "100%")]
)
def test_a_meter_is_full_at_its_limit_and_a_limit_of_none_is_full_at_once(value, limit, width):
    assert pictures.filled(value, limit) == width


def _series(values, **more):
    points = [Point(NOW + timedelta(minutes=i), value) for i, value in enumerate(values)]
    return Series("GPU", points, points[0].at, points[-1].at, 100, **more)


def test_a_gap_in_a_series_interrupts_its_line():
    drawing = pictures.draw_line(_series([10, None, 30, 40]))
    assert drawing.line == "M0.0,90.00 M666.7,70.00 L1000.0,60.00"
    assert (drawing.dot_x, drawing.dot_y) == ("100.00%", "60.00%")


def test_values_beyond_the_scale_stay_inside_the_picture():
    assert pictures.draw_line(_series([-5, 250])).line == "M0.0,100.00 L1000.0,0.00"


def test_a_series_without_a_value_draws_nothing_and_breaks_nothing():
    drawing = pictures.draw_line(_series([None, None], limit=50, zones=(Zone(NOW, NOW + timedelta(seconds=30)),)))
    assert (drawing.line, drawing.area, drawing.dot_x, drawing.limit_y) == ("", "", "", "50.00%")
    assert drawing.zones == [("0.00%", "50.00%")]


def test_bars_leave_room_for_days_to_come():
    placed = pictures.draw_bars([Bar("1", 10.0), Bar("2", 0.0)], 20.0, slots=4)
    assert [bar.x for bar in placed] == ["2.750%", "27.750%"]
    assert placed[0].height == "50.000%"
    assert placed[1].height == "1.000%", "a day without spend still shows that it was counted"


def test_the_idle_line_leaves_out_the_word_that_would_stand_on_another():
    early = pictures.time_scale(
        NOW, NOW + timedelta(minutes=45), NOW + timedelta(minutes=1), [NOW + timedelta(minutes=30)]
    )
    assert not early.start_shown
    assert early.warnings[0][0] == "66.67%"
    late = pictures.time_scale(NOW, NOW + timedelta(minutes=45), NOW + timedelta(minutes=44), [])
    assert (late.anchor, late.start_shown) == ("end", True)
    hour = pictures.time_scale(
        NOW,
        NOW + timedelta(minutes=60),
        NOW + timedelta(minutes=42),
        [NOW + timedelta(minutes=m) for m in (30, 45, 55)],
    )
    assert [worded for _x, _moment, worded in hour.warnings] == [True, False, False], "now and the end stand there"
