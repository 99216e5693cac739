"""Coefficients of a regression from noisy sums, and the intervals of each.

Scores S(beta) = right - inner beta are sums over rows as they were measured: at the coefficients of the table they are
nothing but noise, whose covariance is known for every beta. So an interval of a coefficient holds every value at which,
with the other coefficients at their best, S' Cov(S)^-1 S stays below z^2: for one coefficient Fieller's interval
(1954), for several that of Anderson & Rubin (1949), profiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.answers import told as written
from understudy.pipelines.inference.display import shown
from understudy.pipelines.inference.intervals import Interval, of_sum

FloatArray = npt.NDArray[np.float64]
MOST_PROFILED = 40
"""With more coefficients, intervals are of the first order too."""

ROUNDS = 3
FARTHEST = 60.0
"""Times the first-order interval: beyond it, an end is open."""


@dataclass(frozen=True)
class Coefficient:
    """`noise_std` is what noise alone does to it, `std` what noise and sampling do together."""

    name: str
    estimate: float
    noise_std: float
    std: float
    interval: Interval
    population: Interval

    def to_json(self) -> dict[str, Any]:
        ends = (self.interval.low, self.interval.high, self.population.low, self.population.high)
        named = zip(("low", "high", "population_low", "population_high"), ends, strict=True)
        return {
            "coefficient": self.name,
            "estimate": self.estimate,
            **{name: end if math.isfinite(end) else None for name, end in named},
            "noise_std": self.noise_std,
            "std": self.std,
            "sentence": str(self),
        }

    def __str__(self) -> str:
        span, wide = self.interval, self.population
        return (
            f"{self.name}: {written(self.estimate)} ({written(span.low)} to {written(span.high)} for this table, "
            f"{written(wide.low)} to {written(wide.high)} for the population)"
        )


@dataclass(frozen=True)
class Regression:
    formula: str
    coefficients: tuple[Coefficient, ...]
    rows: float
    residual_std: float | None = None
    level: float = LEVEL
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Coefficient]:
        return iter(self.coefficients)

    def __getitem__(self, name: str) -> Coefficient:
        for coefficient in self.coefficients:
            if coefficient.name == name:
                return coefficient
        raise KeyError(name)

    def _repr_html_(self) -> str:
        level = f"{self.level:.0%}"
        heads = ("coefficient", "estimate", f"{level} for this table", f"{level} for the population")
        rows = (
            (
                each.name,
                written(each.estimate),
                *(f"{written(span.low)} to {written(span.high)}" for span in (each.interval, each.population)),
            )
            for each in self.coefficients
        )
        return shown(self.formula, heads, rows, self.notes)

    def to_json(self) -> dict[str, Any]:
        """As `ask` answers questions: each coefficient is a group."""
        return {
            "question": self.formula,
            "from": "measurements",
            "level": self.level,
            "answers": [each.to_json() for each in self.coefficients],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        notes = (f"note: {note}" for note in self.notes)
        return "\n".join([self.formula, *(f"  {coefficient}" for coefficient in self.coefficients), *notes])


@dataclass(frozen=True, eq=False)
class ProfiledScores:
    inner: FloatArray
    right: FloatArray
    noise: Callable[[FloatArray], FloatArray]

    def interval(self, place: int, beta: FloatArray, covariance: FloatArray, z: float) -> Interval:
        """All values of one coefficient at which, the others being what fits best, noise explains the scores."""
        std = math.sqrt(max(0.0, float(covariance[place, place])))
        if std <= 1e-9 * max(1.0, abs(float(beta[place]))) or len(beta) > MOST_PROFILED:
            return of_sum(float(beta[place]), std**2, z)
        along = covariance[:, place] / covariance[place, place]
        ends = [self._end(place, beta, along, z, sign * std) for sign in (-1.0, 1.0)]
        return Interval(*ends)

    def _end(self, place: int, beta: FloatArray, along: FloatArray, z: float, step: float) -> float:
        def beyond(times: float) -> bool:
            start = beta + times * step * along
            return self._unexplained(place, start) > z**2

        inside, outside = 0.0, z
        while not beyond(outside):
            inside, outside = outside, 1.5 * outside
            if outside > FARTHEST * z:
                return math.copysign(math.inf, step)
        while outside - inside > 0.01 * outside:
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if beyond(middle) else (middle, outside)
        return float(beta[place] + (inside + outside) / 2 * step)

    def _unexplained(self, place: int, beta: FloatArray) -> float:
        """The least S' (noise of S)^-1 S with this coefficient fixed; the noise is that at the coefficients found."""
        others = [other for other in range(len(beta)) if other != place]
        for _ in range(ROUNDS):
            root = np.linalg.cholesky(self.noise(beta) + 1e-12 * np.diag(np.diag(self.inner)))
            white = np.linalg.solve(root, np.column_stack([self.inner, self.right]))
            left = white[:, -1] - white[:, place] * beta[place]
            fitted = np.linalg.lstsq(white[:, others], left, rcond=None)[0]
            beta = beta.copy()
            beta[others] = fitted
        rest = np.linalg.solve(root, self.right - self.inner @ beta)
        return float(rest @ rest)


def scaled(matrix: FloatArray) -> FloatArray:
    """With ones on the diagonal, so that units do not matter."""
    root = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    return np.asarray(matrix / np.outer(root, root))
