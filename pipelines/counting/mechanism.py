"""Noisy marginals.

Theorem. For integer counts c_S of the cliques S, release c_S + Z_S, Z_S = round(N(0, std_S^2)) independent per cell.
  This is post-processing of the Gaussian mechanism on the stacked vector (c_S / std_S), hence Gaussian(z) with
  z = 1 / sqrt(sum_S (Δ / std_S)^2), exactly, for any number of cliques.
Relation, sensitivity. A unit of k rows moves each c_S by at most Δ = k (ADD_REMOVE) or sqrt(2) k (REPLACE_ONE) in L2:
  `counts_sensitivity`.
Noise unit. `std` is a standard deviation in rows, per cell.
Reference. Dwork & Roth 2014, Appendix A; Balle & Wang 2018, Theorem 8 (calibration); rounding is post-processing.

With `noise: opendp` the discrete Gaussian of OpenDP is drawn instead and charged as zCDP, rho = 1/(2 z^2) (Canonne,
Kamath & Steinke 2020, Theorem 4; for many coordinates only this bound is proven).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.counting.workload import noise_stds
from understudy.pipelines.privacy.accounting import calibrate
from understudy.pipelines.privacy.events import Event, Gaussian, ZeroConcentrated
from understudy.pipelines.privacy.noise.rounded import RandomSource, discrete_gaussian, rounded_gaussian
from understudy.pipelines.privacy.relation import Budget, Relation, Unit, counts_sensitivity


@dataclass(frozen=True)
class MarginalNoise:
    """How a workload is noised: the std of each clique, and the one event that pays for all of them."""

    stds: tuple[float, ...]
    event: Event
    sampler: str


def calibrate_marginals(
    shares: Sequence[float], budget: Budget, relation: Relation, unit: Unit, sampler: str
) -> MarginalNoise:
    """The least noise that keeps queries with these shares of the budget together within it."""
    exact_sampler = sampler == "rounded"

    def event_at(z: float) -> Event:
        return Gaussian(z) if exact_sampler else ZeroConcentrated(1 / (2 * z * z))

    z = calibrate(event_at, budget, relation)
    stds = noise_stds(shares, z, counts_sensitivity(relation, unit.max_rows))
    return MarginalNoise(stds, event_at(_multiplier(stds, relation, unit)), sampler)


def release_counts(
    counts: Sequence[np.ndarray],
    noise: MarginalNoise,
    relation: Relation,
    unit: Unit,
    randomness: RandomSource,
) -> tuple[list[np.ndarray], Event]:
    """Noisy int64 counts, and the event of what was drawn, recomputed from the stds that were used."""
    draw = rounded_gaussian if noise.sampler == "rounded" else discrete_gaussian
    noisy = [
        exact.astype(np.int64) + draw(exact.shape, std, randomness)
        for exact, std in zip(counts, noise.stds, strict=True)
    ]
    z = _multiplier(noise.stds, relation, unit)
    return noisy, Gaussian(z) if noise.sampler == "rounded" else ZeroConcentrated(1 / (2 * z * z))


def _multiplier(stds: Sequence[float], relation: Relation, unit: Unit) -> float:
    sensitivity = counts_sensitivity(relation, unit.max_rows)
    return 1 / math.sqrt(math.fsum((sensitivity / std) ** 2 for std in stds))
