"""An analyst who chooses each release after looking at the outputs so far, and the delta that this really reaches.

Exact up to quadrature: every event here has a worst pair of distributions in one dimension. For a pair (P, Q) and a
threshold e^s, `delta(s)` = sup over sets S of P(S) - e^s Q(S). After outcomes with privacy loss L the analyst faces
the threshold s - L, and the best continuation is the largest of what the menu offers there, so

    value(s) = E_P [ max over the menu of value of the rest at s - L ].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from understudy.pipelines.privacy.events import Approximate, BoundedRange, Event, Gaussian, PoissonSampled

Value = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Pair:
    """`outcomes`: probabilities under P and their losses. `certain`: probability of an outcome that gives all away."""

    delta: Value
    probabilities: np.ndarray
    losses: np.ndarray
    certain: float = 0.0

    def value(self, rest: Value, s: np.ndarray) -> np.ndarray:
        """What the analyst reaches at each threshold who goes on with `rest` after seeing the outcome."""
        found = np.array([float(self.probabilities @ rest(at - self.losses)) for at in np.atleast_1d(s)])
        return self.certain + (1 - self.certain) * found


def best_of(values: Sequence[Value]) -> Value:
    return lambda s: np.max([value(s) for value in values], axis=0)


def pairs_of(event: Event, points: int = 4001) -> list[Pair]:
    """The worst pairs of an event, in both directions."""
    match event:
        case Gaussian(z):
            x = np.linspace(-12, 12, points)
            mu = 1 / z
            return [Pair(_gaussian(mu), _normal(x), mu * x + mu * mu / 2)]
        case PoissonSampled(rate, Gaussian(z)):
            return [_sampled(rate, z, points), _sampled_reversed(rate, z, points)]
        case BoundedRange(epsilon):
            return [_response(epsilon, t) for t in np.linspace(0, epsilon, 9)[1:-1]]
        case Approximate(inner, own):
            return [
                Pair(_with_certain(own, pair.delta), pair.probabilities, pair.losses, own)
                for pair in pairs_of(inner, points)
            ]
    raise TypeError(event)


def _with_certain(own: float, delta: Value) -> Value:
    return lambda s: own + (1 - own) * delta(s)


def _normal(x: np.ndarray) -> np.ndarray:
    """Trapezoid weights of the standard normal density: exact far beyond doubles for smooth integrands."""
    return np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])


def _gaussian(mu: float) -> Value:
    return lambda s: np.maximum(0, ndtr(mu / 2 - s / mu) - np.exp(np.minimum(0, s + log_ndtr(-mu / 2 - s / mu))))


def _sampled(rate: float, z: float, points: int) -> Pair:
    """P = (1 - q) N(0, z^2) + q N(1, z^2), Q = N(0, z^2): the unit is in the data."""

    def delta(s: np.ndarray) -> np.ndarray:
        s = np.asarray(s, dtype=float)
        above = np.exp(np.minimum(s, 700)) - (1 - rate)
        everything = above <= 0
        cut = z * z * np.log(np.where(everything, 1.0, above) / rate) + 0.5
        tail = ndtr(-cut / z)
        found = (1 - rate) * tail + rate * ndtr((1 - cut) / z) - np.exp(np.minimum(700, s + log_ndtr(-cut / z)))
        return np.maximum(0, np.where(everything, -np.expm1(s), found))

    without, within = np.linspace(-12 * z, 12 * z, points), np.linspace(1 - 12 * z, 1 + 12 * z, points)
    weights = _normal(np.linspace(-12, 12, points))
    x = np.concatenate([without, within])
    return Pair(delta, np.concatenate([(1 - rate) * weights, rate * weights]), _sampled_loss(x, rate, z))


def _sampled_reversed(rate: float, z: float, points: int) -> Pair:
    """P = N(0, z^2), Q the mixture."""

    def delta(s: np.ndarray) -> np.ndarray:
        s = np.asarray(s, dtype=float)
        below = np.exp(np.minimum(-s, 700)) - (1 - rate)
        nothing = below <= 0
        cut = z * z * np.log(np.where(nothing, 1.0, below) / rate) + 0.5
        mixed = (1 - rate) * ndtr(cut / z) + rate * ndtr((cut - 1) / z)
        return np.maximum(0, np.where(nothing, 0.0, ndtr(cut / z) - np.exp(s) * mixed))

    x = np.linspace(-12 * z, 12 * z, points)
    return Pair(delta, _normal(np.linspace(-12, 12, points)), -_sampled_loss(x, rate, z))


def _sampled_loss(x: np.ndarray, rate: float, z: float) -> np.ndarray:
    return np.logaddexp(np.log1p(-rate), np.log(rate) + (2 * x - 1) / (2 * z * z))


def _response(epsilon: float, t: float) -> Pair:
    """The two-point pair with losses t and t - epsilon (docs/proofs/selection.md)."""
    p = np.expm1(epsilon - t) * np.exp(t) / np.expm1(epsilon)
    q = p * np.exp(-t)

    def delta(s: np.ndarray) -> np.ndarray:
        return np.maximum(0, np.maximum(p - np.exp(s) * q, -np.expm1(s)))

    return Pair(delta, np.array([p, 1 - p]), np.array([t, t - epsilon]))
