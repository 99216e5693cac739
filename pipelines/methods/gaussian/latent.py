"""Columns as steps on a normal axis, and the latent correlation that gives two of them a wanted covariance.

A column is a nondecreasing step function g of a standard normal Z: g(Z) = scores[k] between thresholds[k-1] and
thresholds[k]. For two of them with corr(Z, W) = rho = sin(theta), Price's theorem gives
  d/d rho  Cov(g(Z), h(W)) = E g'(Z) h'(W) = sum_kl dg_k dh_l phi_2(t_k, s_l; rho),
so the covariance is an integral over theta of  exp(-(t^2 + s^2 - 2 t s sin) / (2 cos^2)) / 2 pi: smooth, increasing,
and exact up to quadrature even at |rho| near 1. Inverting it is what makes clipped, skewed, whole-number and category
columns keep the covariance that was measured (NORTA: Cario & Nelson 1997).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

MAX_THETA = 1.55  # sin = 0.99978
NODES = 48
STEPS = 32
_LARGEST_STEP = 8.0


@dataclass(frozen=True)
class Axis:
    """One column on its normal axis: `len(scores) - 1` thresholds, both ascending."""

    thresholds: np.ndarray
    scores: np.ndarray

    @property
    def probabilities(self) -> np.ndarray:
        return np.diff(np.concatenate([[0.0], ndtr(self.thresholds), [1.0]]))

    @property
    def mean(self) -> float:
        return float(self.probabilities @ self.scores)

    @property
    def variance(self) -> float:
        return float(self.probabilities @ (self.scores - self.mean) ** 2)


def axis_from_probabilities(probabilities: np.ndarray, scores: np.ndarray) -> Axis:
    """Thresholds that give each step its probability; steps of probability 0 keep a place but no width."""
    below = np.clip(np.cumsum(probabilities)[:-1], 0.0, 1.0)
    return Axis(np.clip(ndtri(below), -_LARGEST_STEP, _LARGEST_STEP), scores)


def axis_of_clipped_normal(centre: float, spread: float) -> Axis:
    """min(max(centre + spread Z, -1), 1) cut into steps of equal height."""
    if spread <= 0:
        return Axis(np.zeros(0), np.array([min(max(centre, -1.0), 1.0)]))
    low, high = max(-1.0, min(centre - 5 * spread, 1.0)), min(1.0, max(centre + 5 * spread, -1.0))
    if high <= low:
        return Axis(np.zeros(0), np.array([low]))
    scores = np.linspace(low, high, STEPS + 1)
    edges = (scores[1:] + scores[:-1]) / 2
    return Axis(np.clip((edges - centre) / spread, -_LARGEST_STEP, _LARGEST_STEP), scores)


def latent_correlation(first: Axis, second: Axis, covariance: float) -> float:
    """The rho at which the two columns have this covariance, or the nearest one that can be reached."""
    if not len(first.thresholds) or not len(second.thresholds):
        return 0.0
    theta = np.linspace(0.0, MAX_THETA, NODES + 1) * (1.0 if covariance >= 0 else -1.0)
    middle = (theta[1:] + theta[:-1]) / 2
    half = (theta[1:] - theta[:-1]) / 2
    offset = half / np.sqrt(3.0)  # two-point Gauss-Legendre on each interval
    slope = _slope(first, second, np.concatenate([middle - offset, middle + offset]))
    reached = np.concatenate([[0.0], np.cumsum(half * (slope[:NODES] + slope[NODES:]))])
    return float(np.sin(np.interp(abs(covariance), np.abs(reached), theta)))


def _slope(first: Axis, second: Axis, theta: np.ndarray) -> np.ndarray:
    """d Cov / d theta at each theta."""
    t, s = first.thresholds[:, None], second.thresholds[None, :]
    squares, product = t * t + s * s, 2 * t * s
    weight = np.diff(first.scores)[:, None] * np.diff(second.scores)[None, :] / (2 * np.pi)
    sine, twice_square = np.sin(theta), 2 * np.cos(theta) ** 2
    return np.array(
        [np.sum(weight * np.exp((product * one - squares) / two)) for one, two in zip(sine, twice_square, strict=True)]
    )


def fit_clipped_normal(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centre and spread of normals whose clips to [-1, 1] have these means and variances, elementwise by bisection.

    Every mean in (-1, 1) and variance in (0, 1 - mean^2) can be had: the mean grows with the centre, and at fixed mean
    the variance grows with the spread, from a point to two points at -1 and 1.
    """
    mean = np.clip(mean, -1 + 1e-6, 1 - 1e-6)
    variance = np.clip(variance, 1e-12, 0.999 * (1 - mean**2))
    low, high = np.full_like(mean, np.log(1e-7)), np.full_like(mean, np.log(1e4))
    for _ in range(32):
        spread = np.exp((low + high) / 2)
        too_small = _clipped_moments(_centre_for(mean, spread), spread)[1] - mean**2 < variance
        low, high = np.where(too_small, (low + high) / 2, low), np.where(too_small, high, (low + high) / 2)
    spread = np.exp((low + high) / 2)
    return _centre_for(mean, spread), spread


def _centre_for(mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    reach = 1 + 8 * spread
    low, high = -reach, reach
    for _ in range(32):
        centre = (low + high) / 2
        too_small = _clipped_moments(centre, spread)[0] < mean
        low, high = np.where(too_small, centre, low), np.where(too_small, high, centre)
    found: np.ndarray = (low + high) / 2
    return found


def _clipped_moments(centre: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and second moment of min(max(centre + spread Z, -1), 1)."""
    a, b = (-1 - centre) / spread, (1 - centre) / spread
    below, above, inside = ndtr(a), ndtr(-b), ndtr(b) - ndtr(a)
    density_a, density_b = _density(a), _density(b)
    mean = -below + above + centre * inside + spread * (density_a - density_b)
    second = (
        below
        + above
        + (centre**2 + spread**2) * inside
        + 2 * centre * spread * (density_a - density_b)
        + spread**2 * (a * density_a - b * density_b)
    )
    return mean, second


def _density(t: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.exp(np.maximum(-t * t / 2, -700.0)) * 0.3989422804014327
    return result
