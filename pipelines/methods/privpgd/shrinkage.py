"""Empirical Bayes: signed noisy tables pulled towards what is better known, as far as their noise deserves.

Method: a table over A is written as the maximum-entropy table E that its own sub-marginals imply (for a
pair, the product of its columns) plus an interaction R, the part no sub-marginal sees. R sums to zero along
every axis, and so does the noise that is left in it: of v per cell, the product of 1 - 1/size over the axes.
Up to five estimates of the interaction are made and combined:
- Wiener: prior N(0, t E) per cell (departures scale as counts do), t by maximum likelihood for each table,
  posterior mean R t E / (t E + noise). Good where a few cells stand out; cells expected empty stay empty.
- Spectral, for pairs: singular values shrunk optimally for squared error (Gavish and Donoho 2017, Frobenius
  loss). Good where a few latent factors drive the whole table.
- Shared, for pairs: what follows the factors that all pairs have in common (`factors`).
- Smooth, for pairs with an ordered column: what neighbouring codes say of each other (`order`). Where a pair was also
  measured in groups of neighbours, that is a prediction which is mended by what the groups say beside it, the coarsest
  first, and the codes last (`nested`).
- Together, for pairs with a column of the focus: what each other column says of it beside the rest (`regressed`).
They are mixed as their estimated risk asks (`stein`; for spectral functions Candes, Sing-Long and Trzasko 2013).
Where noise rules, a table falls back to E: the maximum-entropy bias that lets graphical models win at small
epsilon. Where data rule, it is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, groupby

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.factors import shared_interactions
from understudy.pipelines.methods.privpgd.nested import Nested, fit_to_groups
from understudy.pipelines.methods.privpgd.projection import maximum_entropy, project_to_marginals, project_to_simplex
from understudy.pipelines.methods.privpgd.reconcile import Estimate
from understudy.pipelines.methods.privpgd.regressed import Seen, told_together
from understudy.pipelines.methods.privpgd.stein import Shrunk, least_risk

FloatArray = npt.NDArray[np.float64]
Subset = tuple[int, ...]

PRIOR_SCALES = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 61)])
# A long thin table has few factors to find and a costly decomposition; the Wiener estimate serves it alone.
MOST_SPECTRAL_CELLS = 100_000


@dataclass(frozen=True, eq=False)
class Table:
    """A probability table and the mean variance of what is still unknown in a cell."""

    probabilities: FloatArray
    variance: float


@dataclass(frozen=True, eq=False)
class Known:
    """What is known before tables are shrunk: probabilities of columns, how many codes each of a column's codes stands
    for where some were merged, the interactions of pairs that their groups predict and what was measured in these,
    and estimates of those of others that are smooth along ordered columns. Pairs with a column of `focus` are told
    together; `on_axis` says how many codes of an ordered column, its first ones, are in order.
    """

    columns: Mapping[int, FloatArray] = field(default_factory=dict)
    members: Mapping[int, FloatArray] = field(default_factory=dict)
    interactions: Mapping[Subset, FloatArray] = field(default_factory=dict)
    smooth: Mapping[Subset, Shrunk] = field(default_factory=dict)
    nested: Mapping[Subset, Sequence[Nested]] = field(default_factory=dict)
    focus: frozenset[int] = frozenset()
    on_axis: Mapping[int, int] = field(default_factory=dict)

    def spread(self, subset: Subset, shape: Sequence[int]) -> list[FloatArray]:
        """Of every axis, the shares of a table's codes that evenly spread mass has."""
        members = [self.members.get(column, np.ones(size)) for column, size in zip(subset, shape, strict=True)]
        return [each / each.sum() for each in members]

    def variance(self, subset: Subset, variance: float) -> float | FloatArray:
        """Of a cell that has the given variance for every single cell in it."""
        if not any(column in self.members for column in subset):
            return variance
        found: FloatArray = np.array(variance)
        for column in subset:
            found = np.multiply.outer(found, self.members.get(column, np.ones(len(self.columns[column]))))
        return found


def shrink_all(estimates: Mapping[Subset, Estimate], total: float, known: Known = Known()) -> dict[Subset, Table]:
    """Tables for every subset of `estimates` (which must come smallest first); `total` is n.

    With less than one row in all there is nothing to learn, and every table is uniform.
    """
    tables: dict[Subset, Table] = {}
    scale = max(total, 1.0)
    for order, level in groupby(estimates, key=len):
        scaled = {s: (estimates[s].counts / scale, estimates[s].variance / scale**2) for s in level}
        if total < 1.0:
            tables |= {s: Table(np.full(p.shape, 1.0 / p.size), v) for s, (p, v) in scaled.items()}
        elif order == 1:
            tables |= {
                s: Table(known.columns[s[0]] if s[0] in known.columns else project_to_simplex(p), v)
                for s, (p, v) in scaled.items()
            }
        else:
            tables |= _shrink_level(scaled, tables, known)
    return tables


