"""What each event is known by: the Gaussian that dominates it, its Renyi curve, and a delta of its own.

- **mu**: the smallest known mu for which the release is mu-GDP (Dong, Roth & Su 2022): no test tells its two outcomes
  apart better than N(0, 1) from N(mu, 1). A Gaussian has mu = 1/z. A bounded range of epsilon has
  mu = 2 Phi^-1(e^(epsilon/2) / (1 + e^(epsilon/2))), about 0.627 epsilon (docs/proofs/selection.md). mu^2 adds up over
  composition, the worst branch of a parallel one counts. zCDP, Renyi curves and Poisson samples have none here: a
  rho-zCDP release need not be sqrt(2 rho)-GDP, and a sampled Gaussian is no better than the Gaussian far in its tail.
- **Renyi curve**: epsilon at an order. Gaussian order/(2 z^2); rho-zCDP order rho; bounded range min(order epsilon^2/8,
  epsilon) (docs/proofs/selection.md); Poisson-sampled Gaussians by dp-accounting (Mironov, Talwar & Zhang 2019), under
  ADD_REMOVE only; between known orders of a curve the next one above is a bound.
- **own delta**: the deltas of `Approximate` events add up, beside whatever mu and the curve say.

Theorem, relation, sensitivity, noise unit. Those of the mechanism that an event is charged for. What the numbers are
worth together: docs/proofs/filters.md. Reference. Balle & Wang 2018; Canonne, Kamath & Steinke 2020; see above.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from understudy.pipelines.privacy.events import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
    Gaussian,
    Parallel,
    PoissonSampled,
    RenyiCurve,
    SelfComposed,
    ZeroConcentrated,
)
from understudy.pipelines.privacy.relation import Relation

Leaf = Gaussian | ZeroConcentrated | BoundedRange | RenyiCurve | PoissonSampled | Parallel

_SLOPE = math.sqrt(2 * math.pi) / 4
_SLACK = 1 + 1e-11  # far above the error of ndtri_exp where it is used
_LEAST, _MOST = 1e-150, 1e150  # between them squares and their inverses are floats; beyond, bounds are rounded up


def leaves_of(events: Iterable[tuple[Event, int]], relation: Relation) -> Counter[Leaf]:
    """Events and how often each was bought, taken apart; what `Approximate` adds is told by `own_delta`."""
    leaves = Counter[Leaf]()
    for event, times in events:
        _count_leaves(event, times, leaves)
    if relation is Relation.REPLACE_ONE and any(isinstance(leaf, Parallel) for leaf in leaves):
        raise ValueError("parallel composition needs ADD_REMOVE: a replaced unit may move between the parts")
    return leaves


def own_delta(event: Event) -> Decimal:
    """The probability with which the event may be anything: added up, over parallel branches the largest."""
    match event:
        case Approximate(inner, delta):
            return Decimal(repr(delta)) + own_delta(inner)
        case SelfComposed(inner, count):
            return count * own_delta(inner)
        case Composed(events):
            return sum((own_delta(inner) for inner in events), Decimal(0))
        case Parallel(events):
            return max(own_delta(inner) for inner in events)
        case _:
            return Decimal(0)


def mu_squared(leaves: Counter[Leaf]) -> float | None:
    """The sum of mu^2, None where some event has no mu."""
    parts = [_leaf_mu_squared(leaf) for leaf in leaves]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    try:
        return math.fsum(n * part for part, n in zip(known, leaves.values(), strict=True))
    except OverflowError:
        return math.inf


def bounded_range_mu(epsilon: float) -> float:
    """2 Phi^-1(e^(epsilon/2) / (1 + e^(epsilon/2))), rounded up; below 0.001 by its tangent at 0, which lies above."""
    if epsilon < 1e-3:
        return _SLOPE * epsilon * _SLACK
    half = epsilon / 2
    log_tail = -half - math.log1p(math.exp(-half))  # log 1/(1 + e^half)
    return -2 * float(ndtri_exp(log_tail)) * _SLACK


def bounded_range_within(mu: float) -> float:
    """The range whose mu is `mu`, as a float close to it: callers round down and ask `bounded_range_mu`."""
    return 2 * (float(log_ndtr(mu / 2)) - float(log_ndtr(-mu / 2)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon >= 0 with delta(epsilon) <= delta for sensitivity/std = mu, by bisection on the exact curve."""
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
    return high


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The exact delta of the Gaussian mechanism; the second term in logarithms, since e^eps overflows."""
    first = float(ndtr(mu / 2 - epsilon / mu))
    second = math.exp(min(0.0, epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))
    return max(0.0, first - second)


def renyi_sums(leaves: Counter[Leaf], relation: Relation, orders: tuple[float, ...]) -> np.ndarray | None:
    """Epsilon of all leaves together at each order, infinite where no bound is known; None where none ever is."""
    total = np.zeros(len(orders))
    for leaf, n in leaves.items():
        curve = _renyi_curve(leaf, relation, orders)
        if curve is None:
            return None
        with np.errstate(over="ignore"):  # what is larger than any float is infinite
            total = total + (float(n) if n < _MOST else math.inf) * curve
    return total


def renyi_epsilon(renyi: float, order: float, delta: float) -> float:
    """Epsilon at delta of a Renyi divergence at one order (Canonne, Kamath & Steinke 2020, Proposition 12)."""
    return max(0.0, renyi + renyi_conversion(order, delta))


def renyi_conversion(order: float, delta: float) -> float:
    """What the conversion adds to a Renyi epsilon at the order."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


