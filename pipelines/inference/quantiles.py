"""Quantiles and their intervals: by Woodruff 1952, the sum of [x < t] - q has mean zero at the true t.

Where t moves through the bin k, that sum is the running sum S_k = sum_(b < k) c_b - q sum_b c_b of the counts, plus a
share of c_k. So of the covariance of all counts no more is needed than var S_k, cov(S_k, c_k) and var c_k, which its
diagonal and its factors give without its being written out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.grouped_noise import Factor
from understudy.pipelines.inference.intervals import Interval
from understudy.pipelines.inference.passes import Grouping, Passes

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bins:
    """Counts of rows in bins that do not overlap, in order, what is below each, less the part `level` of all, and how
    uncertain both are: `below` and `counts` have these variances, and `cross` for covariance."""

    level: float
    low: FloatArray
    high: FloatArray
    counts: FloatArray
    below: FloatArray
    variance: FloatArray
    cross: FloatArray
    own: FloatArray

    def sampled(self, times: float) -> Bins:
        """As counts of rows that came independently: more uncertain by so many times their number."""
        more = np.maximum(self.counts, 0.0) * times
        parts = _of_diagonal(more, self.level)
        return replace(self, variance=self.variance + parts[0], cross=self.cross + parts[1], own=self.own + parts[2])


def bins_of(
    told: Residuals,
    columns: Clique,
    function: FloatArray,
    by: Clique,
    along: int,
    spans: tuple[Sequence[int], FloatArray, FloatArray],
    level: float,
) -> Iterator[Bins]:
    """Of each group by `by`: sums of the function over these codes of the column `along`, in the order of `spans`,
    which says from where to where each lies."""
    codes, low, high = spans
    grouping, size = Grouping(by, (along,)), told.sizes[along]
    passes, factors = Passes(told, columns, function[None], grouping), list[Factor]()
    diagonal = np.zeros((1, size))
    for flat, held in passes:
        own, alone, alike = flat[:, :, 0], 0.0, 0.0
        for each, std in held.items():  # between codes, centred noise is that of each less that of their mean
            weight = std**2 * grouping.alone(each, told.sizes)
            alone += weight * (along in each)
            alike += -weight / size if along in each else weight / size**2
        diagonal = diagonal + alone * np.square(own).sum(axis=-1)
        factors.append(Factor(np.full((1, own.shape[-1]), alike), own, own))
    if passes.in_groups is not None:
        factors += passes.in_groups.factors()
    chosen = list(codes)
    counts = passes.values[:, chosen, 0]
    parts = [np.broadcast_to(part, counts.shape) for part in _of_diagonal(diagonal[:, chosen], level)]
    for factor in factors:
        left = factor.left[:, chosen]
        right = left if factor.right is factor.left else factor.right[:, chosen]
        below = _below(left, level)
        other = below if right is left else _below(right, level)
        for place, (one, two) in enumerate(((below, other), (below, right), (left, right))):
            parts[place] = parts[place] + ((one * two) @ factor.weight[..., None])[..., 0]
    for group in zip(counts, _below(counts, level), *parts, strict=True):
        yield Bins(level, low[chosen], high[chosen], *group)


def quantile(bins: Bins) -> float:
    """Where the counts, made monotone, pass the level; rows are spread evenly in a bin."""
    wanted = bins.level * bins.counts.sum()
    below = np.r_[0.0, np.cumsum(bins.counts)]
    steady = (np.maximum.accumulate(below) + np.minimum.accumulate(below[::-1])[::-1]) / 2
    place = int(np.clip(np.searchsorted(steady, wanted, side="left") - 1, 0, len(bins.counts) - 1))
    inside = steady[place + 1] - steady[place]
    share = (wanted - steady[place]) / inside if inside > 0 else 0.0
    share = min(max(share, 0.0), 1.0)
    return float(bins.low[place] + share * (bins.high[place] - bins.low[place]))


def of_quantile(bins: Bins, z: float) -> Interval:
    """All t at which the sum of [x < t] - level is within its noise of zero, and what lies between them."""
    # At the share u of a bin the sum is below + u count, its variance variance + 2 u cross + u^2 own.
    square = bins.counts**2 - z**2 * bins.own
    linear = 2 * (bins.below * bins.counts - z**2 * bins.cross)
    constant = bins.below**2 - z**2 * bins.variance
    inside = linear**2 - 4 * square * constant
    with np.errstate(divide="ignore", invalid="ignore"):  # without two roots it is no number, and no share
        root = np.sqrt(inside)
        roots = np.where(square != 0, (np.stack([-root, root]) - linear) / (2 * square), math.nan)
    ends = np.stack([constant <= 0, square + linear + constant <= 0])
    shares = np.concatenate(
        [np.where(ends, [[0.0], [1.0]], math.nan), np.where(roots == np.clip(roots, 0, 1), roots, math.nan)]
    )
    found = bins.low + shares * (bins.high - bins.low)
    some = found[np.isfinite(found)]
    return (
        Interval(float(some.min()), float(some.max()))
        if some.size
        else Interval(float(bins.low[0]), float(bins.high[-1]))
    )


def _of_diagonal(variances: FloatArray, level: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What independent counts of these variances, along the last axis, have for `variance`, `cross` and `own`."""
    before = np.cumsum(variances, axis=-1) - variances
    after = variances.sum(axis=-1, keepdims=True) - before
    return (1 - level) ** 2 * before + level**2 * after, -level * variances, variances


def _below(values: FloatArray, level: float) -> FloatArray:
    """Sums over the bins before each, along the second axis, less the part `level` of all of them."""
    return np.asarray(np.cumsum(values, axis=1) - values - level * values.sum(axis=1, keepdims=True))
