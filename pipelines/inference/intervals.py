"""Intervals: of sums, of ratios of sums, and of differences and ratios of those; quantiles.py has theirs.

Sums are normal with a known variance: the interval is exact. A ratio n/d is inverted from n - t d, which is normal for
every t (Fieller 1954): exact too, however noisy the denominator; where that leaves two rays, it is cut to the values
that the ratio can have, and what spans them is given. Differences and ratios of two such ratios are put together from
the two intervals (the method of variance estimates recovery: Zou & Donner 2008, and Donner & Zou 2012 for ratios).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
EVERYTHING = (-math.inf, math.inf)


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def within(self, low: float, high: float) -> Interval:
        """Cut to values that are possible at all; what lies outside them altogether is their nearest end."""
        return Interval(min(max(self.low, low), high), max(min(self.high, high), low))

    def nearest(self, value: float) -> float:
        return min(max(value, self.low), self.high)


def deviations(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def of_sum(value: float, variance: float, z: float) -> Interval:
    off = z * math.sqrt(max(variance, 0.0))
    return Interval(value - off, value + off)


def of_ratio(
    above: float, below: float, noise: FloatArray, z: float, possible: tuple[float, float] = EVERYTHING
) -> Interval:
    """Of above / below; `noise` is the covariance matrix of both. All t with (above - t below)^2 <= z^2 variance."""
    square = below**2 - z**2 * float(noise[1, 1])
    linear = -2 * (above * below - z**2 * float(noise[0, 1]))
    constant = above**2 - z**2 * float(noise[0, 0])
    inside = linear**2 - 4 * square * constant
    everything = Interval(*possible)
    if square == 0 or inside < 0:
        return everything if square <= 0 else Interval(above / below, above / below).within(*possible)
    # The root of larger size first: no digits are lost by a difference.
    far = -(linear + math.copysign(math.sqrt(inside), linear)) / 2
    roots = sorted((far / square, constant / far) if far else (0.0, -linear / square))
    if square > 0:
        return Interval(*roots).within(*possible)
    low, high = possible
    rays = [ray for ray in ((low, roots[0]), (roots[1], high)) if ray[0] <= ray[1]]
    return Interval(rays[0][0], rays[-1][1]).within(*possible) if rays else everything


def ratio_variance(above: float, below: float, noise: FloatArray) -> float:
    """To first order."""
    ratio = above / below
    return max(0.0, float(noise[0, 0] - 2 * ratio * noise[0, 1] + ratio**2 * noise[1, 1]) / below**2)


def of_difference(one: float, first: Interval, other: float, second: Interval, correlation: float) -> Interval:
    """Of one - other, from their intervals."""
    if not all(math.isfinite(end) for span in (first, second) for end in (span.low, span.high)):
        return Interval(*EVERYTHING)
    down, up = one - first.low, first.high - one
    other_down, other_up = other - second.low, second.high - other
    value = one - other
    below = math.sqrt(max(0.0, down**2 - 2 * correlation * down * other_up + other_up**2))
    above = math.sqrt(max(0.0, up**2 - 2 * correlation * up * other_down + other_down**2))
    return Interval(value - below, value + above)


def of_quotient(one: float, first: Interval, other: float, second: Interval, correlation: float) -> Interval:
    """Of one / other, from their intervals; everything where the other may be zero."""
    if second.low <= 0 <= second.high or not all(math.isfinite(end) for end in (first.low, first.high)):
        return Interval(*EVERYTHING)
    if other < 0:
        mirrored = Interval(-first.high, -first.low), Interval(-second.high, -second.low)
        return of_quotient(-one, mirrored[0], -other, mirrored[1], correlation)

    def bound(first_end: float, second_end: float, sign: int) -> float:
        down, up = one - first_end, second_end - other
        square = other**2 - up**2
        linear = one * other - correlation * down * up
        inside = max(0.0, linear**2 - (one**2 - down**2) * square)
        return (linear + sign * math.sqrt(inside)) / square if square > 0 else math.copysign(math.inf, sign)

    return Interval(bound(first.low, second.high, -1), bound(first.high, second.low, 1))
