"""What released residuals say of marginals: the best unbiased estimate of every one, and its noise, in closed form.

Residuals of different column sets live in orthogonal spaces and have independent noise, so that the best linear
estimate of the counts over W is the sum of the residuals of its subsets, each spread evenly over the columns it does
not have: no least squares, and estimates that agree wherever they overlap (Xiao et al. 2023). With noise of std s_A on
the cells of A before centring, a cell of W has the variance
    sum_(A in W) s_A^2 prod_(i in A) (1 - 1/n_i) prod_(i in W - A) 1/n_i^2.
Everything here is post-processing of released numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.groups import GroupedClique
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.workload import Clique

FloatArray = npt.NDArray[np.float64]


ReleasedGroups = tuple[GroupedClique, np.ndarray, float]
"""Noisy counts over groups of neighbouring codes, and the standard deviation of each count."""


@dataclass(frozen=True, eq=False)
class Residual:
    """Counts over some columns, centred along each, with noise that had the std on every cell before it was centred."""

    counts: FloatArray
    std: float


@dataclass(frozen=True, eq=False)
class Residuals:
    """Everything that was released of a workload: `()` is the number of rows, with std 0 where that is public.

    `grouped` are residuals over groups of neighbouring codes (counting/groups.py); the estimates here do without them.
    """

    asked: tuple[Clique, ...]
    sizes: tuple[int, ...]
    by_clique: Mapping[Clique, Residual]
    grouped: Mapping[GroupedClique, Residual] = field(default_factory=dict)

    @property
    def total(self) -> float:
        return float(self.by_clique[()].counts)

    def marginal(self, clique: Clique) -> FloatArray:
        """Estimated counts. Columns of one value have no residual of their own."""
        estimate = np.zeros(tuple(self.sizes[column] for column in clique))
        for subset in subsets(clique):
            if subset in self.by_clique:
                shape = [self.sizes[column] if column in subset else 1 for column in clique]
                estimate += self.by_clique[subset].counts.reshape(shape) / self._spread_over(subset, clique)
        return estimate

    def variance(self, clique: Clique) -> float:
        """Of the noise in each cell of the estimated counts."""
        return math.fsum(level * freedom for level, freedom in self._noise(clique)) / self._cells(clique)

    def noise_cells(self, clique: Clique) -> float:
        """How many cells of independent noise would make the L1 norm of the estimate's noise vary as much as it does.

        |x| and |y| of normals with correlation r have at most r^2 times the covariance of equal ones; the sum of r^2
        over all pairs of cells is that of the squared eigenvalues over the squared variance.
        """
        variance = self.variance(clique)
        squares = math.fsum(level**2 * freedom for level, freedom in self._noise(clique))
        return squares / variance**2 if variance else 0.0

    def _noise(self, clique: Clique) -> list[tuple[float, int]]:
        """Eigenvalues of the noise's covariance matrix, and how often each occurs."""
        return [
            (self.by_clique[s].std ** 2 / self._spread_over(s, clique), math.prod(self.sizes[c] - 1 for c in s))
            for s in subsets(clique)
            if s in self.by_clique
        ]

    def _spread_over(self, subset: Clique, clique: Clique) -> int:
        return math.prod(self.sizes[column] for column in clique if column not in subset)

    def _cells(self, clique: Clique) -> int:
        return math.prod(self.sizes[column] for column in clique)


def centred_counts(differences: np.ndarray, shape: Sequence[int]) -> FloatArray:
    """Centred counts, in rows, from released differences of G times the counts."""
    return _centred(summed_up(differences, shape).astype(np.float64) / math.prod(shape))


def summed_up(differences: np.ndarray, shape: Sequence[int]) -> npt.NDArray[np.int64]:
    """A table with these differences along every axis: that whose first slices are 0."""
    table = np.asarray(differences, dtype=np.int64).reshape([size - 1 for size in shape])
    for axis in range(table.ndim):
        table = np.cumsum(np.insert(table, 0, 0, axis=axis), axis=axis)
    return table


def residuals_of_tables(
    marginals: Sequence[tuple[Clique, np.ndarray, float]],
    grouped: Sequence[ReleasedGroups],
    sizes: Sequence[int],
    rounding: float = 0.0,
) -> Residuals:
    """What tables that were noised cell by cell say; `rounding` is added to the variance of their cells.

    A marginal tells the residual of each of its subsets A too: summed over the other columns W - A it has noise of
    variance s_W^2 times their number of cells, and white noise is independent in orthogonal spaces. What several
    tables say of one residual is averaged by inverse variance. Tables over groups tell their own residuals alone.
    """
    said: dict[Clique, list[Residual]] = defaultdict(list)
    for clique, counts, std in marginals:
        table = np.asarray(counts, dtype=np.float64).reshape([sizes[column] for column in clique])
        for subset in subsets(clique):
            lacked = tuple(place for place, column in enumerate(clique) if column not in subset)
            spread = math.prod(sizes[clique[place]] for place in lacked)
            part = table.sum(axis=lacked) if lacked else table
            said[subset].append(Residual(_centred(np.asarray(part)), math.sqrt((std**2 + rounding) * spread)))
    in_groups: dict[GroupedClique, list[Residual]] = defaultdict(list)
    for each, counts, std in grouped:
        table = np.asarray(counts, dtype=np.float64).reshape(each.shape(sizes))
        in_groups[each].append(Residual(_centred(table), math.sqrt(std**2 + rounding)))
    return Residuals(
        tuple(clique for clique, _, _ in marginals),
        tuple(sizes),
        {clique: _joined(parts) for clique, parts in said.items()},
        {each: _joined(parts) for each, parts in in_groups.items()},
    )


def _joined(parts: Sequence[Residual]) -> Residual:
    weight = math.fsum(1 / part.std**2 for part in parts)
    mean = sum((part.counts / part.std**2 for part in parts), np.zeros(parts[0].counts.shape)) / weight
    return Residual(mean, math.sqrt(1 / weight))


def _centred(table: FloatArray) -> FloatArray:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
