"""CUDA versions and the sizes of tiers."""

from __future__ import annotations

from fractions import Fraction

import pytest

from catalog.domain.tiers import Tier, occupancy
from catalog.domain.versions import parse_cuda, satisfies


def test_cuda_versions_compare_as_versions_not_as_text() -> None:
    assert parse_cuda("12.10") > parse_cuda("12.9") > parse_cuda("11.8")
    assert str(parse_cuda("12.10")) == "12.10"


@pytest.mark.parametrize("text", ["", "12", "12.", "12.8.1", "v12.8", "12.08", "1234.1", "12.8\n", " 12.8"])
def test_what_is_no_cuda_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cuda(text)


@pytest.mark.parametrize(
    ("has", "needs", "fits"),
    [
        ("12.8", "12.0", True),
        ("12.10", "12.9", True),
        ("11.8", "12.0", False),
        (None, "12.0", False),
        (None, None, True),
    ],
)
def test_an_image_fits_when_its_cuda_is_not_older(has: str | None, needs: str | None, fits: bool) -> None:
    assert satisfies(has, needs) is fits


def test_eight_m_and_sixteen_s_are_exactly_one_card() -> None:
    assert 8 * occupancy(Tier.M) == 16 * occupancy(Tier.S) == 4 * occupancy(Tier.L) == 2 * occupancy(Tier.XL) == 1
    assert occupancy(Tier.EXCLUSIVE, 3) == Fraction(3)
    assert occupancy(Tier.CPU) == 0
