"""Dividing by weight."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.domain.shares import split


def test_parts_are_by_weight_and_lose_nothing() -> None:
    assert split(50, [60, 40]) == [30, 20]
    assert split(10, [1, 1, 1]) == [3, 3, 4]
    assert split(0, [5, 0]) == [0, 0]
    assert split(7, [0, 7, 0]) == [0, 7, 0]
    assert split(0, []) == []


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=8), st.data())
def test_parts_add_up_and_stay_within_their_weights(weights: list[int], data: st.DataObject) -> None:
    amount = data.draw(st.integers(0, sum(weights)))
    parts = split(amount, weights)
    assert sum(parts) == amount
    assert all(0 <= part <= weight for part, weight in zip(parts, weights, strict=True))


@pytest.mark.parametrize(("amount", "weights"), [(1, []), (1, [0]), (-1, [1]), (1, [-1, 3])])
def test_what_cannot_be_divided_is_refused(amount: int, weights: list[int]) -> None:
    with pytest.raises(ValueError, match="weight"):
        split(amount, weights)
