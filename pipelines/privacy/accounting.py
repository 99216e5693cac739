"""The cost of events: composition, conversion to (epsilon, delta), and calibration of noise to a target.

Three accountants, of which the smallest epsilon among those that apply is reported with its name:

- **analytic**: any number of plain Gaussians compose to one with 1/z^2 = sum 1/z_i^2, and its (epsilon, delta) curve is
  exact: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), mu = 1/z (Balle & Wang 2018, Theorem 8). It is the
  same under both relations since a `Gaussian` event already divides by the relation's own sensitivity.
- **pld**: privacy loss distributions of dp-accounting, pessimistically discretised (Koskela et al. 2020; Doroshenko et
  al. 2022). Knows Gaussians and Poisson-sampled Gaussians under both relations.
- **rdp**: Renyi curves added order by order (Mironov 2017) and converted by dp-accounting (Canonne et al. 2020, Prop.
  12). Knows everything except Poisson sampling under REPLACE_ONE.

Reported losses are rounded up in the last kept digit; calibrated noise is rounded up too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from understudy.pipelines.privacy.events import (
    Composed,
    Event,
    Gaussian,
    Parallel,
    PoissonSampled,
    RenyiCurve,
    SelfComposed,
    ZeroConcentrated,
)
from understudy.pipelines.privacy.relation import Budget, Relation

PLD_INTERVAL = 1e-4
MAX_PARALLEL_BRANCHES = 64
_DIGITS = 9


@dataclass(frozen=True)
class Loss:
    """Epsilon at delta, and which accountant proved it."""

    epsilon: float
    delta: float
    accountant: str


Leaf = Gaussian | ZeroConcentrated | RenyiCurve | PoissonSampled | Parallel


def composed_loss(events: Iterable[Event], delta: float, relation: Relation) -> Loss:
    """The smallest proven epsilon at `delta` of all the events together."""
    leaves = Counter[Leaf]()
    for event in events:
        _count_leaves(event, 1, leaves)
    if not leaves:
        return Loss(0.0, delta, "none")
    if relation is Relation.REPLACE_ONE and any(isinstance(leaf, Parallel) for leaf in leaves):
        raise ValueError("parallel composition needs ADD_REMOVE: a replaced unit may move between the parts")
    if all(isinstance(leaf, Gaussian) for leaf in leaves):
        mu = math.sqrt(sum(n / leaf.noise_multiplier**2 for leaf, n in leaves.items() if isinstance(leaf, Gaussian)))
        return Loss(_round_up(gaussian_epsilon(mu, delta)), delta, "analytic")
    candidates = [
        Loss(_round_up(epsilon), delta, name)
        for name, epsilon in (
            ("pld", _pld_epsilon(leaves, delta, relation)),
            ("rdp", _rdp_epsilon(leaves, delta, relation)),
        )
        if epsilon is not None
    ]
    if not candidates:
        raise ValueError(f"no accountant knows these events under {relation.value}")
    return min(candidates, key=lambda loss: loss.epsilon)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon >= 0 with delta(epsilon) <= delta for sensitivity/std = mu, by bisection on the exact curve."""
    if gaussian_delta(mu, 0.0) <= delta:
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


def calibrate_gaussian(budget: Budget, spent: Sequence[Event] = (), relation: Relation = Relation.ADD_REMOVE) -> float:
    """Smallest noise multiplier whose Gaussian, composed with `spent`, stays within the budget."""
    return calibrate(lambda z: Composed((*spent, Gaussian(z))), budget, relation)


def calibrate(event_at: Callable[[float], Event], budget: Budget, relation: Relation, tolerance: float = 1e-6) -> float:
    """Smallest noise level z (relative `tolerance`, rounded up) at which `event_at(z)` costs at most the budget."""
    epsilon, delta = float(budget.epsilon), float(budget.delta)

    def fits(z: float) -> bool:
        return composed_loss([event_at(z)], delta, relation).epsilon <= epsilon

    high = 1.0
    while not fits(high):
        high *= 2
        if high > 1e9:
            raise ValueError("no amount of noise fits this budget; what is already spent exceeds it")
    low = high / 2
    while low > 1e-6 and fits(low):
        low, high = low / 2, low
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _count_leaves(event: Event, times: int, into: Counter[Leaf]) -> None:
    match event:
        case SelfComposed(inner, count):
            _count_leaves(inner, times * count, into)
        case Composed(events):
            for inner in events:
                _count_leaves(inner, times, into)
        case Parallel(events) if len(events) == 1:
            _count_leaves(events[0], times, into)
        case leaf:
            into[leaf] += times


def _round_up(epsilon: float) -> float:
    return math.ceil(epsilon * 10**_DIGITS) / 10**_DIGITS if math.isfinite(epsilon) else epsilon


