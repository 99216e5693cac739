"""How much noise the mixtures need: calibration of the sound event, and the sweep over the order of mixing.

Theorem. The release is one Gaussian event (class statistics, if bought) and T Poisson-subsampled Gaussians, or T
  draws of fixed size (`mechanism`); they compose adaptively, and the noise returned keeps the composed loss within the
  budget under the account's accountant (PLD where it applies), which is asked last, whatever the search did.
Relation. ADD_REMOVE.
Noise unit. `noise_multiplier` = std of a mixture's sum / norm bound of one record.
Choosing l. The paper picks l on the real test set, which is itself an unaccounted release. Here it is
  chosen from public numbers alone. Along one direction that carries a share v of a record's squared norm,
  mixtures have variance l v (signal) + z^2 (noise); T of them tell the signal's variance with relative
  precision snr = sqrt(T) l v / (l v + z^2), which is what any later estimate of a class's shape rests on.
Sensitivity. `mechanism`'s and `statistics`'.
Reference. docs/proofs/mixtures.md; Doroshenko et al. 2022 for pessimistic discretisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.mixing.mechanism import MixtureDesign
from understudy.pipelines.methods.mixing.paper import theorem_1_epsilon
from understudy.pipelines.privacy.accounting import Loss, calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.noise.calibration import sampled_multiplier, smallest_multiplier
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.privacy.rounding import planned

ORDERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
DIRECTIONS = 64
"""A record's energy is taken to spread over this many directions (fewer, if it has fewer numbers)."""


@dataclass(frozen=True)
class OrderChoice:
    """One line of the sweep: what this order costs in noise and buys in signal."""

    order: int
    noise_multiplier: float
    mixture_std: float
    signal_to_noise: float


def statistics_multiplier(budget: Budget, share: float) -> float:
    """Noise of a Gaussian that uses `share` of the budget's squared mu (mu^2 adds up over Gaussians)."""
    return planned(calibrate_gaussian(budget) / math.sqrt(share))


def calibrated(design: MixtureDesign, mixtures: int, spent: float | None, budget: Budget, tolerance: float) -> float:
    """Smallest multiplier (relative `tolerance`, rounded up) that keeps mixtures and what is `spent` in budget."""
    if design.sampler == "poisson":
        return sampled_multiplier(design.rate, mixtures, spent, budget, tolerance)
    before = [] if spent is None else [Gaussian(spent)]

    def epsilon(z: float) -> float:
        events = [*before, replace(design, noise_multiplier=z).event(mixtures)]
        return composed_loss(events, float(budget.delta), Relation.ADD_REMOVE).epsilon

    return smallest_multiplier(epsilon, float(budget.epsilon), tolerance, 1.0)


def certified(design: MixtureDesign, mixtures: int, spent: float | None, budget: Budget) -> tuple[MixtureDesign, Loss]:
    """The design with its noise set and the loss that the ledger's own accountant reports for the whole release."""
    z = calibrated(design, mixtures, spent, budget, tolerance=1e-3)
    for _ in range(20):
        final = replace(design, noise_multiplier=planned(z))
        events = [final.event(mixtures)] + ([] if spent is None else [Gaussian(spent)])
        loss = composed_loss(events, float(budget.delta), Relation.ADD_REMOVE)
        if loss.epsilon <= float(budget.epsilon):
            return final, loss
        z *= 1.01
    raise SpecError("no noise level fits this budget", "raise epsilon, or lower the order or the number of records")


def sweep(
    orders: Sequence[int],
    design_at: Callable[[int], MixtureDesign],
    mixtures: int,
    width: int,
    spent: float | None,
    budget: Budget,
) -> list[OrderChoice]:
    """The table `understudy plan` prints; the order with the largest predicted signal-to-noise is the choice."""
    lines = []
    share = 1.0 / min(width, DIRECTIONS)
    for order in orders:
        design = design_at(order)
        if design.inclusion > 1:
            continue
        z = calibrated(design, mixtures, spent, budget, tolerance=0.02)
        snr = math.sqrt(mixtures) * order * share / (order * share + z * z)
        lines.append(OrderChoice(order, z, z / order, snr))
    return lines


def paper_epsilon(design: MixtureDesign, class_size: float, mixtures: int, delta: float) -> float:
    """What the paper's corrected theorem would say at this noise, with its own label noise at the same std."""
    std = design.noise_multiplier / design.order
    return theorem_1_epsilon(design.order, std, std, max(design.order, round(class_size)), mixtures, delta)
