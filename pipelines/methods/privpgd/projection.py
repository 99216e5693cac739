"""Projection step of Algorithm 3 (section 3.2): from a signed table to the nearest probability table.

The paper minimises sliced W1 by 1,750 gradient steps for each marginal. Here the sub-marginals are already
settled, so the problem is smaller: find the nonnegative table with exactly these sub-marginals that is
nearest in Euclidean distance. That is convex; Dykstra's alternating projections (Boyle and Dykstra 1986)
solve it in a few dozen passes over the cells, without a direction in sight. Subtracting evenly from a fibre
whose total is too high removes the small positive noise of empty cells, where scaling would keep it.
Iterative proportional fitting (Deming and Stephan 1940) finishes with the sub-marginals exact, and serves
for maximum-entropy tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Lower = Mapping[tuple[int, ...], FloatArray]

DYKSTRA_ROUNDS = 60
FITTING_ROUNDS = 30
TOLERANCE = 1e-7


def project_to_simplex(weights: FloatArray) -> FloatArray:
    """The nearest probability vector in Euclidean distance (Held, Wolfe and Crowder 1974)."""
    descending = np.sort(weights)[::-1]
    excess = np.cumsum(descending) - 1.0
    support = np.nonzero(descending * np.arange(1, weights.size + 1) > excess)[0][-1]
    projected = np.maximum(weights - excess[support] / (support + 1), 0.0)
    return np.asarray(projected / projected.sum())


def project_to_marginals(table: FloatArray, lower: Lower) -> FloatArray:
    """The nearest nonnegative table whose marginals over the given axes are `lower`."""
    correction = np.zeros_like(table)
    for _ in range(DYKSTRA_ROUNDS):
        for axes, marginal in lower.items():
            others = _others(axes, table.ndim)
            missing = marginal - table.sum(axis=others)
            table = table + np.expand_dims(missing * (marginal.size / table.size), others)
        shifted = table + correction
        table = np.maximum(shifted, 0.0)
        correction = shifted - table
        if -float(np.min(shifted)) < TOLERANCE / table.size:
            break
    return fit_proportionally(table, lower)


def maximum_entropy(lower: Lower, shape: tuple[int, ...]) -> FloatArray:
    """The table of greatest entropy whose marginals over the given axes are `lower`."""
    table = np.full(shape, 1.0 / np.prod(shape))
    return fit_proportionally(table, lower)


def fit_proportionally(table: FloatArray, lower: Lower) -> FloatArray:
    """Scale a nonnegative table until its marginals over the given axes are `lower`."""
    for _ in range(FITTING_ROUNDS):
        worst = 0.0
        for axes, marginal in lower.items():
            others = _others(axes, table.ndim)
            current = table.sum(axis=others)
            worst = max(worst, float(np.abs(current - marginal).sum()))
            ratio = np.divide(marginal, current, out=np.zeros_like(marginal), where=current > 0)
            table = table * np.expand_dims(ratio, others)
        if worst < TOLERANCE:
            break
    mass = float(table.sum())
    return table / mass if mass > 0 else np.full(table.shape, 1.0 / table.size)


def _others(axes: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(ndim) if axis not in axes)
