"""Which bin a number falls in, a few nanoseconds each and exact to the last bit.

The range is cut into equal cells; `cell(v)` is a composition of rounded operations that never decrease, so
`v <= w` implies `cell(v) <= cell(w)` whatever the rounding. Hence an edge in an earlier cell than the value
is not above it, an edge in a later cell is above it, and only the edges of the value's own cell, mostly
none, are compared with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

CELLS = 4096


@dataclass(frozen=True)
class Bins:
    """Bins between sorted edges, with for each cell how many inner edges lie before it and up to its end."""

    inner: np.ndarray
    low: float | int
    high: float | int
    cells_per_unit: float
    before: np.ndarray
    until: np.ndarray


@lru_cache(maxsize=4096)
def bins_of(edges: tuple[float, ...] | tuple[int, ...], whole: bool) -> Bins:
    """Prepare to bucket int64 values if `whole`, else doubles."""
    inner = np.array(edges[1:-1], np.int64 if whole else np.float64)
    low, high = (int(edges[0]), int(edges[-1])) if whole else (float(edges[0]), float(edges[-1]))
    half_span = high * 0.5 - low * 0.5
    cells_per_unit = CELLS / half_span if half_span > 1e-290 else 0.0
    cell_of_edge = np.empty(len(inner), np.int64)
    _cells(inner, low, high, cells_per_unit, cell_of_edge)
    before = np.searchsorted(cell_of_edge, np.arange(CELLS + 1), side="left").astype(np.int32)
    until = np.searchsorted(cell_of_edge, np.arange(CELLS + 1), side="right").astype(np.int32)
    return Bins(inner, low, high, cells_per_unit, before, until)


def bucket(values: np.ndarray, bins: Bins, fallback: int, codes: np.ndarray) -> None:
    """Write the bin of each int64 or double; outside the edges the nearest, NaN and infinities `fallback`."""
    _bucket(values, bins.inner, bins.low, bins.high, bins.cells_per_unit, bins.before, bins.until, fallback, codes)


def look_up(values: np.ndarray, low: int, table: np.ndarray, codes: np.ndarray) -> None:
    """Write the entry of each whole number in a table that starts with `low`; outside it the nearest entry."""
    whole = values.dtype.type
    _look_up(values, whole(low), whole(low + len(table) - 1), table, codes)


@njit(cache=True, nogil=True)
def _look_up(values: np.ndarray, low: int, high: int, table: np.ndarray, codes: np.ndarray) -> None:
    for row in range(len(values)):
        codes[row] = table[min(max(values[row], low), high) - low]


@njit(cache=True, nogil=True)
def _cell(value: float, low: float, cells_per_unit: float) -> int:
    """Between 0 and CELLS for values within the edges, never decreasing. Halves, so no span overflows."""
    return int((value * 0.5 - low * 0.5) * cells_per_unit)


@njit(cache=True, nogil=True)
def _cells(values: np.ndarray, low: float, high: float, cells_per_unit: float, cells: np.ndarray) -> None:
    for i in range(len(values)):
        cells[i] = _cell(min(max(values[i], low), high), low, cells_per_unit)


@njit(cache=True, nogil=True)
def _bucket(
    values: np.ndarray,
    inner: np.ndarray,
    low: float,
    high: float,
    cells_per_unit: float,
    before: np.ndarray,
    until: np.ndarray,
    fallback: int,
    codes: np.ndarray,
) -> None:
    for row in range(len(values)):
        value = values[row]
        if not np.isfinite(value):
            codes[row] = fallback
            continue
        cell = _cell(min(max(value, low), high), low, cells_per_unit)
        first, last = before[cell], until[cell]
        while first < last:
            middle = (first + last) >> 1
            if inner[middle] <= value:
                first = middle + 1
            else:
                last = middle
        codes[row] = first
