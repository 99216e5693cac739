"""Scales: the coordinate in which the bins of a column have equal width, and in which values lie smoothly in them.

- `linear`: the number itself;
- `log`: log(1 + x - low), which widens with the distance from the lower bound;
- `ratio`: log(x), a true logarithm, for bounds above zero: every bin is wider than the last by the same factor;
- `signed`: asinh(x / unit), a logarithm in both directions from zero and straight near it, within `unit` of it. The
  unit is a thousandth of the bound that is farther from zero.

Forward maps take one number after the other: NumPy may round some of them as its vector unit does and the last ones as
its library does, and what one row becomes must not depend on where it stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

ScaleName = Literal["linear", "log", "ratio", "signed"]
DECADES = 1000.0
_KINDS = {"linear": 0, "log": 1, "ratio": 2, "signed": 3}


@dataclass(frozen=True)
class Scale:
    """A scale on the range from `low` to `high`; values outside it are taken to its ends."""

    name: ScaleName
    low: float
    high: float

    @property
    def unit(self) -> float:
        """Of the signed scale: how far from zero it is straight."""
        return max(abs(self.low), abs(self.high)) / DECADES or 1.0

    @property
    def ends(self) -> tuple[float, float]:
        low, high = self.forward(np.array([self.low, self.high], np.float64))
        return float(low), float(high)

    def forward(self, numbers: np.ndarray) -> np.ndarray:
        """Coordinates; NaN stays NaN."""
        return _forward(numbers, _KINDS[self.name], float(self.low), float(self.high), self.unit)

    def backward(self, coordinates: np.ndarray) -> np.ndarray:
        """Numbers, not clipped to the range: floating point may put an end a little outside it."""
        match self.name:
            case "linear":
                return coordinates
            case "log":
                return np.asarray(self.low + np.expm1(coordinates))
            case "ratio":
                return np.asarray(np.exp(coordinates))
            case "signed":
                return np.asarray(self.unit * np.sinh(coordinates))

    def inner(self, bins: int) -> np.ndarray:
        """The edges between so many bins of equal width on the scale. Zero is one of them where the scale turns."""
        low, high = self.ends
        if self.name == "signed" and low < 0.0 < high and bins > 1:
            below = min(max(1, round(bins * -low / (high - low))), bins - 1)
            coordinates = np.r_[np.linspace(low, 0.0, below + 1)[1:], np.linspace(0.0, high, bins - below + 1)[1:-1]]
        else:
            coordinates = np.linspace(low, high, bins + 1)[1:-1]
        return self.backward(coordinates)


@njit(cache=True, nogil=True)
def _forward(numbers: np.ndarray, kind: int, low: float, high: float, unit: float) -> np.ndarray:
    found = np.empty(len(numbers))
    for row in range(len(numbers)):
        value = float(numbers[row])
        if value < low:
            value = low
        elif value > high:
            value = high
        if kind == 1:
            value = math.log1p(value - low)
        elif kind == 2:
            value = math.log(value)
        elif kind == 3:
            value = math.asinh(value / unit)
        found[row] = value
    return found
