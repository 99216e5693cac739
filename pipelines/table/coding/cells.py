"""How values were understood, as codes: one of six cells a row, by that row's value alone.

Theorem, relation, sensitivity, noise unit, reference. That a row touches one cell of each column is what the
sensitivity of docs/proofs/quality.md rests on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from understudy.pipelines.table.binning import hair_around
from understudy.pipelines.table.columns import CELLS, QualityColumn
from understudy.pipelines.table.reading.values import Reading

_FINE, _NULL, _UNREADABLE, _BELOW, _ABOVE, _OTHER = range(len(CELLS))


def cells_of(reading: Reading, column: QualityColumn) -> np.ndarray:
    """Cells of CELLS as uint8. Out of range is what lies outside the declared range and is no spike."""
    cells = np.empty(len(reading.numbers), np.uint8)
    if column.kind in ("category", "boolean"):
        none = _OTHER if column.kind == "category" else _UNREADABLE
        np.multiply(reading.numbers == column.value_codes, none, out=cells, casting="unsafe")
    else:
        low, high = column.declared_span
        _sides(reading.numbers, low, high, column.kind in ("integer", "date"), cells)
        for _, spike in column.spikes:
            if not low <= spike <= high or spike == high:
                cells[_is_spike(reading.numbers, spike, column)] = _FINE
    if reading.unreadable is not None:
        cells[reading.unreadable] = _UNREADABLE
    if reading.null is not None:
        cells[reading.null] = _NULL
    return cells


def _is_spike(numbers: np.ndarray, spike: float | int, column: QualityColumn) -> np.ndarray:
    if column.kind != "number":
        return np.asarray(numbers == spike)
    low, high = column.declared_span
    hair = hair_around(spike, low, high, None if column.step is None else float(column.step))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(numbers.astype(np.float64, copy=False) - spike) <= hair)


@njit(cache=True, nogil=True)
def _sides(numbers: np.ndarray, low: float, high: float, high_is_out: bool, cells: np.ndarray) -> None:
    for row in range(len(numbers)):
        number = numbers[row]
        if number < low:
            cells[row] = _BELOW
        elif number > high or (high_is_out and number == high):
            cells[row] = _ABOVE
        else:
            cells[row] = _FINE if number == number else _NULL  # NaN is no number
        if np.isinf(number):
            cells[row] = _UNREADABLE
