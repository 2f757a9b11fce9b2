"""Prices, costs and holds, against cases computed by hand."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction

import pytest

from billing.domain.pricing import Price, charge_micro, covered_us, hold_micro, hourly_micro, shortest_us
from gshare_core.money import parse_credits

HOUR = timedelta(hours=1)
HOUR_US = 3_600_000_000


def price(rate: str, occupancy: Fraction = Fraction(1), factor: int = 1000) -> Price:
    return Price(parse_credits(rate), occupancy, factor)


@pytest.mark.parametrize(
    ("rate", "occupancy", "factor", "hourly"),
    [
        ("50", Fraction(1, 4), 1000, "12.5"),
        ("50", Fraction(1, 8), 1000, "6.25"),
        ("110", Fraction(1, 4), 1000, "27.5"),
        ("110", Fraction(8), 1000, "880"),
        ("8", Fraction(1, 16), 1000, "0.5"),
        ("50", Fraction(1, 4), 300, "3.75"),
        ("0.000001", Fraction(1, 16), 1000, "0"),  # floors below a micro-credit
        ("1", Fraction(1, 3), 1000, "0.333333"),
    ],
)
def test_an_hour_costs_rate_times_occupancy_times_factor_floored(
    rate: str, occupancy: Fraction, factor: int, hourly: str
) -> None:
    assert hourly_micro(price(rate, occupancy, factor)) == parse_credits(hourly)


@pytest.mark.parametrize(
    ("microseconds", "cost"),
    [
        (0, 0),
        (287, 0),  # 12.5 credits an hour are 1 micro-credit each 288 microseconds
        (288, 1),
        (1_000_000, 3472),  # 3472.2…
        (HOUR_US - 1, 12_499_999),
        (HOUR_US, 12_500_000),
        (90 * 60 * 1_000_000, 18_750_000),
        (365 * 24 * HOUR_US, 109_500_000_000),
    ],
)
def test_a_stretch_costs_its_exact_share_floored_to_the_micro_credit(microseconds: int, cost: int) -> None:
    assert charge_micro(price("50", Fraction(1, 4)), microseconds) == cost


def test_four_quarter_cards_for_an_hour_cost_exactly_what_one_card_costs() -> None:
    for rate in ("50", "110", "8", "0.000007", "33.333333"):
        whole = charge_micro(price(rate), 4 * HOUR_US)
        quarter = charge_micro(price(rate, Fraction(1, 4)), 4 * HOUR_US)
        assert whole - 4 * quarter in range(4)  # only the four floors differ
    assert 4 * hourly_micro(price("50", Fraction(1, 4))) == hourly_micro(price("50"))
    assert 8 * hourly_micro(price("50", Fraction(1, 8))) == hourly_micro(price("50"))
    assert 16 * hourly_micro(price("50", Fraction(1, 16))) == hourly_micro(price("50"))


def test_a_hold_covers_its_window_and_is_rounded_up() -> None:
    assert hold_micro(price("50", Fraction(1, 4)), HOUR) == parse_credits("12.5")
    assert hold_micro(price("1", Fraction(1, 3)), HOUR) == 333_334
    assert hold_micro(price("50", Fraction(1, 4)), timedelta(minutes=30)) == parse_credits("6.25")


def test_a_hold_is_at_least_one_second_and_never_zero_for_a_paid_session() -> None:
    assert hold_micro(price("50", Fraction(1, 4)), timedelta(0)) == 3473
    assert hold_micro(price("0.000001", Fraction(1, 16)), timedelta(0)) == 1
    assert hold_micro(price("0.000001", Fraction(1, 16), 1), HOUR) == 1


def test_what_a_hold_pays_for_is_never_more_than_its_amount() -> None:
    for rate, share in (("50", Fraction(1, 4)), ("33.333333", Fraction(3, 7)), ("0.000009", Fraction(1, 16))):
        one = price(rate, share)
        for amount in (1, 2, 999, 12_500_000):
            reach = covered_us(one, amount)
            assert charge_micro(one, reach) <= amount
            assert charge_micro(one, reach + 1) >= amount or charge_micro(one, reach) == amount


def test_the_shortest_time_of_an_amount_reaches_it_and_a_microsecond_less_does_not() -> None:
    one = price("33.333333", Fraction(3, 7))
    for amount in (1, 2, 12_345, 10_000_001):
        reach = shortest_us(one, amount)
        assert charge_micro(one, reach) >= amount
        assert charge_micro(one, reach - 1) < amount


@pytest.mark.parametrize(
    ("rate", "occupancy", "factor"),
    [
        (0, Fraction(1), 1000),
        (-1, Fraction(1), 1000),
        (1, Fraction(0), 1000),
        (1, Fraction(1), 0),
        (1, Fraction(1), 1001),
    ],
)
def test_a_price_that_is_not_positive_is_refused_and_never_means_free(
    rate: int, occupancy: Fraction, factor: int
) -> None:
    with pytest.raises(ValueError):
        Price(rate, occupancy, factor)
