"""The loss of one release: composition, conversion to (epsilon, delta), and calibration of noise to a target.

All events of a release are fixed by its plan before a row is read, so any accountant of fixed events may be used for
it. What an *account* has spent is another number, decided by its filter (`filters`); nothing here decides a cap.

Three accountants. Where every event is dominated by a Gaussian the first one is used, otherwise the smaller epsilon
of the other two is reported with its name:

- **analytic**: releases that are mu_i-GDP compose to mu^2 = sum mu_i^2 (`curves`), and the (epsilon, delta) curve of
  that Gaussian is exact: delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) (Balle & Wang 2018, Theorem 8). It is
  the same under both relations since a `Gaussian` event already divides by the relation's own sensitivity.
- **pld**: privacy loss distributions of dp-accounting, pessimistically discretised (Koskela et al. 2020; Doroshenko et
  al. 2022). Knows Poisson-sampled Gaussians under both relations; everything that has a mu enters as its Gaussian.
- **rdp**: Renyi curves added order by order (Mironov 2017) and converted by dp-accounting (Canonne et al. 2020, Prop.
  12). Knows everything except Poisson sampling under REPLACE_ONE.

Deltas that events have of their own are taken from the delta asked for. Reported losses are rounded up in the last
kept digit; calibrated noise is rounded up too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from understudy.pipelines.privacy.curves import (
    Leaf,
    gaussian_epsilon,
    leaves_of,
    mu_squared,
    own_delta,
    rdp_orders,
    renyi_sums,
)
from understudy.pipelines.privacy.events import Composed, Event, Gaussian, Parallel, PoissonSampled
from understudy.pipelines.privacy.relation import Budget, Relation

PLD_INTERVAL = 1e-4
MAX_PARALLEL_BRANCHES = 64
_DIGITS = 9


@dataclass(frozen=True)
class Loss:
    """Epsilon at delta, and which accountant or filter proved it."""

    epsilon: float
    delta: float
    accountant: str


def composed_loss(events: Iterable[Event], delta: float, relation: Relation) -> Loss:
    """The smallest proven epsilon at `delta` of all the events together, which were fixed in advance."""
    events = list(events)
    leaves = leaves_of(((event, 1) for event in events), relation)
    if not leaves:
        return Loss(0.0, delta, "none")
    own = sum((own_delta(event) for event in events), Decimal(0))
    rest = float(Decimal(repr(delta)) - own) if own else delta
    if rest <= 0:
        return Loss(math.inf, delta, "own deltas")
    squared = mu_squared(leaves)
    if squared is not None:
        return Loss(rounded_up(gaussian_epsilon(math.sqrt(squared), rest)), delta, "analytic")
    candidates = [
        Loss(rounded_up(epsilon), delta, name)
        for name, epsilon in (
            ("pld", _pld_epsilon(leaves, rest, relation)),
            ("rdp", _rdp_epsilon(leaves, rest, relation)),
        )
        if epsilon is not None
    ]
    if not candidates:
        raise ValueError(f"no accountant knows these events under {relation.value}")
    return min(candidates, key=lambda loss: loss.epsilon)


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


def rounded_up(epsilon: float) -> float:
    scaled = epsilon * 10**_DIGITS
    return math.ceil(scaled) / 10**_DIGITS if math.isfinite(scaled) else epsilon


def _pld_epsilon(leaves: Counter[Leaf], delta: float, relation: Relation) -> float | None:
    """Pessimistic PLD epsilon; over a product of parallel branches the worst choice counts. None: not supported."""
    fixed: Counter[Leaf] = Counter({leaf: n for leaf, n in leaves.items() if not isinstance(leaf, Parallel)})
    parallel = [leaf for leaf, n in leaves.items() if isinstance(leaf, Parallel) for _ in range(n)]
    if math.prod(len(leaf.events) for leaf in parallel) > MAX_PARALLEL_BRANCHES:
        return None
    worst = 0.0
    for choice in product(*(leaf.events for leaf in parallel)):
        branch = fixed + leaves_of(((event, 1) for event in choice), relation)
        sampled = {leaf: n for leaf, n in branch.items() if isinstance(leaf, PoissonSampled)}
        squared = mu_squared(Counter({leaf: n for leaf, n in branch.items() if leaf not in sampled}))
        if squared is None:
            return None
        total: Any = None
        parts = [_poisson_pld(leaf, n, relation) for leaf, n in sampled.items()]
        if squared:
            parts.append(_gaussian_pld(1 / math.sqrt(squared)))
        for part in parts:
            total = part if total is None else total.compose(part)
        if total is not None:
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

    total = renyi_sums(leaves, relation, rdp_orders())
    if total is None or not np.isfinite(total).any():
        return None
    usable = np.isfinite(total)
    return float(compute_epsilon(np.array(rdp_orders())[usable], total[usable], delta)[0])


def _neighbouring(relation: Relation) -> Any:
    from dp_accounting import NeighboringRelation

    if relation is Relation.REPLACE_ONE:
        return NeighboringRelation.REPLACE_ONE
    return NeighboringRelation.ADD_OR_REMOVE_ONE
