"""Best linear estimates of every sub-marginal, by inverse variance over all the marginals that contain it.

Method: noise is independent between cells and marginals, so summing a marginal S with c_S cells down to A
gives an unbiased estimate of A's counts with variance sigma_S^2 c_S / c_A per cell. Independent unbiased
estimates are best combined in proportion to 1 / variance (Gauss-Markov). Overlap between marginals thereby
*reduces* the noise: a column seen in thirteen 2-way marginals is known far better than any one of them
says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.problem import NoisyMarginal

FloatArray = npt.NDArray[np.float64]

# Exact (sigma = 0) counts get this variance, so that they dominate every noisy estimate without dividing by
# zero.
EXACT_VARIANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Estimate:
    """Unbiased counts of the cells of `columns` with one common `variance` per cell."""

    columns: tuple[int, ...]
    counts: FloatArray
    variance: float


def estimate_total(marginals: Sequence[NoisyMarginal]) -> float:
    """The table's number of rows by inverse variance; may be negative when the noise dwarfs the data."""
    precisions = np.array([1.0 / (_variance(m) * np.size(m.counts)) for m in marginals])
    totals = np.array([float(np.sum(m.counts, dtype=np.float64)) for m in marginals])
    return float(np.dot(precisions, totals) / precisions.sum())


def estimate_closure(marginals: Sequence[NoisyMarginal], sizes: Sequence[int]) -> dict[tuple[int, ...], Estimate]:
    """An estimate for every nonempty subset of columns that some marginal covers, smallest subsets first."""
    sums: dict[tuple[int, ...], FloatArray] = {}
    precision: dict[tuple[int, ...], float] = {}
    for marginal in marginals:
        counts = np.asarray(marginal.counts, dtype=np.float64)
        for order in range(1, len(marginal.columns) + 1):
            for kept in combinations(range(len(marginal.columns)), order):
                subset = tuple(marginal.columns[axis] for axis in kept)
                dropped = tuple(axis for axis in range(counts.ndim) if axis not in kept)
                cells_summed = counts.size / prod(sizes[c] for c in subset)
                weight = 1.0 / (_variance(marginal) * cells_summed)
                term = weight * counts.sum(axis=dropped)
                sums[subset] = sums[subset] + term if subset in sums else term
                precision[subset] = precision.get(subset, 0.0) + weight
    ordered = sorted(sums, key=lambda subset: (len(subset), subset))
    return {s: Estimate(s, sums[s] / precision[s], 1.0 / precision[s]) for s in ordered}


def _variance(marginal: NoisyMarginal) -> float:
    return max(marginal.variance, EXACT_VARIANCE)
