"""Projections onto what moments can be: probabilities, covariances, correlations. Post-processing of noisy numbers."""

from __future__ import annotations

import numpy as np


def nearest_distribution(weights: np.ndarray) -> np.ndarray:
    """The probability vector nearest in L2 (Duchi et al. 2008, Figure 1), uniform if nothing finite is given."""
    ordered = np.sort(weights)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(weights) + 1)
    cut = excess[np.flatnonzero(ordered > excess)[-1]]
    kept = np.maximum(weights - cut, 0.0)
    distribution: np.ndarray = kept / kept.sum()
    return distribution


def nearest_covariance(matrix: np.ndarray) -> np.ndarray:
    """The positive semi-definite matrix nearest in Frobenius norm: negative eigenvalues become 0 (Higham 1988)."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    projected: np.ndarray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return projected


def nearest_correlation(matrix: np.ndarray, least: float = 1e-6, rounds: int = 100) -> np.ndarray:
    """The correlation matrix nearest in Frobenius norm with eigenvalues of about `least` or more.

    Alternating projections with Dykstra's correction (Higham 2002, Algorithm 3.3), then one clip and rescaling so that
    the result is positive definite and has an exact unit diagonal whatever the rounds left over.
    """
    current: np.ndarray = (matrix + matrix.T) / 2
    np.fill_diagonal(current, 1.0)
    correction = np.zeros_like(current)
    for _ in range(rounds):
        values, vectors = np.linalg.eigh(current - correction)
        if values[0] >= least and not correction.any():
            return current
        projected = (vectors * np.maximum(values, least)) @ vectors.T
        correction = projected - (current - correction)
        change = np.abs(np.diag(projected) - 1.0).max()
        current = projected.copy()
        np.fill_diagonal(current, 1.0)
        if change < 1e-7:
            break
    values, vectors = np.linalg.eigh(current)
    clipped = (vectors * np.maximum(values, least)) @ vectors.T
    scale = 1.0 / np.sqrt(np.diag(clipped))
    result: np.ndarray = clipped * scale[:, None] * scale
    np.fill_diagonal(result, 1.0)
    return result
