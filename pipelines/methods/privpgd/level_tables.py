"""A column by the level of its entity's number of rows: shrunk towards a trend, not towards independence.

Method: levels are ordered, and what depends on how often somebody comes mostly does so one way. So the table that noise
is shrunk to is the one of *uniform association* (Goodman 1979): the columns' own tables, tilted by exp(b_a x_l), where
x_l is the logarithm of a level's rows and b_a a slope for each code a. The slopes are those of least squares with a
normal prior of mean 0, whose spread is estimated with them (Gauss-Newton, empirical Bayes): where noise rules they are
0, and independence is left. What the trend leaves is shrunk as any interaction is. Rare levels hold few entities and
many rows, so their tables matter most where they are known least; a trend learns them from the common ones. Where a
wide column was measured in groups of neighbours, the trend is that of the groups, and what they and the codes say
beside it is kept as anywhere (`nested`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.nested import Nested
from understudy.pipelines.methods.privpgd.projection import fit_proportionally, project_to_marginals
from understudy.pipelines.methods.privpgd.shrinkage import Table, centred, fitted_to_groups, shrink_by_expectation

FloatArray = npt.NDArray[np.float64]

ROUNDS = 12
LEAST_SPREAD = 0.02
MOST_TILT = 30.0


def shrink_by_trend(
    observed: FloatArray,
    variance: float,
    column: FloatArray,
    levels: FloatArray,
    scores: FloatArray,
    members: FloatArray | None = None,
) -> Table:
    """The table (codes, levels) nearest the signed `observed` one, with these margins.

    `variance` is that of the noise of a single cell; a merged code has that of each of its `members`.
    """
    members = np.ones(len(column)) if members is None else members
    expected = tilted(observed, variance * members, column, levels, scores)
    beside = centred(observed - expected, [members / members.sum(), np.full(len(levels), 1 / len(levels))])
    alike = bool((members == 1.0).all())
    shrunk = shrink_by_expectation(
        beside, expected, variance if alike else variance * np.outer(members, np.ones(len(levels)))
    )
    fitted = project_to_marginals(expected + shrunk.interaction, {(0,): column, (1,): levels})
    unknown = variance * float(members.mean())
    return Table(fitted, unknown * (max(shrunk.freedom, 0.0) + len(column)) / observed.size)


def shrink_in_groups(nested: Sequence[Nested], column: FloatArray, levels: FloatArray, scores: FloatArray) -> Table:
    """The same of a column that was measured in groups, of which `nested` has the codes themselves last."""
    finest = max(nested[:-1], key=lambda each: each.interaction.size)
    firsts = finest.starts[0]
    in_groups = np.add.reduceat(column, firsts)
    independent = np.outer(in_groups, levels)
    observed = independent + finest.interaction - finest.centred(independent)
    trend = tilted(observed, np.full(len(firsts), finest.variance), in_groups, levels, scores)
    of = np.repeat(np.arange(len(firsts)), np.diff(np.append(firsts, len(column))))
    share = np.divide(column, in_groups[of], out=np.zeros_like(column), where=in_groups[of] > 0.0)
    return fitted_to_groups(trend[of] * share[:, None], nested)


def tilted(
    observed: FloatArray, variance: FloatArray, column: FloatArray, levels: FloatArray, scores: FloatArray
) -> FloatArray:
    """The table of uniform association whose slopes fit `observed` best, as far as its noise lets them be known.

    `variance` is that of the cells of every code.
    """
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
