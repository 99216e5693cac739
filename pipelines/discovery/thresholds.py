"""What one unit gives to each value it has, and from where on a noisy sum may be shown.

Theorem. A unit with t different values gives each of them `weight(t)` = floor(G / sqrt(t)), a whole number, hence a
  vector of L2 norm at most G. A value that this unit alone has is shown only if weight(t) + round(N(0, std^2)) reaches
  the threshold. With t values that happens to any of them with probability at most t Q((threshold - weight(t) - 1/2) /
  std), Q the upper tail of the normal; `spill` is the largest of that over 1 <= t <= k.
Relation, sensitivity. G (ADD_REMOVE), sqrt(2) G (REPLACE_ONE) in L2: `counts_sensitivity` with G rows.
Noise unit. `std` and thresholds are in weights: G is one unit that has one value.
Proof. docs/proofs/discovery.md.
Reference. Gopi, Gulhane, Kulkarni, Shen, Shokouhi & Yekhanin 2020 (weighted Gaussian set union); Korolova et al. 2009.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.privacy.rounding import up

GRAIN = 1 << 16
"""G, where a unit may have several values: floor(G / sqrt(t)) loses less than sqrt(t) / 65,536 of it."""

_SLACK = 1 + 1e-9
"""Far above the relative error of `ndtr`, about 1e-15 (a test compares with mpmath)."""


def grain(unit: Unit) -> int:
    """G: what a unit with a single value gives it."""
    return 1 if unit.max_rows == 1 else GRAIN


@lru_cache(maxsize=64)
def weights(unit: Unit) -> np.ndarray:
    """weight(t) for t = 0 to k, as int64; of nothing, nothing. floor(G / sqrt(t)) = isqrt(floor(G^2 / t)), exactly."""
    square = grain(unit) ** 2
    found = np.array([0, *(math.isqrt(square // t) for t in range(1, unit.max_rows + 1))], np.int64)
    found.flags.writeable = False
    return found


def spill(threshold: int, std: float, unit: Unit) -> float:
    """The probability, at most, with which a value that one unit alone has is shown; rounded up."""
    several = np.arange(1, unit.max_rows + 1)
    tails = several * ndtr(-(threshold - weights(unit)[1:] - 0.5) / std)
    return up(min(1.0, float(tails.max()) * _SLACK))


def threshold_for(std: float, delta: float, unit: Unit) -> int:
    """The least threshold at which no more than `delta` is spilt. `spill` falls with it."""
    low, high = 0, grain(unit)
    while spill(high, std, unit) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if spill(middle, std, unit) > delta else (low, middle)
    return high
