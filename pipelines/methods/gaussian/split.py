"""How the noise is divided between count, sums, squares and products: for the least expected covariance error.

The estimate of the covariance is C = M/n - s s^T/n^2. To first order a unit of noise in the count, the sums, the
squares (measured around 1/2) and the products moves entry (i, j) of n C by  m_i m_j - C_ij (+ 1/2 on the diagonal),
-m_j and -m_i, 1 and 1. What the means are is private, so a public prior stands in: scaled means uniform on [-1, 1]
(E m^2 = 1/3, E m^4 = 1/5) and variances 0.1. The split is a fixed function of the shape; a bad prior costs accuracy,
never privacy.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from understudy.pipelines.methods.gaussian.mechanism import Shape, Weights, sensitivity

MEAN_SQUARE, MEAN_FOURTH, VARIANCE = 1 / 3, 1 / 5, 0.1
_DIAGONAL_SHIFT = 0.5 - VARIANCE


@lru_cache(maxsize=256)
def best_weights(shape: Shape, pairs: bool = True) -> Weights:
    """The weights of least `expected_square_error` at unit noise multiplier; kinds not released have weight 0."""
    used = (not shape.count_is_public, True, shape.numeric > 0, pairs and shape.slots > 1)

    def weights_at(logs: np.ndarray) -> Weights:
        values = iter(np.exp(np.append(logs, 0.0)))
        return Weights(*(float(next(values)) if kind else 0.0 for kind in used))

    def error(logs: np.ndarray) -> float:
        return float(np.log(expected_square_error(weights_at(logs), shape)))

    free = sum(used) - 1
    if free == 0:
        return weights_at(np.zeros(0))
    found = minimize(error, np.zeros(free), method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-8})
    return weights_at(np.round(found.x, 3))


def expected_square_error(weights: Weights, shape: Shape) -> float:
    """E of the squared Frobenius error of n C at noise multiplier 1, under the public prior."""
    count = _inverse_square(float(weights.count))
    linear = _inverse_square(float(weights.linear))
    diagonal_shift = (_DIAGONAL_SHIFT + MEAN_SQUARE) ** 2 + MEAN_FOURTH - MEAN_SQUARE**2
    diagonal = _inverse_square(float(weights.square)) + 4 * MEAN_SQUARE * linear + diagonal_shift * count
    pair = _inverse_square(float(weights.pair)) + 2 * MEAN_SQUARE * linear + MEAN_SQUARE**2 * count
    categories = (shape.slots - shape.numeric) * (linear + MEAN_SQUARE * count)
    pairs = shape.slots * (shape.slots - 1) if weights.pair else 0
    return sensitivity(weights, shape) ** 2 * (shape.numeric * diagonal + categories + pairs * pair)


def _inverse_square(weight: float) -> float:
    return 1 / weight**2 if weight else 0.0
