"""What a tier or a custom wish means on a card."""

from fractions import Fraction

import pytest

from cluster.domain.placement import Fleet, Request
from cluster.domain.shapes import Host, Shape, core_bounds, custom_shape, exclusive_shape, tier_shape
from gshare_core.errors import DomainError
from gshare_core.verdicts import Gate, Verdict
from tests.unit.placement.fleets import H100_MIB, HOST, card, fill, node


def custom(vram_mib=0, core_percent=0, cards=0, offering_vram_mib=80_000, host=HOST):
    return custom_shape(
        vram_mib=vram_mib, core_percent=core_percent, cards=cards, offering_vram_mib=offering_vram_mib, host=host
    )


@pytest.mark.parametrize(
    ("tier", "vram_mib", "core_milli", "core_percent", "occupancy"),
    [
        ("XL", 40_779, 500, 50, Fraction(1, 2)),
        ("L", 20_389, 250, 25, Fraction(1, 4)),
        ("M", 10_194, 125, 12, Fraction(1, 8)),
        ("S", 5_097, 62, 6, Fraction(1, 16)),
    ],
)
def test_a_tiers_limits_are_floored_and_its_occupancy_is_the_tier_itself(
    tier, vram_mib, core_milli, core_percent, occupancy
):
    shape = tier_shape(tier, offering_vram_mib=H100_MIB, host=HOST)
    assert shape == Shape("fractional", 1, vram_mib, core_milli, core_percent, occupancy, 4_000, 8_192, 10)


@pytest.mark.parametrize(("tier", "count"), [("XL", 2), ("L", 4), ("M", 8), ("S", 16)])
@pytest.mark.parametrize("vram_mib", [81_559, 81_920, 46_068, 24_564, 24_576])
def test_a_tier_fills_and_costs_exactly_one_card(tier, count, vram_mib):
    shape = tier_shape(tier, offering_vram_mib=vram_mib, host=HOST)
    assert fill(Fleet([node("a", card("c", vram_mib=vram_mib))]), Request.for_shape(shape)) == count
    assert count * shape.occupancy == 1


def test_two_halves_of_an_80_gib_offering_do_not_fit_a_card_that_reports_81559_mib():
    too_large = tier_shape("XL", offering_vram_mib=81_920, host=HOST)
    assert fill(Fleet([node("a", card("c"))]), Request.for_shape(too_large)) == 1


def test_a_tier_under_a_gibibyte_never_fits():
    verdict = tier_shape("S", offering_vram_mib=15_360, host=HOST)
    assert isinstance(verdict, Verdict)
    assert (verdict.gate, verdict.code) == (Gate.REFERENCES, "never_fits")
    assert verdict.facts["smallest"] == {"vram_mib": 1_024}


def test_exclusive_costs_one_a_card_and_cpu_nothing():
    assert exclusive_shape(3, offering_vram_mib=H100_MIB, host=HOST).occupancy == 3
    assert tier_shape("exclusive", offering_vram_mib=H100_MIB, host=HOST, cards=8).cards == 8
    nothing = tier_shape(None, offering_vram_mib=0, host=HOST)
    assert (nothing.mode, nothing.cards, nothing.vram_mib, nothing.occupancy) == ("cpu", 0, 0, 0)
    assert custom(offering_vram_mib=None) == nothing


ASYMMETRY = [
    # VRAM of 80,000 MiB, percent of cores, what is said
    (20_000, 25, None),
    (20_000, 50, None),  # exactly twice
    (20_000, 51, "asymmetric_shape"),
    (20_000, 13, None),
    (20_001, 13, None),
    (20_000, 12, "asymmetric_shape"),  # 25 % against 12 %
    (40_000, 100, None),
    (39_999, 100, "asymmetric_shape"),
    (80_000, 50, None),
    (80_000, 49, "asymmetric_shape"),
    (20_000, 0, "asymmetric_shape"),
    (1_024, 1, None),
    (1_024, 3, "asymmetric_shape"),
    (1_023, 1, "never_fits"),
    (0, 10, "never_fits"),
    (80_001, 100, "never_fits"),
    (80_000, 101, "never_fits"),
]


@pytest.mark.parametrize(("vram_mib", "core_percent", "code"), ASYMMETRY)
def test_the_shares_of_a_custom_shape_differ_at_most_twofold(vram_mib, core_percent, code):
    answer = custom(vram_mib, core_percent)
    if code is None:
        assert isinstance(answer, Shape)
        assert answer.occupancy == max(Fraction(vram_mib, 80_000), Fraction(core_percent, 100))
        assert answer.core_milli == core_percent * 10
    else:
        assert isinstance(answer, Verdict)
        assert answer.code == code
        assert answer.detail
        assert answer.remedy


@pytest.mark.parametrize("vram_mib", [1_024, 10_240, 20_001, 39_999, 79_999, 80_000])
def test_the_remedy_for_an_asymmetric_shape_names_bounds_that_pass(vram_mib):
    lowest, highest = core_bounds(vram_mib, 80_000)
    assert isinstance(custom(vram_mib, lowest), Shape)
    assert isinstance(custom(vram_mib, highest), Shape)
    for outside in (lowest - 1, highest + 1):
        if outside >= 0:
            assert isinstance(custom(vram_mib, outside), Verdict)


@pytest.mark.parametrize(
    ("field", "wish"),
    [
        ("vram_mib", {"vram_mib": -1}),
        ("cards", {"cards": 9}),
        ("cards", {"cards": 1, "vram_mib": 4_096, "core_percent": 5}),
        ("offering", {"cards": 1, "offering_vram_mib": None}),
        ("cpu_milli", {"host": Host(0, 1_024)}),
        ("memory_mib", {"host": Host(1_000, 0)}),
        ("scratch_gib", {"host": Host(1_000, 1_024, -1)}),
    ],
)
def test_numbers_that_mean_nothing_are_invalid_and_name_the_field(field, wish):
    with pytest.raises(DomainError) as refusal:
        custom(**wish)
    assert refusal.value.code == "invalid"
    assert list(refusal.value.errors) == [field]


def test_an_unknown_tier_is_invalid():
    with pytest.raises(DomainError, match="tier"):
        tier_shape("XXL", offering_vram_mib=H100_MIB, host=HOST)
