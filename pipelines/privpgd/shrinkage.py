"""From unbiased signed estimates to probability tables that agree on their overlaps and are closer to the
truth.

Method: empirical Bayes. A table over A is written as the maximum-entropy table that its own sub-marginals
imply (E, for a pair the product of its columns) plus an interaction, the part no sub-marginal sees. The
interaction is observed with known variance s^2 and given the prior N(0, tau^2 E) per cell: departures scale
as counts do. tau is fitted by maximum likelihood for each table, and the posterior mean E + R tau^2 E /
(tau^2 E + s^2) is kept. Where noise rules, a table falls back to E (the maximum-entropy bias that lets
graphical models win at small epsilon); where data rule, it is left alone; cells expected to be empty stay
empty. Iterative proportional fitting then makes it nonnegative with exactly the sub-marginals already
settled, so all targets agree on their overlaps of one column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from understudy.pipelines.privpgd.reconcile import Estimate

FloatArray = npt.NDArray[np.float64]

FITTING_ROUNDS = 30
FITTING_TOLERANCE = 1e-7
# A cell keeps at least this share of its expectation, so that fitting can still reach a sub-marginal all of
# whose cells were estimated below zero.
POSITIVE_FLOOR = 1e-3
PRIOR_SCALES = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 61)])


@dataclass(frozen=True, eq=False)
class Table:
    """A probability table and the mean variance of what is still unknown in a cell."""

    probabilities: FloatArray
    variance: float


def shrink_all(estimates: Mapping[tuple[int, ...], Estimate], total: float) -> dict[tuple[int, ...], Table]:
    """Tables for every subset of `estimates` (which must come smallest first); `total` is n.

    With less than one row in all there is nothing to learn, and every table is uniform.
    """
    tables: dict[tuple[int, ...], Table] = {}
    for subset, estimate in estimates.items():
        observed, variance = estimate.counts / max(total, 1.0), estimate.variance / max(total, 1.0) ** 2
        if total < 1.0:
            tables[subset] = Table(np.full(observed.shape, 1.0 / observed.size), variance)
        elif len(subset) == 1:
            tables[subset] = Table(project_to_simplex(observed), variance)
        else:
            lower = {
                kept: tables[tuple(subset[axis] for axis in kept)].probabilities
                for kept in combinations(range(len(subset)), len(subset) - 1)
            }
            expected = maximum_entropy(lower, observed.shape)
            shrunk = shrink_interaction(observed, expected, variance)
            fitted = fit_proportionally(np.maximum(shrunk.probabilities, POSITIVE_FLOOR * expected), lower)
            tables[subset] = Table(fitted, shrunk.variance)
    return tables


def shrink_interaction(observed: FloatArray, expected: FloatArray, variance: float) -> Table:
    """Posterior of a table (its mean may be negative) given its expectation and the noise per cell."""
    residual = observed - expected
    for axis in range(residual.ndim):
        residual = residual - residual.mean(axis=axis, keepdims=True)
    scale = _prior_scale(residual, expected, variance)
    prior = scale * expected
    kept = prior / (prior + variance)
    return Table(expected + residual * kept, float(np.mean(kept)) * variance)


def _prior_scale(residual: FloatArray, expected: FloatArray, variance: float) -> float:
    """Maximum-likelihood tau^2 of residual ~ N(0, tau^2 expected + variance), on a logarithmic grid."""
    typical = variance / max(float(expected.mean()), 1e-300)
    squared, mean = np.square(residual).ravel(), expected.ravel()
    best, best_fit = 0.0, np.inf
    for scale in PRIOR_SCALES * typical:
        spread = scale * mean + variance
        misfit = float(np.sum(np.log(spread) + squared / spread))
        if misfit < best_fit:
            best, best_fit = float(scale), misfit
    return best


def maximum_entropy(lower: Mapping[tuple[int, ...], FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """The table of greatest entropy whose marginals over the given axes are `lower`."""
    if all(len(axes) == 1 for axes in lower):
        table = np.ones(shape)
        for (axis,), marginal in lower.items():
            table = table * _along(marginal, (axis,), len(shape))
        return table
    return fit_proportionally(np.full(shape, 1.0 / np.prod(shape)), lower)


def fit_proportionally(table: FloatArray, lower: Mapping[tuple[int, ...], FloatArray]) -> FloatArray:
    """Iterative proportional fitting (Deming-Stephan) of a nonnegative table to the given marginals."""
    for _ in range(FITTING_ROUNDS):
        worst = 0.0
        for axes, marginal in lower.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in axes)
            current = table.sum(axis=others)
            worst = max(worst, float(np.abs(current - marginal).sum()))
            ratio = np.divide(marginal, current, out=np.zeros_like(marginal), where=current > 0)
            table = table * _along(ratio, axes, table.ndim)
        if worst < FITTING_TOLERANCE:
            break
    mass = float(table.sum())
    return table / mass if mass > 0 else np.full(table.shape, 1.0 / table.size)


def project_to_simplex(weights: FloatArray) -> FloatArray:
    """The nearest probability vector in Euclidean distance (Held, Wolfe and Crowder 1974)."""
    descending = np.sort(weights)[::-1]
    excess = np.cumsum(descending) - 1.0
    support = np.nonzero(descending * np.arange(1, weights.size + 1) > excess)[0][-1]
    projected = np.maximum(weights - excess[support] / (support + 1), 0.0)
    return projected / projected.sum()


def _along(values: FloatArray, axes: tuple[int, ...], ndim: int) -> FloatArray:
    return np.expand_dims(values, tuple(axis for axis in range(ndim) if axis not in axes))
