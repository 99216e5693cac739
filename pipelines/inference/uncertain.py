"""One quantity with what is uncertain about it, its answer, and the answer to a comparison of two of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.inference.answers import Answer, Uncut
from understudy.pipelines.inference.intervals import (
    EVERYTHING,
    Interval,
    of_difference,
    of_quotient,
    of_ratio,
    of_sum,
    ratio_variance,
)

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Uncertain:
    """One quantity with its two intervals, before it is compared with another."""

    value: float
    noise: FloatArray
    sampling: FloatArray
    sums: FloatArray
    possible: tuple[float, float]
    within_bins: float

    @property
    def is_ratio(self) -> bool:
        return len(self.sums) == 2

    @property
    def is_told(self) -> bool:
        return math.isfinite(self.value)

    def interval(self, z: float, population: bool) -> Interval:
        matrix = self.noise + self.sampling if population else self.noise
        if self.is_ratio:
            return of_ratio(float(self.sums[0]), float(self.sums[1]), matrix, z, self.possible)
        return of_sum(float(self.sums[0]), float(matrix[0, 0]), z).within(*self.possible)

    def uncut(self, matrix: FloatArray, z: float) -> Interval:
        """Also where it is not possible: what noise does to it is what a comparison must know."""
        if not self.is_ratio:
            return of_sum(self.value, float(matrix[0, 0]), z)
        return of_ratio(float(self.sums[0]), float(self.sums[1]), matrix, z)

    def variance(self, matrix: FloatArray) -> float:
        if self.is_ratio:
            return ratio_variance(float(self.sums[0]), float(self.sums[1]), matrix)
        return max(0.0, float(matrix[0, 0]))

    def slope(self) -> FloatArray:
        """How the quantity moves with its sums."""
        return np.array([1.0, -self.value]) / self.sums[1] if self.is_ratio else np.ones(1)


def answer_of(group: dict[str, Any], one: Uncertain, z: float) -> Answer:
    own, wide = one.interval(z, population=False), one.interval(z, population=True)
    value = own.nearest(one.value) if one.is_told else None
    noise, all_of_it = (one.variance(matrix) if one.is_told else math.nan
                        for matrix in (one.noise, one.noise + one.sampling))  # fmt: skip
    share = noise / all_of_it if all_of_it > 0 else None
    spans = (one.uncut(matrix, z) for matrix in (one.noise, one.noise + one.sampling))
    uncut = Uncut(one.value, *spans) if one.is_told else None
    return Answer(group, value, own, wide, share, one.within_bins, uncut=uncut)


def compared_answer(
    group: dict[str, Any], one: Uncertain, base: Uncertain, between: FloatArray, kind: str, z: float
) -> Answer:
    if not (one.is_told and base.is_told):
        return Answer(group, None, Interval(*EVERYTHING), Interval(*EVERYTHING))
    bound = one.within_bins + base.within_bins if kind == "difference" else 0.0
    found = []
    for population in (False, True):
        first, second = (each.noise + each.sampling * population for each in (one, base))
        if not one.is_ratio and kind == "difference":
            variance = float(first[0, 0] + second[0, 0] - 2 * between[0, 0])
            found.append((of_sum(one.value - base.value, variance, z), variance))
            continue
        if not one.is_ratio:
            matrix = np.array([[first[0, 0], between[0, 0]], [between[0, 0], second[0, 0]]])
            possible = possible_of(one.possible, kind)
            variance = ratio_variance(one.value, base.value, matrix) if base.value else math.inf
            found.append((of_ratio(one.value, base.value, matrix, z, possible), variance))
            continue
        variances = [one.variance(first), base.variance(second)]
        together = float(one.slope() @ between @ base.slope())
        both = math.sqrt(variances[0] * variances[1])
        correlation = min(max(together / both, -1.0), 1.0) if both > 0 else 0.0
        combine = of_difference if kind == "difference" else of_quotient
        spans = one.uncut(first, z), base.uncut(second, z)
        scale = 1.0 if kind == "difference" else base.value or math.inf
        variance = (variances[0] + variances[1] - 2 * together) / scale**2
        put_together = combine(one.value, spans[0], base.value, spans[1], correlation)
        found.append((put_together.within(*possible_of(one.possible, kind)), variance))
    (own, noise), (wide, all_of_it) = found
    value: float | None = one.value - base.value if kind == "difference" else None
    if kind == "ratio" and base.value:
        value = one.value / base.value
    share = noise / all_of_it if all_of_it > 0 and math.isfinite(all_of_it) else None
    return Answer(group, None if value is None else own.nearest(value), own, wide, share, bound)


def possible_of(possible: tuple[float, float], kind: str) -> tuple[float, float]:
    """Of the difference or the ratio of two quantities that can have these values."""
    low, high = possible
    if kind == "difference":
        return low - high, high - low
    return (0.0, math.inf) if low >= 0 else EVERYTHING


def positive(matrix: FloatArray) -> FloatArray:
    """The nearest matrix that is a covariance: noise may make an estimate of one none."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
