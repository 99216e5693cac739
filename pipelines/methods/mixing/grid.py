"""Vectors on a public integer grid, with an L2 norm bound that holds exactly.

Theorem. After `clip_rows(v, C)` every row satisfies sum v_j^2 <= C^2 in integer arithmetic, so one row
  changes a sum of rows by at most C in L2 under ADD_REMOVE.
Relation. Any; a row's integers depend on that row alone.
Sensitivity. C, in L2.
Noise unit. None is added here; `mechanism` and `statistics` do.
Why integers. A norm computed in floating point may come out a little low, and float noise added to float
  sums leaks through its low bits.
Proof. docs/proofs/mixtures.md, step 1.
Reference. Mironov 2012.
Totality. NaN and infinities become 0, the public centre, before anything else: no row can make this fail.
"""

from __future__ import annotations

import numba
import numpy as np

MAX_NORM = 2**20
"""Largest norm bound: 2^31 rows of it still sum far inside int64."""
_LARGEST = 2.0**26


def on_grid(values: np.ndarray, unit: float) -> np.ndarray:
    """round(value / unit) as int32, saturated at 2^26 so that the squares of 2,000 columns sum inside int64."""
    scaled = np.asarray(values, dtype=np.float64) / unit
    finite = np.where(np.isfinite(scaled), scaled, 0.0)
    steps: np.ndarray = np.rint(np.clip(finite, -_LARGEST, _LARGEST)).astype(np.int32)
    return steps


def placed(
    values: np.ndarray,
    labels: np.ndarray,
    centres: np.ndarray,
    scales: np.ndarray,
    unit: float,
    norm_bound: int,
) -> np.ndarray:
    """Rows (value - centre of its class) / scale on the grid, clipped: `on_grid` and `clip_rows` in one pass.

    The result has the smallest type that holds the norm bound: mixing is bounded by how fast memory can be read.
    """
    _check_bound(norm_bound)
    records = np.empty(values.shape, dtype=np.int16 if norm_bound < 2**15 else np.int32)
    _place_kernel(values, labels, centres, scales, unit, norm_bound, records)
    return records


def clip_rows(rows: np.ndarray, norm_bound: int) -> None:
    """Shorten, in place, every row of the int32 matrix whose L2 norm exceeds `norm_bound`."""
    _check_bound(norm_bound)
    if rows.dtype != np.int32 or rows.ndim != 2:
        raise TypeError("rows must be a matrix of int32")
    _clip_kernel(rows, norm_bound)


def _check_bound(norm_bound: int) -> None:
    if not 1 <= norm_bound <= MAX_NORM:
        raise ValueError(f"a norm bound lies in 1..{MAX_NORM}")


@numba.njit(nogil=True, cache=True)
def _place_kernel(
    values: np.ndarray,
    labels: np.ndarray,
    centres: np.ndarray,
    scales: np.ndarray,
    unit: float,
    norm_bound: int,
    records: np.ndarray,
) -> None:
    row = np.empty((1, values.shape[1]), dtype=np.int32)
    for i in range(values.shape[0]):
        centre = centres[labels[i]]
        for j in range(row.size):
            scaled = np.float64((values[i, j] - centre[j]) / scales[j]) / unit
            if not np.isfinite(scaled):
                scaled = np.float64(0.0)
            row[0, j] = np.int32(np.rint(min(max(scaled, -_LARGEST), _LARGEST)))
        _clip_kernel(row, norm_bound)
        for j in range(row.size):
            records[i, j] = row[0, j]


@numba.njit(nogil=True, cache=True)
def _clip_kernel(rows: np.ndarray, norm_bound: int) -> None:
    limit = np.int64(norm_bound) * np.int64(norm_bound)
    for i in range(rows.shape[0]):
        square = np.int64(0)
        for j in range(rows.shape[1]):
            square += np.int64(rows[i, j]) * np.int64(rows[i, j])
        if square <= limit:
            continue
        factor = norm_bound / np.sqrt(np.float64(square))
        while True:
            square = np.int64(0)
            for j in range(rows.shape[1]):
                shorter = np.int64(rows[i, j] * factor)  # truncation towards zero never lengthens
                square += shorter * shorter
            if square <= limit:
                break
            factor *= 1.0 - 1e-9
        for j in range(rows.shape[1]):
            rows[i, j] = np.int64(rows[i, j] * factor)
