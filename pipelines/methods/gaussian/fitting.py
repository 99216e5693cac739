"""mu' and a factor of Sigma' in doubles, and a proven bound on what their rounding can cost.

Theorem. With n0 pseudo-records, fewer than `MAX_ROWS` rows and d columns, the mean m and the factor L computed here
  satisfy, for every dataset, in the metric of the exact Sigma' = (sum x x^T + n0 I)/n' - mu' mu'^T:
    ||Sigma'^-1/2 (L L^T - Sigma') Sigma'^-1/2||_F <= f = 3 u sqrt(d k),   |Sigma'^-1/2 (m - mu')|^2 <= u^2 d k,
  u = 2^-53 and k = 1 + MAX_ROWS/n0. Hence N(m, L L^T) and N(mu', Sigma') are within `divergence` of one another at
  every Renyi order up to 1/(2 f), in both directions.
  All is computed in whole numbers until the end. mu' and Sigma' are quotients of them; the Cholesky factor has 160
  fractional bits and misses Sigma' by at most 3 2^-160 in each entry, since a sum of products is exact and only the
  quotient or root after it is cut. Then each number is rounded once to the nearest double, which moves the factor by
  u ||L||_F <= u sqrt(d) at most, in a metric whose least eigenvalue is n0/n' >= 1/k: the *root* of the condition.
Relation. Both: nothing here compares two datasets.
Sensitivity and noise unit. None is added; `pseudo_records` charges the divergence on either side of its own bound.
Proof. docs/proofs/sampling-noise.md, section 4.
Reference. Higham 2002, Theorem 10.3, for the same recurrence in doubles, whose bound grows with the condition itself;
  Gil, Alajaji & Linder 2013, Table 2 (Renyi divergence of normal vectors).
"""

from __future__ import annotations

import math

import numpy as np

from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.moments import MAX_ROWS

UNIT_ROUNDOFF = 2.0**-53
ALLOWED = 0.5
"""Of (order times f): beyond it no divergence is claimed."""
_BITS = 160


def fitted_normal(products: np.ndarray, layout: Layout, pseudo: int) -> tuple[np.ndarray, np.ndarray]:
    """mu' and the Cholesky factor of Sigma' in scaled units. Private: the caller must not let them out."""
    numbers, grid = layout.number_rows, layout.grid
    size = int(products[0, 0]) + pseudo
    sums = products[0, numbers].astype(object)  # Python's whole numbers, which never overflow
    second = products[np.ix_(numbers, numbers)].astype(object)
    second[np.diag_indices(len(numbers))] += pseudo * grid * grid
    covariance = ((size * second - np.outer(sums, sums)) << _BITS) // (size * grid) ** 2
    # Python divides whole numbers to the nearest double. The factor exists: pseudo/size > 0 in every direction.
    return np.array([total / (grid * size) for total in sums]), (_factor(covariance) / (1 << _BITS)).astype(np.float64)


def _factor(covariance: np.ndarray) -> np.ndarray:
    """The Cholesky factor, lower triangular, of a matrix of whole numbers in units of 2^-160, in the same units."""
    factor = np.zeros_like(covariance)
    for j in range(len(covariance)):
        rest = (covariance[j:, j] << _BITS) - factor[j:, :j] @ factor[j, :j]
        factor[j, j] = math.isqrt(rest[0])
        factor[j + 1 :, j] = rest[1:] // factor[j, j]
    return factor


def covariance_error(dimension: int, pseudo: int) -> float:
    """f: the Frobenius norm of the covariance's error in the metric of the covariance itself."""
    return 3 * UNIT_ROUNDOFF * math.sqrt(dimension * _condition(pseudo))


def divergence(orders: np.ndarray, dimension: int, pseudo: int) -> np.ndarray:
    """Renyi divergence, at these orders, of the normal that is drawn from and the exact one; infinite where unknown."""
    error = covariance_error(dimension, pseudo)
    mean = UNIT_ROUNDOFF**2 * dimension * _condition(pseudo)
    with np.errstate(all="ignore"):
        bound = orders**2 / (2 * (orders - 1)) * error**2 + orders * mean
    return np.where((orders > 1) & (orders * error <= ALLOWED), bound, np.inf)


def _condition(pseudo: int) -> float:
    return 1 + MAX_ROWS / pseudo
