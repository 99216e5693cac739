"""Estimates of sums over rows from released residuals, with the exact covariance of their noise, in closed form.

A sum over rows of a function f of the columns S is, in counts N over S, the inner product <f, N>. The estimate of N is
a sum of residuals r_A, A in S, each spread over the columns it lacks, so that <f, N> is estimated by sum_A <f_A, r_A>:
f_A is f averaged over the columns that A lacks, times their number of cells over it, and centred along each of A. The
noise of r_A is that of independent cells of std s_A, centred, and independent between sets. Hence, for two such sums,
    cov = sum_A s_A^2 <f_A, g_A>,
without least squares or simulation. Only residuals with f_A different from zero are needed: a sum over groups of one
column needs that column's alone. Everything here is post-processing of released numbers.
Reference. Xiao, He, Zhang & Kifer 2023, for independence and the lifting; the covariance follows from both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.passes import Grouping, NotMeasured, Passes

__all__ = ["Grouping", "NotMeasured", "Sums", "sums"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sums:
    """Of outer groups o and inner groups i the sums j: `values[o, i, j]`; `noise[o, i, j, i', j']` is their covariance
    within each outer group, of the first sums only where no more was asked for. `of_total[o, i, j]` times the variance
    of the number of rows is their covariance with that number."""

    values: FloatArray
    noise: FloatArray
    of_total: FloatArray


def sums(told: Residuals, columns: Clique, functions: FloatArray, grouping: Grouping, noisy: int | None = None) -> Sums:
    """`functions[j, ...]` are over the codes of `columns`, which hold those of the grouping.

    `noisy`: of how many of the functions, from the first, the noise is wanted.
    """
    asked = Passes(told, columns, functions, grouping, noisy)
    outer, inner, first = asked.shape
    noise = np.zeros((outer, inner, first, inner, first))
    for flat, held in asked:
        kernel = sum((std**2 * _kernel(each, grouping, told.sizes) for each, std in held.items()), np.zeros(1))
        noise += np.einsum("oijc,okmc,oik->oijkm", flat, flat, kernel, optimize=True)
    if asked.in_groups is not None:
        noise = noise + asked.in_groups.noise()
    return Sums(asked.values, noise, asked.of_total)


def _kernel(held: Clique, grouping: Grouping, sizes: tuple[int, ...]) -> FloatArray:
    """How the noise of a set goes together between groups: (outer, inner, inner)."""
    inner = np.ones((1, 1))
    for column in grouping.inner:
        size = sizes[column]
        own = np.eye(size) - 1 / size if column in held else np.full((size, size), 1 / size**2)
        inner = np.kron(inner, own)
    return grouping.alone(held, sizes) * inner[None]