@lru_cache(maxsize=1)
def rdp_orders() -> tuple[float, ...]:
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    return tuple(float(order) for order in DEFAULT_RDP_ORDERS)


def _count_leaves(event: Event, times: int, into: Counter[Leaf]) -> None:
    match event:
        case SelfComposed(inner, count):
            _count_leaves(inner, times * count, into)
        case Approximate(inner, _):
            _count_leaves(inner, times, into)
        case Composed(events):
            for inner in events:
                _count_leaves(inner, times, into)
        case Parallel(events) if len(events) == 1:
            _count_leaves(events[0], times, into)
        case leaf:
            into[leaf] += times


def _leaf_mu_squared(leaf: Leaf) -> float | None:
    match leaf:
        case Gaussian(z):
            return _inverse_square(z)
        case BoundedRange(epsilon):
            mu = bounded_range_mu(epsilon)
            return max(mu * mu, math.ulp(0.0))
        case Parallel(events):
            branches = [mu_squared(leaves_of([(inner, 1)], Relation.ADD_REMOVE)) for inner in events]
            known = [branch for branch in branches if branch is not None]
            return max(known) if len(known) == len(branches) else None
        case _:
            return None


def _inverse_square(z: float) -> float:
    """1/z^2; never 0, however large z is: no release is free."""
    if _LEAST <= z <= _MOST:
        return 1 / z**2
    return math.inf if z < _LEAST else max(2 / z / z, math.ulp(0.0))  # twice: above whatever was rounded


@lru_cache(maxsize=1024)
def _renyi_curve(leaf: Leaf, relation: Relation, orders: tuple[float, ...]) -> np.ndarray | None:
    at = np.array(orders)
    match leaf:
        case Gaussian(z):
            return at / (2 * z * z) if _LEAST <= z <= _MOST else at * _inverse_square(z)
        case ZeroConcentrated(rho):
            with np.errstate(over="ignore"):
                return at * rho
        case BoundedRange(epsilon):
            small = _LEAST <= epsilon < 8  # from 8 on the second is the smaller at every order
            return np.minimum(at * epsilon**2 / 8, epsilon) if small else np.full(len(at), epsilon)
        case RenyiCurve(known, epsilons):
            return _interpolated_renyi(at, known, epsilons)
        case PoissonSampled(rate, Gaussian(z)):
            return None if relation is Relation.REPLACE_ONE else _sampled_gaussian(rate, z, orders)
        case Parallel(events):
            curves = [renyi_sums(leaves_of([(inner, 1)], relation), relation, orders) for inner in events]
            known_curves = [curve for curve in curves if curve is not None]
            return np.max(known_curves, axis=0) if len(known_curves) == len(curves) else None
        case _:
            raise TypeError(f"not a leaf: {leaf}")


def _sampled_gaussian(rate: float, noise_multiplier: float, orders: tuple[float, ...]) -> np.ndarray:
    import dp_accounting
    from absl import logging
    from dp_accounting.rdp import RdpAccountant

    event = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier))

    def at(wanted: Sequence[float]) -> np.ndarray:
        accountant = RdpAccountant(wanted)
        told = logging.get_verbosity()
        logging.set_verbosity(logging.ERROR)  # an order whose series does not converge costs infinity, and is left out
        try:
            accountant.compose(event)
        finally:
            logging.set_verbosity(told)
        return np.asarray(accountant._rdp, dtype=float)

    if len(orders) > 1:
        return at(orders)
    [order] = orders
    below, above = math.floor(order), math.ceil(order)
    if below == above:
        return at(orders)
    # The series for broken orders need not converge. (order - 1) epsilon(order) is convex and 0 at 1, so whole orders
    # on both sides bound it.
    low = (below - 1) * float(at([below])[0]) if below > 1 else 0.0
    high = (above - 1) * float(at([above])[0])
    return np.array([((above - order) * low + (order - below) * high) / (order - 1)])


def _interpolated_renyi(orders: np.ndarray, known: Sequence[float], epsilons: Sequence[float]) -> np.ndarray:
    """The curve at other orders: Renyi divergence grows with the order, so the next known order above is a bound."""
    ascending = np.argsort(known)
    index = np.searchsorted(np.asarray(known)[ascending], orders, side="left")
    padded = np.append(np.asarray(epsilons, dtype=float)[ascending], np.inf)
    bounds: np.ndarray = padded[index]
    return bounds
