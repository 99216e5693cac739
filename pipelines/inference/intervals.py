"""Intervals: of sums, of ratios of sums, of differences and ratios of those, and of quantiles.

Sums are normal with a known variance: the interval is exact. A ratio n/d is inverted from n - t d, which is normal for
every t (Fieller 1954): exact too, however noisy the denominator; where that leaves two rays, it is cut to the values
that the ratio can have, and what spans them is given. Differences and ratios of two such ratios are put together from
the two intervals (the method of variance estimates recovery: Zou & Donner 2008, and Donner & Zou 2012 for ratios).
A quantile is inverted from the sum of [x < t] - q, which has mean zero at the true t (Woodruff 1952).
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
    return Interval(rays[0][0], rays[-1][1]) if rays else everything


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


@dataclass(frozen=True, eq=False)
class Bins:
    """Counts of rows in bins that do not overlap, in order, and the covariance of what is uncertain about them."""

    low: FloatArray
    high: FloatArray
    counts: FloatArray
    noise: FloatArray


def quantile(bins: Bins, level: float) -> float:
    """Where the counts, made monotone, pass the level; rows are spread evenly in a bin."""
    wanted = level * bins.counts.sum()
    below = np.r_[0.0, np.cumsum(bins.counts)]
    steady = (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]) / 2
    place = int(np.clip(np.searchsorted(steady, wanted, side="left") - 1, 0, len(bins.counts) - 1))
    inside = steady[place + 1] - steady[place]
    share = (wanted - steady[place]) / inside if inside > 0 else 0.0
    share = min(max(share, 0.0), 1.0)
    return float(bins.low[place] + share * (bins.high[place] - bins.low[place]))


def of_quantile(bins: Bins, level: float, z: float) -> Interval:
    """All t at which the sum of [x < t] - level is within its noise of zero, and what lies between them."""
    size = len(bins.counts)
    # Of [x < the lower edge of each bin] - level: the sum, its covariance with every bin, and its variance.
    start = _below(bins.counts) - level * bins.counts.sum()
    with_noise = _below(bins.noise) - level * bins.noise.sum(axis=0)
    variance = np.tril(with_noise, -1).sum(axis=1) - level * with_noise.sum(axis=1)
    found: list[float] = []
    for place in range(size):
        # At the share u of the bin the sum is start + u count, its variance variance + 2 u cross + u^2 own.
        count, cross, own = bins.counts[place], with_noise[place, place], bins.noise[place, place]
        square = count**2 - z**2 * own
        linear = 2 * (start[place] * count - z**2 * cross)
        constant = start[place] ** 2 - z**2 * variance[place]
        shares = [share for share in (0.0, 1.0) if (square * share + linear) * share + constant <= 0]
        inside = linear**2 - 4 * square * constant
        if square and inside >= 0:
            roots = [(-linear + sign * math.sqrt(inside)) / (2 * square) for sign in (-1, 1)]
            shares += [root for root in roots if 0 <= root <= 1]
        width = bins.high[place] - bins.low[place]
        found += [float(bins.low[place] + share * width) for share in shares]
    return Interval(min(found), max(found)) if found else Interval(float(bins.low[0]), float(bins.high[-1]))


def _below(values: FloatArray) -> FloatArray:
    """Sums over the bins before each."""
    return np.asarray(np.cumsum(values, axis=0) - values)
