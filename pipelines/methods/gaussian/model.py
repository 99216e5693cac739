"""A model of one class: every column a step function on a normal axis, and one correlation matrix of the axes.

Numeric columns bring an axis of their own (a clipped normal, or a noisy histogram). A category gets numbers for its
values first: the leading singular vector of its standardised covariances with everything else, the scaling that keeps
most of the dependence one number can keep (optimal scaling: Gifi 1990). Its values are then ordered by those numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.methods.gaussian.covariance import nearest_correlation
from understudy.pipelines.methods.gaussian.estimates import Estimates
from understudy.pipelines.methods.gaussian.latent import Axis, axis_from_probabilities, latent_correlation


@dataclass(frozen=True)
class ClassModel:
    """Axes of the numeric columns, then of the categories; `orders[c][k]` is the code of step k of category c."""

    weight: float
    null_rate: np.ndarray
    axes: tuple[Axis, ...]
    orders: tuple[np.ndarray, ...]
    correlation: np.ndarray


def fit_class(estimates: Estimates, numeric_axes: Sequence[Axis], pair_noise: float) -> ClassModel:
    """`pair_noise` is the std of the noise in one scaled sum of products; it damps what rare values seem to say."""
    numeric = len(numeric_axes)
    sizes = [len(p) for p in estimates.probabilities]
    starts = numeric + np.concatenate([[0], np.cumsum(sizes)]).astype(int)
    blocks = [np.arange(starts[c], starts[c + 1]) for c in range(len(sizes))]
    rows = max(estimates.total, 1.0)
    projection = np.zeros((numeric + len(sizes), len(estimates.covariance)))
    projection[np.arange(numeric), np.arange(numeric)] = 1.0
    axes, orders = list(numeric_axes), []
    for c, (block, probabilities) in enumerate(zip(blocks, estimates.probabilities, strict=True)):
        scores = _category_scores(estimates, block, probabilities, numeric_axes, pair_noise / rows)
        order = np.argsort(scores, kind="stable")
        axes.append(axis_from_probabilities(probabilities[order], scores[order]))
        orders.append(order)
        projection[numeric + c, block] = scores
    targets = projection @ estimates.covariance @ projection.T
    correlation = np.eye(len(axes))
    for i in range(len(axes)):
        for j in range(i):
            correlation[i, j] = correlation[j, i] = latent_correlation(axes[i], axes[j], targets[i, j])
    return ClassModel(
        estimates.total, estimates.null_rate, tuple(axes), tuple(orders), nearest_correlation(correlation)
    )


def _category_scores(
    estimates: Estimates,
    block: np.ndarray,
    probabilities: np.ndarray,
    numeric_axes: Sequence[Axis],
    noise: float,
) -> np.ndarray:
    """One number a value, of mean 0 and variance 1; equal spacing where nothing is known of the dependence."""
    others = np.setdiff1d(np.arange(len(estimates.covariance)), block)
    spread = np.concatenate(
        [np.sqrt([max(axis.variance, 1e-6) for axis in numeric_axes])]
        + [np.sqrt(np.maximum(p * (1 - p), noise)) for p in estimates.probabilities]
    )
    width = np.sqrt(np.maximum(probabilities, max(noise, 1e-9)))
    table = estimates.covariance[np.ix_(block, others)] / width[:, None] / np.maximum(spread[others], 1e-9)
    scores = np.arange(len(block), dtype=float)
    if table.size and np.abs(table).max() > 0:
        scores = np.linalg.svd(table, full_matrices=False)[0][:, 0] / width
    scores = scores - probabilities @ scores
    scale = np.sqrt(probabilities @ scores**2)
    return scores / scale if scale > 0 else np.arange(len(block), dtype=float)
