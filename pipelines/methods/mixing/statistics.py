"""Class statistics bought before mixing: sizes, means and, if asked, spreads. One Gaussian release on the
integer grid.

Theorem. For each class the vector (sum of v, sum of floor(v^2 / C), W * count) over its records, v on the
  grid with L2 norm at most C. One record changes one class's part only, by a vector of squared norm at most
  C^2 + C^2 + W^2: ||v||^2 <= C^2, and floor(v_j^2 / C) <= |v_j| since |v_j| <= C. Rounded Gaussian noise of
  std sigma on every number is one Gaussian event with multiplier sigma / Delta.
Relation. ADD_REMOVE of one record.
Sensitivity. Delta = sqrt(C^2 [sums] + C^2 [squares] + W^2) of the parts released, in L2, over all classes
  at once.
Noise unit. `sigma` is a standard deviation in grid units; counts are divided by W afterwards.
Proof. docs/proofs/class-statistics.md.
Reference. Balle & Wang 2018, Theorem 8, for the Gaussian's cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from understudy.pipelines.privacy.events import Event, Gaussian
from understudy.pipelines.privacy.noise.rounded import RandomSource, rounded_gaussian
from understudy.pipelines.privacy.rounding import claimed, root_up, scaled

NORM_BOUND = 2**15
COUNT_WEIGHT = NORM_BOUND // 3
"""W: a count gets a tenth of the squared sensitivity, and an error of about three times the noise multiplier."""


@dataclass(frozen=True)
class StatisticsDesign:
    """`clip` is the norm bound in feature units; the grid step is clip / NORM_BOUND."""

    clip: float
    sums: bool
    squares: bool
    noise_multiplier: float

    @property
    def unit(self) -> float:
        return self.clip / NORM_BOUND

    @property
    def sensitivity(self) -> float:
        return root_up((self.sums + self.squares) * NORM_BOUND**2 + COUNT_WEIGHT**2)

    @property
    def sigma(self) -> float:
        """What is drawn with."""
        return scaled(self.noise_multiplier, self.sensitivity)

    @property
    def event(self) -> Event:
        return Gaussian(claimed(self.sigma, self.sensitivity))

    def draw(self, exact: np.ndarray, randomness: RandomSource) -> dict[str, np.ndarray]:
        return {"statistics": exact + rounded_gaussian(exact.shape, self.sigma, randomness)}


@dataclass(frozen=True)
class ClassStatistics:
    """Released numbers in feature units: sizes (at least 1), means, and per-feature second moments where bought."""

    sizes: np.ndarray
    means: np.ndarray
    second_moments: np.ndarray | None


def exact_statistics(records: np.ndarray, labels: np.ndarray, classes: int, design: StatisticsDesign) -> np.ndarray:
    """The integer vectors, one a class, before noise; `records` are clipped to NORM_BOUND."""
    totals = np.zeros((classes, records.shape[1] * (design.sums + design.squares) + 1), dtype=np.int64)
    _total_kernel(records, labels, totals, design.sums, design.squares)
    return totals


def read_statistics(noisy: np.ndarray, width: int, design: StatisticsDesign) -> ClassStatistics:
    """Post-processing: means of a class whose noisy size is tiny shrink to 0, the public centre."""
    noise_of_count = design.sigma / COUNT_WEIGHT
    sizes = np.maximum(noisy[:, -1] / COUNT_WEIGHT, 1.0)
    weight = 1.0 / np.maximum(sizes, 4 * noise_of_count)[:, None]
    means = noisy[:, :width] * design.unit * weight if design.sums else np.zeros((len(noisy), width))
    if not design.squares:
        return ClassStatistics(sizes, means, None)
    moments = noisy[:, -1 - width : -1] * design.unit**2 * NORM_BOUND * weight
    return ClassStatistics(sizes, means, np.maximum(moments, 0.0))


@numba.njit(nogil=True, cache=True)
def _total_kernel(records: np.ndarray, labels: np.ndarray, totals: np.ndarray, sums: bool, squares: bool) -> None:
    width = records.shape[1]
    first_square = width if sums else 0
    for i in range(records.shape[0]):
        k = labels[i]
        for j in range(width):
            value = np.int64(records[i, j])
            if sums:
                totals[k, j] += value
            if squares:
                totals[k, first_square + j] += value * value // NORM_BOUND
        totals[k, totals.shape[1] - 1] += COUNT_WEIGHT
