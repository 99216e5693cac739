"""Stein's unbiased risk estimate: how two estimates of one noisy table are best mixed without knowing the truth.

Method: an estimate f(x) of the mean of x, white noise of variance v, has risk |x - f|^2 + 2 v freedom up to a
constant, where freedom is the divergence of f (Stein 1981). For (1 - a) f + a g it is quadratic in a, so the best a
is closed-form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shrunk:
    """An estimated interaction and its degrees of freedom, the divergence in Stein's risk estimate."""

    interaction: FloatArray
    freedom: float


def least_risk(residual: FloatArray, variance: float, one: Shrunk, other: Shrunk) -> Shrunk:
    """The mixture of two estimates of the mean of `residual` whose estimated risk is least."""
    step = other.interaction - one.interaction
    squared = float(np.sum(step * step))
    if squared <= 0.0:
        return one
    more_freedom = other.freedom - one.freedom
    gain = float(np.sum((residual - one.interaction) * step)) - variance * more_freedom
    share = min(max(gain / squared, 0.0), 1.0)
    return Shrunk(one.interaction + share * step, one.freedom + share * more_freedom)
