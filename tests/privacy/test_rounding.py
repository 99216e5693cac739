"""Rounding one way: outwards, by no more than one step, and back to the planned multiplier to the last bit."""

from __future__ import annotations

import ast
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import understudy.pipelines.privacy.rounding as rounding
from understudy.pipelines.privacy.rounding import (
    CLAIMED_BITS,
    claimed,
    down,
    planned,
    root_down,
    root_up,
    scaled,
    sum_of_squares,
    up,
)

positive = st.floats(1e-100, 1e100)
fractions = st.fractions(min_value=Fraction(1, 10**12), max_value=10**12, max_denominator=10**12).filter(bool)
levels = st.floats(1e-3, 1e9)


def step(value: float, bits: int) -> Fraction:
    return Fraction(2) ** (math.frexp(value)[1] - bits)


@given(fractions, st.integers(2, 53))
def test_up_and_down_enclose_a_number_within_one_step(value: Fraction, bits: int) -> None:
    low, high = Fraction(down(value, bits)), Fraction(up(value, bits))
    assert low <= value <= high
    assert high - low in (0, step(float(low), bits))
    assert (low == high) == (low == value)


@given(positive)
def test_a_double_is_its_own_bound(value: float) -> None:
    assert up(value) == value == down(value)


@given(st.one_of(positive, fractions), st.integers(2, 53))
def test_roots_enclose_the_square_within_one_step(square: float | Fraction, bits: int) -> None:
    low, high = Fraction(root_down(square, bits)), Fraction(root_up(square, bits))
    assert low**2 <= Fraction(square) <= high**2
    assert high - low in (0, step(float(low), bits))
    assert (low == high) == (low**2 == Fraction(square))


@given(st.integers(1, 2**20), st.integers(-30, 30))
def test_the_root_of_a_square_is_exact_either_way(whole: int, shift: int) -> None:
    root = Fraction(whole) * Fraction(2) ** shift
    assert root_up(root**2) == root == root_down(root**2)


@given(levels, levels)
def test_what_is_claimed_of_a_planned_std_is_the_plan_to_the_last_bit(level: float, sensitivity: float) -> None:
    z = planned(level)
    assert level <= z <= level * (1 + 2.0 ** -(CLAIMED_BITS - 1))
    std = scaled(z, sensitivity)
    assert claimed(std, sensitivity) == z
    assert claimed(math.nextafter(std, 0), sensitivity) < z


@given(st.lists(st.tuples(levels, levels), min_size=1, max_size=20))
def test_sums_of_squares_are_bounds_too(moves: list[tuple[float, float]]) -> None:
    exact = sum(Fraction(s) ** 2 / Fraction(std) ** 2 for s, std in moves)
    assert exact <= sum_of_squares(moves) <= exact * (1 + Fraction(1, 2**60))


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_only_positive_numbers_are_rounded(value: float) -> None:
    for rounded in (up, down, root_down):
        with pytest.raises(ValueError, match="positive"):
            rounded(value)


def test_no_other_module_rounds_a_bound_by_a_habit_of_its_own() -> None:
    pipelines = Path(rounding.__file__).parents[1]
    for path in (path for room in ("privacy", "counting", "methods") for path in (pipelines / room).rglob("*.py")):
        names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert "nextafter" not in names, path