def _pld_epsilon(leaves: Counter[Leaf], delta: float, relation: Relation) -> float | None:
    """Pessimistic PLD epsilon; over a product of parallel branches the worst choice counts. None: not supported."""
    fixed: Counter[Leaf] = Counter({leaf: n for leaf, n in leaves.items() if not isinstance(leaf, Parallel)})
    parallel = [leaf for leaf, n in leaves.items() if isinstance(leaf, Parallel) for _ in range(n)]
    if math.prod(len(leaf.events) for leaf in parallel) > MAX_PARALLEL_BRANCHES:
        return None
    worst = 0.0
    for choice in product(*(leaf.events for leaf in parallel)):
        branch: Counter[Leaf] = Counter(fixed)
        for event in choice:
            _count_leaves(event, 1, branch)
        if any(not isinstance(leaf, Gaussian | PoissonSampled) for leaf in branch):
            return None
        total: Any = None
        variance_share = sum(n / leaf.noise_multiplier**2 for leaf, n in branch.items() if isinstance(leaf, Gaussian))
        parts = [_poisson_pld(leaf, n, relation) for leaf, n in branch.items() if isinstance(leaf, PoissonSampled)]
        if variance_share:
            parts.append(_gaussian_pld(1 / math.sqrt(variance_share)))
        for part in parts:
            total = part if total is None else total.compose(part)
        worst = max(worst, float(total.get_epsilon_for_delta(delta)))
    return worst


@lru_cache(maxsize=64)
def _gaussian_pld(noise_multiplier: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    # The pair N(0, z^2), N(1, z^2) dominates under either relation: z divides by that relation's own sensitivity.
    return pld.from_gaussian_mechanism(noise_multiplier, value_discretization_interval=PLD_INTERVAL)


@lru_cache(maxsize=64)
def _poisson_pld(leaf: PoissonSampled, count: int, relation: Relation) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    single = pld.from_gaussian_mechanism(
        leaf.event.noise_multiplier,
        value_discretization_interval=PLD_INTERVAL,
        sampling_prob=leaf.rate,
        neighboring_relation=_neighbouring(relation),
    )
    return single.self_compose(count)


def _rdp_epsilon(leaves: Counter[Leaf], delta: float, relation: Relation) -> float | None:
    from dp_accounting.rdp import compute_epsilon

    total = _summed_curve(leaves, relation)
    if total is None or not np.isfinite(total).any():
        return None
    usable = np.isfinite(total)
    return float(compute_epsilon(np.array(rdp_orders())[usable], total[usable], delta)[0])


def _summed_curve(leaves: Counter[Leaf], relation: Relation) -> np.ndarray | None:
    total = np.zeros(len(rdp_orders()))
    for leaf, n in leaves.items():
        curve = _rdp_curve(leaf, relation)
        if curve is None:
            return None
        total = total + n * curve
    return total


@lru_cache(maxsize=1)
def rdp_orders() -> tuple[float, ...]:
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    return tuple(float(order) for order in DEFAULT_RDP_ORDERS)


@lru_cache(maxsize=256)
def _rdp_curve(event: Event, relation: Relation) -> np.ndarray | None:
    """Epsilon at each of `rdp_orders()`, or None where no bound is known."""
    orders = np.array(rdp_orders())
    match event:
        case Gaussian(z):
            return orders / (2 * z * z)
        case ZeroConcentrated(rho):
            return orders * rho
        case RenyiCurve(known, epsilons):
            return _interpolated_renyi(orders, known, epsilons)
        case PoissonSampled(rate, Gaussian(z)):
            if relation is Relation.REPLACE_ONE:
                return None
            return _sampled_gaussian_rdp(rate, z)
        case Parallel(events):
            curves = [_branch_curve(inner, relation) for inner in events]
            known_curves = [curve for curve in curves if curve is not None]
            return np.max(known_curves, axis=0) if len(known_curves) == len(curves) else None
        case _:
            raise TypeError(f"not a leaf: {event}")


def _branch_curve(event: Event, relation: Relation) -> np.ndarray | None:
    leaves = Counter[Leaf]()
    _count_leaves(event, 1, leaves)
    return _summed_curve(leaves, relation)


@lru_cache(maxsize=256)
def _sampled_gaussian_rdp(rate: float, noise_multiplier: float) -> np.ndarray:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(rdp_orders())
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise_multiplier)))
    return np.asarray(accountant._rdp, dtype=float)


def _interpolated_renyi(orders: np.ndarray, known: Sequence[float], epsilons: Sequence[float]) -> np.ndarray:
    """The curve at other orders: Renyi divergence grows with the order, so the next known order above is a bound."""
    index = np.searchsorted(np.asarray(known), orders, side="left")
    padded = np.append(np.asarray(epsilons, dtype=float), np.inf)
    bounds: np.ndarray = padded[index]
    return bounds


def _neighbouring(relation: Relation) -> Any:
    from dp_accounting import NeighboringRelation

    if relation is Relation.REPLACE_ONE:
        return NeighboringRelation.REPLACE_ONE
    return NeighboringRelation.ADD_OR_REMOVE_ONE
