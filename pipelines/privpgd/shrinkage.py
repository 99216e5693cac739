"""Empirical Bayes: signed noisy tables pulled towards what is better known, as far as their noise deserves.

Method: a table over A is written as the maximum-entropy table E that its own sub-marginals imply (for a
pair, the product of its columns) plus an interaction R, the part no sub-marginal sees. R sums to zero along
every axis, and so does the noise that is left in it: of v per cell, the product of 1 - 1/size over the axes.
Two estimates of the interaction are made and combined:
- Wiener: prior N(0, t E) per cell (departures scale as counts do), t by maximum likelihood for each table,
  posterior mean R t E / (t E + noise). Good where a few cells stand out; cells expected empty stay empty.
- Spectral, for pairs: singular values shrunk optimally for squared error (Gavish and Donoho 2017, Frobenius
  loss). Good where a few latent factors drive the whole table.
- The combination of least estimated risk (Stein's unbiased risk estimate; for spectral functions Candes,
  Sing-Long and Trzasko 2013). It is quadratic in the mixing weight, so the best weight is closed-form.
Where noise rules, a table falls back to E: the maximum-entropy bias that lets graphical models win at small
epsilon. Where data rule, it is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.pipelines.privpgd.projection import maximum_entropy, project_to_marginals, project_to_simplex
from understudy.pipelines.privpgd.reconcile import Estimate

FloatArray = npt.NDArray[np.float64]

PRIOR_SCALES = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 61)])
# A long thin table has few factors to find and a costly decomposition; the Wiener estimate serves it alone.
MOST_SPECTRAL_CELLS = 100_000


@dataclass(frozen=True, eq=False)
class Table:
    """A probability table and the mean variance of what is still unknown in a cell."""

    probabilities: FloatArray
    variance: float


@dataclass(frozen=True, eq=False)
class Shrunk:
    """An estimated interaction and its degrees of freedom, the divergence in Stein's risk estimate."""

    interaction: FloatArray
    freedom: float


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
            shrunk = shrink_interaction(observed - expected, expected, variance)
            fitted = project_to_marginals(expected + shrunk.interaction, lower)
            tables[subset] = Table(fitted, variance * max(shrunk.freedom, 0.0) / observed.size)
    return tables


def shrink_interaction(residual: FloatArray, expected: FloatArray, variance: float) -> Shrunk:
    """The part of `residual` that no sub-marginal sees, shrunk for noise of `variance` per cell."""
    if 1 in residual.shape:
        return Shrunk(np.zeros_like(residual), 0.0)
    for axis in range(residual.ndim):
        residual = residual - residual.mean(axis=axis, keepdims=True)
    wiener = shrink_by_expectation(residual, expected, variance)
    if residual.ndim != 2 or min(residual.shape) < 3 or residual.size > MOST_SPECTRAL_CELLS:
        return wiener
    spectral = shrink_by_spectrum(residual, variance)
    step = spectral.interaction - wiener.interaction
    squared = float(np.sum(step * step))
    if squared <= 0.0:
        return wiener
    more_freedom = spectral.freedom - wiener.freedom
    gain = float(np.sum((residual - wiener.interaction) * step)) - variance * more_freedom
    share = min(max(gain / squared, 0.0), 1.0)
    return Shrunk(wiener.interaction + share * step, wiener.freedom + share * more_freedom)


def shrink_by_expectation(residual: FloatArray, expected: FloatArray, variance: float) -> Shrunk:
    """Posterior mean under the prior N(0, t expected), t of greatest likelihood on a logarithmic grid.

    `residual` sums to zero along every axis, so a cell holds only a share of the noise: a quarter for two columns of
    two values. Taking it for all of the noise would bury the weaker interactions of small tables.
    """
    share = math.prod(1.0 - 1.0 / size for size in residual.shape)
    variance = variance * share
    typical = variance / max(float(expected.mean()), 1e-300)
    squared, mean = np.square(residual).ravel(), expected.ravel()
    best, best_misfit = 0.0, np.inf
    for scale in PRIOR_SCALES * typical:
        spread = scale * mean + variance
        misfit = float(np.sum(np.log(spread) + squared / spread))
        if misfit < best_misfit:
            best, best_misfit = float(scale), misfit
    kept = best * expected / (best * expected + variance)
    return Shrunk(residual * kept, share * float(kept.sum()))


def shrink_by_spectrum(residual: FloatArray, variance: float) -> Shrunk:
    """Optimal shrinkage of singular values in white noise, with its divergence.

    `residual` sums to zero along both axes: its noise is that of a matrix smaller by one either way, its last value 0.
    """
    least, most = min(residual.shape) - 1, max(residual.shape) - 1
    left, values, right = np.linalg.svd(residual, full_matrices=False)
    left, values, right = left[:, :least], values[:least], right[:least]
    unit = np.sqrt(variance * most)
    shrunk = _shrink_values(values, unit, least / most)
    nudge = 1e-4 * unit
    slopes = (_shrink_values(values + nudge, unit, least / most) - shrunk) / nudge
    squares = np.square(values)
    spread = squares[:, None] - squares[None, :]
    repulsion = np.divide((values * shrunk)[:, None], spread, out=np.zeros_like(spread), where=spread != 0.0)
    ratio = np.divide(shrunk, values, out=np.zeros_like(values), where=values > 0.0)
    freedom = float(slopes.sum() + (most - least) * ratio.sum() + 2.0 * repulsion.sum())
    return Shrunk((left * shrunk) @ right, freedom)


def _shrink_values(values: FloatArray, unit: float, aspect: float) -> FloatArray:
    """Gavish and Donoho's shrinker for Frobenius loss; `unit` is sqrt(longer side) times the noise."""
    scaled = values / unit
    inside = np.maximum((scaled**2 - aspect - 1.0) ** 2 - 4.0 * aspect, 0.0)
    above = scaled > 1.0 + np.sqrt(aspect)
    return np.asarray(unit * np.where(above, np.sqrt(inside) / np.maximum(scaled, 1e-300), 0.0))
