"""A column by the level of its entity's number of rows: shrunk towards a trend, not towards independence.

Method: levels are ordered, and what depends on how often somebody comes mostly does so one way. So the table that noise
is shrunk to is the one of *uniform association* (Goodman 1979): the columns' own tables, tilted by exp(b_a x_l), where
x_l is the logarithm of a level's rows and b_a a slope for each code a. The slopes are those of least squares with a
normal prior of mean 0, whose spread is estimated with them (Gauss-Newton, empirical Bayes): where noise rules they are
0, and independence is left. What the trend leaves is shrunk as any interaction is. Rare levels hold few entities and
many rows, so their tables matter most where they are known least; a trend learns them from the common ones.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.projection import fit_proportionally, project_to_marginals
from understudy.pipelines.methods.privpgd.shrinkage import Table, centred, shrink_by_expectation

FloatArray = npt.NDArray[np.float64]

ROUNDS = 12
LEAST_SPREAD = 0.02
MOST_TILT = 30.0


def shrink_by_trend(
    observed: FloatArray, variance: float, column: FloatArray, levels: FloatArray, scores: FloatArray
) -> Table:
    """The table (codes, levels) nearest the signed `observed` one, of noise `variance` a cell, with these margins."""
    expected = tilted(observed, variance, column, levels, scores)
    shrunk = shrink_by_expectation(centred(observed - expected), expected, variance)
    fitted = project_to_marginals(expected + shrunk.interaction, {(0,): column, (1,): levels})
    return Table(fitted, variance * (max(shrunk.freedom, 0.0) + len(column)) / observed.size)


def tilted(
    observed: FloatArray, variance: float, column: FloatArray, levels: FloatArray, scores: FloatArray
) -> FloatArray:
    """The table of uniform association whose slopes fit `observed` best, as far as its noise lets them be known."""
    independent = np.outer(column, levels)
    scores = scores - levels @ scores
    slopes, spread, table = np.zeros(len(column)), 1.0, independent
    for _ in range(ROUNDS):
        alone = np.maximum(table.sum(axis=1, keepdims=True), 1e-300)
        steepness = table * (scores - (table @ scores)[:, None] / alone)
        prior = variance / spread**2
        known = np.square(steepness).sum(axis=1) + prior
        step = ((steepness * (observed - table)).sum(axis=1) - prior * slopes) / np.maximum(known, 1e-300)
        slopes = slopes + np.clip(step, -1.0, 1.0)
        unknown = variance / np.maximum(known, 1e-300)
        spread = max(float(np.sqrt(column @ (np.square(slopes) + unknown))), LEAST_SPREAD)
        seed = independent * np.exp(np.clip(np.outer(slopes, scores), -MOST_TILT, MOST_TILT))
        table = fit_proportionally(seed, {(0,): column, (1,): levels})
    return table
