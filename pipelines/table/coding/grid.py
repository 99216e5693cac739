"""Numbers to fixed-point places between the public bounds of their column: row by row, exact in its bounds.

A null, NaN, infinity or unreadable value of a nullable column is null; of any other it is the column's least value, as
in `encode`. The rest is clipped.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.scales import Scale


def bounds(column: DomainColumn) -> tuple[float, float]:
    """The least and greatest value of a numeric column in its own units; the last edge of wholes is exclusive."""
    low, end = column.declared_span
    return float(low), float(end - 1 if column.kind in ("integer", "date") else end)


def to_grid(numbers: np.ndarray, column: DomainColumn, grid: int, out: np.ndarray, missing: np.ndarray) -> None:
    """Write integers in [-grid, grid] (as doubles) to `out` and 1.0 to `missing` where the value is null.

    The public bounds map to -grid and grid, on a log scale where the column has one. The clip acts on the integers,
    so the bound that the sensitivity rests on holds exactly whatever the floating point did before it.
    """
    low, high = bounds(column)
    absent = 0.0 if column.nullable else float(-grid)
    if high <= low:
        _scale(numbers, 0.0, 0.0, 0.0, absent, out, missing)
    elif column.log_scale:
        half = np.log1p(high - low) / 2
        _scale(stretched(numbers, low), half, grid / half, float(grid), absent, out, missing)
    elif column.scale != "linear":
        scale = Scale(column.scale, low, high)
        first, last = scale.ends
        _scale(scale.forward(numbers), (first + last) / 2, 2 * grid / (last - first), float(grid), absent, out, missing)
    else:
        _scale(numbers, low / 2 + high / 2, grid / (high / 2 - low / 2), float(grid), absent, out, missing)
    if not column.nullable:
        missing[:] = 0.0


@njit(cache=True, nogil=True)
def stretched(numbers: np.ndarray, low: float) -> np.ndarray:
    """log(1 + x - low), 0 below `low`: one number after the other, where NumPy may take several at once and round some
    of them as its vector unit does and the last ones as its library does."""
    found = np.empty(len(numbers))
    for row in range(len(numbers)):
        above = numbers[row] - low
        found[row] = math.log1p(0.0 if above < 0.0 else above)
    return found


@njit(cache=True, nogil=True)
def _scale(
    numbers: np.ndarray,
    middle: float,
    factor: float,
    grid: float,
    absent: float,
    out: np.ndarray,
    missing: np.ndarray,
) -> None:
    """One fused pass, so that a block stays in the cache. NaN fails every comparison and so is not finite."""
    for row in range(len(numbers)):
        value = float(numbers[row])
        finite = abs(value) < np.inf
        position = min(max(np.rint((value - middle) * factor), -grid), grid)
        out[row] = position if finite else absent
        missing[row] = 0.0 if finite else 1.0
