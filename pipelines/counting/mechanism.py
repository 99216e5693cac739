"""Noisy marginals.

Theorem. For integer counts c_S of the cliques S, release c_S + Z_S, Z_S = round(N(0, std_S^2)) independent per cell.
  This is post-processing of the Gaussian mechanism on the stacked vector (c_S / std_S), hence Gaussian(z) with
  z = 1 / sqrt(sum_S (Δ / std_S)^2), exactly, for any number of cliques. The event claims z rounded down, computed
  from the stds that are drawn with.
Relation, sensitivity. A unit of k rows moves each c_S by at most Δ = k (ADD_REMOVE) or sqrt(2) k (REPLACE_ONE) in L2:
  `counts_sensitivity`.
Noise unit. `std` is a standard deviation in rows, per cell.
Proof. docs/proofs/counts.md.
Reference. Dwork & Roth 2014, Appendix A; Balle & Wang 2018, Theorem 8 (calibration); rounding is post-processing.

With `noise: opendp` the discrete Gaussian of OpenDP is drawn instead and charged as zCDP, rho = 1/(2 z^2) (Canonne,
Kamath & Steinke 2020, Theorem 4; for many coordinates only this bound is proven).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.pipelines.privacy.accounting import calibrate
from understudy.pipelines.privacy.events import Event, Gaussian, ZeroConcentrated
from understudy.pipelines.privacy.noise.rounded import RandomSource, discrete_gaussian, rounded_gaussian
from understudy.pipelines.privacy.relation import Budget, Relation, Unit, counts_sensitivity
from understudy.pipelines.privacy.rounding import CLAIMED_BITS, planned, root_down, root_up, sum_of_squares, up


@dataclass(frozen=True)
class MarginalNoise:
    """How tables of counts are noised: the std of each table's cells, in order, and whose unit they protect.

    `stacked` marginals lie side by side in each table, as where an array holds the counts of several columns.
    """

    stds: tuple[float, ...]
    relation: Relation
    unit: Unit
    sampler: str = "rounded"
    stacked: int = 1

    @property
    def event(self) -> Event:
        sensitivity = counts_sensitivity(self.relation, self.unit.max_rows)
        square = self.stacked * sum_of_squares((sensitivity, std) for std in self.stds)
        return event_at(root_down(1 / square, CLAIMED_BITS), self.sampler)

    def draw(self, exact: Mapping[str, np.ndarray], randomness: RandomSource) -> dict[str, np.ndarray]:
        """Noisy int64 counts of each table, in the order of the stds."""
        sample = rounded_gaussian if self.sampler == "rounded" else discrete_gaussian
        return {
            name: counts.astype(np.int64) + sample(counts.shape, std, randomness)
            for (name, counts), std in zip(exact.items(), self.stds, strict=True)
        }


def noise_multiplier(budget: Budget, relation: Relation, sampler: str) -> float:
    """The least z at which one release of all that is bought stays within the budget, on the grid of claims."""
    return planned(calibrate(lambda z: event_at(z, sampler), budget, relation))


def one_table_noise(noise_multiplier: float, relation: Relation, unit: Unit, stacked: int = 1) -> MarginalNoise:
    """The noise of a single table of counts, at a planned multiplier."""
    moved = Fraction(noise_multiplier) * Fraction(counts_sensitivity(relation, unit.max_rows))
    return MarginalNoise((root_up(moved**2 * stacked),), relation, unit, stacked=stacked)


def event_at(noise_multiplier: float, sampler: str) -> Event:
    """What noise of this multiplier costs, by the sampler that draws it."""
    if sampler == "rounded":
        return Gaussian(noise_multiplier)
    return ZeroConcentrated(up(1 / (2 * Fraction(noise_multiplier) ** 2)))
