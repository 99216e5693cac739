"""How private is a sample from a Gaussian fitted to the data? Theorem 3.1 and Corollary 3.2 of Miura et al.

Theorem. One draw of N(mu_D, Sigma_D), D of n records in [-1, 1]^d with smallest covariance eigenvalue at least sigma
  (and so for every neighbour), satisfies (alpha, epsilon)-RDP with the epsilon of `record_epsilon`; m draws cost m
  times that (Mironov 2017, Proposition 1).
Relation. ADD_REMOVE: Theorem 3.1, n the smaller of the two sizes. REPLACE_ONE: Corollary 3.2, through the union.
Sensitivity. None is added to: the randomness is that of the draw itself.
Corollary 3.2, strictly. The intermediate dataset is the union of the two neighbours, with n + 1 records and smallest
  eigenvalue only n sigma/(n + 1). So both legs of the triangle are Theorem 3.1 with n and that smaller eigenvalue;
  the printed form keeps sigma and has n + 1 in the second. `strict=False` reproduces the paper's tables (266.7349,
  23.3577, 2.3071 at alpha 4); the default is the form to charge (266.7435, 23.35776, 2.30714).
The assumption on sigma is a property of private data. `pseudo_records` makes it true instead of assuming it.
Numerics. With n up to 10^9 and beyond the bound is a difference of logarithms that agree to 18 digits; they are
  combined as series first (`_excess`), so the result keeps full relative precision.
Reference. Miura, Shibahara, Kii, Ichikawa, Yamamoto, Chida: On Renyi Differential Privacy in Statistics-Based
  Synthetic Data Generation. docs/proofs/sampling-noise.md; 60-digit arithmetic in the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from understudy.pipelines.privacy.relation import Relation


@dataclass(frozen=True)
class FittedSet:
    """What the theorem knows of the data: n records, d columns in [-1, 1], covariance eigenvalues >= `least`."""

    records: int
    dimension: int
    least: float

    def __post_init__(self) -> None:
        if self.records < 1 or self.dimension < 1 or not 0 < self.least <= self.dimension:
            raise ValueError("Theorem 3.1 needs records >= 1, dimension >= 1 and 0 < least eigenvalue <= dimension")
        if not self.records / (self.records + 1) < self.tau:
            raise ValueError("Theorem 3.1 needs n/(n+1) < 4d/sigma; the least eigenvalue is impossibly large")

    @property
    def tau(self) -> float:
        return 4 * self.dimension / self.least


def order_limit(data: FittedSet, relation: Relation, *, strict: bool = True) -> float:
    """Orders must stay below this: c of Theorem 3.1, or c^2/(2c - 1) of Corollary 3.2 (1: no order is left)."""
    if relation is Relation.ADD_REMOVE:
        return _theorem_limit(data.records, data.tau)
    c = _theorem_limit(data.records, _leg_tau(data, strict))
    return c * c / (2 * c - 1) if c > 1 else 1.0


def record_epsilon(
    order: float, data: FittedSet, relation: Relation = Relation.ADD_REMOVE, *, strict: bool = True
) -> float:
    """Renyi epsilon of one sampled record at this order; see the module for `strict`."""
    limit = order_limit(data, relation, strict=strict)
    if not 1 < order < limit:
        raise ValueError(
            f"order {order:g} is outside (1, {limit:.6g}), where the theorem holds for n = {data.records}, "
            f"d = {data.dimension} and least eigenvalue {data.least:g}; more records or a larger eigenvalue widen it"
        )
    if relation is Relation.ADD_REMOVE:
        return _add_remove(order, data.records, data.dimension, data.tau)
    n, d, tau = data.records, data.dimension, _leg_tau(data, strict)
    c = _theorem_limit(n, tau)

    def through_union(log_excess: float) -> float:
        p = 1 + math.exp(log_excess)
        first = _add_remove(p * order, n, d, tau)
        second = _add_remove((p * order - 1) / (p - 1), n if strict else n + 1, d, tau)
        return (order - 1 / p) / (order - 1) * first + second

    low, high = math.log((order - 1) / (c - order)), math.log((c - order) / order)
    inside = 1e-9 * (high - low)
    found = minimize_scalar(
        through_union,
        bounds=(low + inside, high - inside),
        method="bounded",
        options={"xatol": 1e-11, "maxiter": 500},
    )
    return float(found.fun)  # any p gives a valid bound, so an imperfect minimum is safe


def _theorem_limit(n: int, tau: float) -> float:
    return min(n + 1.0, n * n / (tau * (n + 1) - n))


def _leg_tau(data: FittedSet, strict: bool) -> float:
    return data.tau * (data.records + 1) / data.records if strict else data.tau


def sampled_epsilon(
    order: float, delta: float, draws: int, data: FittedSet, relation: Relation, *, strict: bool = True
) -> float:
    """Epsilon at delta of `draws` records by the conversion the paper uses (Mironov 2017, Proposition 3)."""
    renyi = draws * record_epsilon(order, data, relation, strict=strict)
    return renyi + math.log(1 / delta) / (order - 1)


def best_sampled_epsilon(
    delta: float, draws: int, data: FittedSet, relation: Relation, *, strict: bool = True
) -> tuple[float, float]:
    """The least of those over all orders, and the order that attains it."""
    limit = order_limit(data, relation, strict=strict)
    if limit <= 1:
        raise ValueError("no order is valid for so few records; use noisy moments, or add public pseudo-records")
    top = math.log(limit - 1)
    orders = [1 + math.exp(top - step) for step in np.linspace(1e-6, 25.0, 400)]
    values = [sampled_epsilon(order, delta, draws, data, relation, strict=strict) for order in orders]
    best = int(np.argmin(values))
    return values[best], orders[best]


def _add_remove(order: float, n: int, d: int, tau: float) -> float:
    return max(_adding(order, n, d, tau), _removing(order, n, d, tau))


def _adding(order: float, n: int, d: int, tau: float) -> float:
    """epsilon_1: from n records to n + 1."""
    v = tau / (n + 1)
    rest = n + 1 - order
    log_ratio = -_excess(order, v) + math.log1p(order * v * (order - 1) / (rest * (1 + order * v)))
    mean = order * tau / (2 * (n + 1) * rest)
    return mean + (d * _excess(order, -1 / (n + 1)) - min(0.0, log_ratio)) / (2 * (order - 1))


def _removing(order: float, n: int, d: int, tau: float) -> float:
    """epsilon_2: from n + 1 records to n."""
    v = tau / n
    if order * v < 0.5:
        log_ratio = -_excess(order, -v) + math.log1p(order * v * (order - 1) / ((n + order) * (1 - order * v)))
    else:
        log_ratio = math.log1p(-order * v * (n + 1) / (n + order)) - order * math.log1p(-v)
    mean = order * tau / (2 * (n * (n + order) - order * (n + 1) * tau))
    return mean + (d * _excess(order, 1 / n) - min(0.0, log_ratio)) / (2 * (order - 1))


def _excess(order: float, u: float) -> float:
    """order * log(1 + u) - log(1 + order * u), as a series where the two nearly cancel."""
    if abs(order * u) > 0.1:
        return order * math.log1p(u) - math.log1p(order * u)
    # sum over k >= 2 of (order^k - order) (-u)^k / k; 20 terms reach 1e-20 of the first
    return math.fsum((order**k - order) * (-u) ** k / k for k in range(2, 22))