def _shrink_level(
    observed: Mapping[Subset, tuple[FloatArray, float]], tables: Mapping[Subset, Table], known: Known
) -> dict[Subset, Table]:
    """Tables for the subsets of one size, from their signed probabilities and variances and the smaller `tables`."""
    lower = {
        subset: {
            kept: tables[tuple(subset[axis] for axis in kept)].probabilities
            for kept in combinations(range(len(subset)), len(subset) - 1)
        }
        for subset in observed
    }
    expected = {s: maximum_entropy(lower[s], p.shape) for s, (p, _) in observed.items()}
    residuals = {s: centred(p - expected[s], known.spread(s, p.shape)) for s, (p, _) in observed.items()}
    variances = {s: v for s, (_, v) in observed.items()}
    alike = {
        s: r
        for s, r in residuals.items()
        if r.ndim == 2 and s not in known.interactions and not any(column in known.members for column in s)
    }
    shared = shared_interactions(alike, variances)
    shrunk, mixed = {}, {}
    for subset, residual in residuals.items():
        variance, about = known.variance(subset, variances[subset]), expected[subset]
        if subset in known.nested:
            predicted = project_to_marginals(about + known.interactions[subset], lower[subset])
            shrunk[subset] = fitted_to_groups(predicted, known.nested[subset])
            continue
        estimate = shrink_interaction(residual, about, variance)
        if subset in known.smooth:
            estimate = least_risk(residual, variances[subset], estimate, known.smooth[subset])
        if subset in shared:
            estimate = least_risk(residual, variances[subset], estimate, shared[subset])
        mixed[subset] = estimate
        shrunk[subset] = _with(estimate, about, variance, lower[subset])
    for column in sorted(known.focus):
        pairs = {s: shrunk[s].probabilities for s in alike}
        for subset, together in _told_together(column, alike, variances, tables, pairs, known.on_axis).items():
            mixed[subset] = least_risk(alike[subset], variances[subset], mixed[subset], together)
            shrunk[subset] = _with(mixed[subset], expected[subset], variances[subset], lower[subset])
    return shrunk


def _with(
    estimate: Shrunk, about: FloatArray, variance: float | FloatArray, lower: Mapping[Subset, FloatArray]
) -> Table:
    fitted = project_to_marginals(about + estimate.interaction, lower)
    return Table(fitted, float(np.mean(variance)) * max(estimate.freedom, 0.0) / about.size)


def _told_together(
    column: int,
    residuals: Mapping[Subset, FloatArray],
    variances: Mapping[Subset, float],
    tables: Mapping[Subset, Table],
    pairs: Mapping[Subset, FloatArray],
    on_axis: Mapping[int, int],
) -> dict[Subset, Shrunk]:
    """The column's pairs among `residuals`, each as the others let it be."""
    seen = {}
    for pair, residual in residuals.items():
        if column in pair:
            other = pair[0] if pair[1] == column else pair[1]
            interaction = residual if pair[1] == column else residual.T
            seen[other] = Seen(
                tables[other,].probabilities, on_axis.get(other), interaction, math.sqrt(variances[pair])
            )
    found = told_together(tables[column,].probabilities, seen, pairs) if seen else {}
    return {
        (c, column) if c < column else (column, c): each if c < column else Shrunk(each.interaction.T, each.freedom)
        for c, each in found.items()
    }


def fitted_to_groups(predicted: FloatArray, nested: Sequence[Nested]) -> Table:
    """A pair that was measured in groups of neighbours too."""
    fitted = fit_to_groups(predicted, nested, _kept_beside)
    coarsest = min(nested, key=lambda each: each.interaction.size)
    return Table(fitted, coarsest.variance * coarsest.interaction.size / fitted.size)


def _kept_beside(residual: FloatArray, expected: FloatArray, variance: float | FloatArray) -> FloatArray:
    return shrink_interaction(residual, expected, variance).interaction


def shrink_interaction(residual: FloatArray, expected: FloatArray, variance: float | FloatArray) -> Shrunk:
    """`residual`, which sums to zero along every axis, shrunk for noise of `variance` per cell, alike or not."""
    if 1 in residual.shape:
        return Shrunk(np.zeros_like(residual), 0.0)
    wiener = shrink_by_expectation(residual, expected, variance)
    if (
        isinstance(variance, np.ndarray)
        or residual.ndim != 2
        or min(residual.shape) < 3
        or residual.size > MOST_SPECTRAL_CELLS
    ):
        return wiener
    return least_risk(residual, variance, wiener, shrink_by_spectrum(residual, variance))


def centred(table: FloatArray, spread: Sequence[FloatArray] | None = None) -> FloatArray:
    """The part that no sub-marginal sees; `spread` says how sums are spread along every axis where not evenly."""
    for axis in range(table.ndim):
        if spread is None:
            table = table - table.mean(axis=axis, keepdims=True)
        else:
            shape = [-1 if other == axis else 1 for other in range(table.ndim)]
            table = table - table.sum(axis=axis, keepdims=True) * spread[axis].reshape(shape)
    return table


def shrink_by_expectation(residual: FloatArray, expected: FloatArray, variance: float | FloatArray) -> Shrunk:
    """Posterior mean under the prior N(0, t expected), t of greatest likelihood on a logarithmic grid.

    `residual` sums to zero along every axis, so a cell holds only a share of the noise: a quarter for two columns of
    two values. Taking it for all of the noise would bury the weaker interactions of small tables.
    """
    share = math.prod(1.0 - 1.0 / size for size in residual.shape)
    variance = variance * share
    typical = float(np.mean(variance)) / max(float(expected.mean()), 1e-300)
    squared, mean, noise = np.square(residual).ravel(), expected.ravel(), np.ravel(variance)
    best, best_misfit = 0.0, np.inf
    for scale in PRIOR_SCALES * typical:
        spread = scale * mean + noise
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
