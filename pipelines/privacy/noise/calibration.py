"""How much noise many Poisson-sampled Gaussians need: a quick search that is only ever pessimistic.

Theorem. Both bounds used here, a Renyi bound at whole orders and a PLD on a coarse grid, lie above the loss that the
  ledger's accountant finds for the same event, so a multiplier that satisfies them satisfies it up to the accountant's
  own rounding; callers ask the accountant last.
Relation. ADD_REMOVE.
Noise unit. The multiplier is the std over the norm bound of one record's own contribution (`events`).
Reference. Mironov, Talwar & Zhang 2019; Doroshenko et al. 2022 for pessimistic discretisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.events import Gaussian, PoissonSampled
from understudy.pipelines.privacy.relation import Budget

MIN_MULTIPLIER, MAX_MULTIPLIER = 0.1, 1e5
_STEP = 1.3


def sampled_multiplier(rate: float, times: int, spent: float | None, budget: Budget, tolerance: float) -> float:
    """Smallest multiplier (relative `tolerance`, rounded up) for `times` samples beside a Gaussian already `spent`."""
    delta, target = float(budget.delta), float(budget.epsilon)
    start = renyi_multiplier(rate, times, spent, budget)
    interval = min(1e-3, target / 1000) if tolerance < 0.01 else min(4e-3, target / 300)

    def epsilon(z: float) -> float:
        return _coarse_epsilon(PoissonSampled(rate, Gaussian(z)), times, spent, delta, interval)

    return smallest_multiplier(epsilon, target, tolerance, start)


def renyi_multiplier(rate: float, times: int, spent: float | None, budget: Budget) -> float:
    """What a Renyi bound alone accepts, to 1%: somewhat more noise, in milliseconds."""
    delta, target = float(budget.delta), float(budget.epsilon)

    def epsilon(z: float) -> float:
        return _renyi_epsilon(PoissonSampled(rate, Gaussian(z)), times, spent, delta)

    return smallest_multiplier(epsilon, target, 0.01, 1.0)


@lru_cache(maxsize=512)
def _coarse_epsilon(leaf: PoissonSampled, count: int, spent: float | None, delta: float, interval: float) -> float:
    """A pessimistic PLD bound on a coarser grid than the ledger's: an upper bound itself, and ten times faster."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.from_gaussian_mechanism(
        leaf.event.noise_multiplier, value_discretization_interval=interval, sampling_prob=leaf.rate
    ).self_compose(count)
    if spent is not None:
        total = total.compose(pld.from_gaussian_mechanism(spent, value_discretization_interval=interval))
    return float(total.get_epsilon_for_delta(delta))


def _renyi_epsilon(leaf: PoissonSampled, count: int, spent: float | None, delta: float) -> float:
    """A Renyi bound, far faster and above the PLD's: where the search begins."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([*range(2, 64), 128, 256, 512])  # whole orders are quick; this only starts the search
    gaussian = dp_accounting.GaussianDpEvent(leaf.event.noise_multiplier)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(leaf.rate, gaussian), count)
    if spent is not None:
        accountant.compose(dp_accounting.GaussianDpEvent(spent))
    return float(accountant.get_epsilon(delta))


def smallest_multiplier(epsilon: Callable[[float], float], target: float, tolerance: float, start: float) -> float:
    """Smallest z with epsilon(z) <= target. Epsilon falls with z; evaluations are slow, so interpolate in logs."""
    high, at_high = start, epsilon(start)
    while at_high > target:
        if high > MAX_MULTIPLIER:
            raise SpecError("no noise level fits this budget", "raise epsilon, or release less")
        high *= _STEP
        at_high = epsilon(high)
    low, at_low = high / _STEP, epsilon(high / _STEP)
    while at_low <= target and low > MIN_MULTIPLIER:
        high, at_high = low, at_low
        low /= _STEP
        at_low = epsilon(low)
    while high / low > 1 + tolerance and at_low > target:
        share = math.log(at_low / target) / math.log(at_low / max(at_high, 1e-9))
        guess = low * (high / low) ** min(max(share, 0.0), 1.0)
        # Aim half a tolerance beside the root, above and below in turn, so that both ends close in.
        for aim in (guess * (1 + tolerance / 2), guess / (1 + tolerance / 2)):
            z = aim if low < aim < high else math.sqrt(low * high)
            found = epsilon(z)
            if found <= target:
                high, at_high = z, found
            else:
                low, at_low = z, found
    return high
