"""Rounding one way, for every number that a guarantee rests on: sensitivities and standard deviations up, what is
claimed of them down. One helper, so that no event ever says more noise than is drawn.

How. Numbers are taken as the rational numbers they are, computed with exactly, and rounded once, outwards.
Two grids. A sensitivity or a standard deviation is the next double (53 bits). A noise multiplier is planned and claimed
  in `CLAIMED_BITS` bits. Hence with z on that grid, S any sensitivity and std = `scaled(z, S)`, std/S lies in
  [z, z (1 + 2^-52)] and `claimed` gives back exactly z: the event computed from what will be drawn is the planned one
  to the last bit, whatever S is; and with a std one double below, it is another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

DOUBLE_BITS = 53
CLAIMED_BITS = 48
_MOST_EXACT_TERMS = 64  # their denominators multiply
_TERM_BITS = 256

Number = int | float | Fraction


def up(value: Number, bits: int = DOUBLE_BITS) -> float:
    """The smallest number of `bits` significant bits that is not below `value`."""
    exact = Fraction(value)
    whole, shift = _floor(exact, bits)
    return math.ldexp(whole + (Fraction(whole) != exact * Fraction(2) ** shift), -shift)


def down(value: Number, bits: int = DOUBLE_BITS) -> float:
    """The largest number of `bits` significant bits that is not above `value`."""
    whole, shift = _floor(Fraction(value), bits)
    return math.ldexp(whole, -shift)


def root_up(square: Number, bits: int = DOUBLE_BITS) -> float:
    """The square root, rounded up."""
    below = root_down(square, bits)
    if Fraction(below) ** 2 == Fraction(square):
        return below
    mantissa, exponent = math.frexp(below)
    return math.ldexp(int(math.ldexp(mantissa, bits)) + 1, exponent - bits)


def root_down(square: Number, bits: int = DOUBLE_BITS) -> float:
    """The square root, rounded down."""
    exact = _positive(square)
    shift = bits - math.frexp(math.sqrt(exact))[1]
    while (whole := _root_floor(exact, shift)).bit_length() != bits:  # the estimate may sit on a power of two
        shift += bits - whole.bit_length()
    return math.ldexp(whole, -shift)


def planned(noise_multiplier: float) -> float:
    """A calibrated multiplier on the grid of claims: never less noise than was asked for."""
    return up(noise_multiplier, CLAIMED_BITS)


def claimed(std: Number, sensitivity: Number) -> float:
    """The noise multiplier std/sensitivity, as an event may claim it."""
    return down(Fraction(std) / Fraction(sensitivity), CLAIMED_BITS)


def sum_of_squares(moves: Iterable[tuple[Number, Number]]) -> Fraction:
    """Sum of (sensitivity/std)^2, never below it."""
    return sum_of_ratios((Fraction(sensitivity) ** 2, std) for sensitivity, std in moves)


def sum_of_ratios(moves: Iterable[tuple[Number, Number]]) -> Fraction:
    """Sum of square/std^2: exact for a few different terms; of many each is rounded up, far below a double."""
    terms = Counter(Fraction(square) / Fraction(std) ** 2 for square, std in moves)
    if len(terms) <= _MOST_EXACT_TERMS:
        return sum((times * term for term, times in terms.items()), Fraction(0))
    return Fraction(sum(times * math.ceil(term * 2**_TERM_BITS) for term, times in terms.items()), 2**_TERM_BITS)


def scaled(noise_multiplier: Number, sensitivity: Number) -> float:
    """The standard deviation that a multiplier asks for, rounded up."""
    return up(Fraction(noise_multiplier) * Fraction(sensitivity))


def _positive(value: Number) -> Fraction:
    exact = Fraction(value)
    if exact <= 0:
        raise ValueError("only positive numbers are rounded one way")
    return exact


def _floor(exact: Fraction, bits: int) -> tuple[int, int]:
    """The leading bits of a positive number as an integer, and the shift that made them one."""
    _positive(exact)
    shift = bits - (exact.numerator.bit_length() - exact.denominator.bit_length())
    while (whole := _shifted_floor(exact, shift)).bit_length() != bits:
        shift += bits - whole.bit_length()
    return whole, shift


def _shifted_floor(exact: Fraction, shift: int) -> int:
    if shift >= 0:
        return (exact.numerator << shift) // exact.denominator
    return exact.numerator // (exact.denominator << -shift)


def _root_floor(exact: Fraction, shift: int) -> int:
    return math.isqrt(_shifted_floor(exact, 2 * shift))
