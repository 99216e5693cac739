"""How values were understood, as codes: one of six cells a row, by that row's value alone.

Theorem, relation, sensitivity, noise unit, reference. That a row touches one cell of each column is what the
sensitivity of docs/proofs/quality.md rests on.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from understudy.pipelines.table.columns import CELLS, QualityColumn
from understudy.pipelines.table.reading.values import Reading

_FINE, _NULL, _UNREADABLE, _BELOW, _ABOVE, _OTHER = range(len(CELLS))


def cells_of(reading: Reading, column: QualityColumn) -> np.ndarray:
    """Cells of CELLS as uint8. Out of range is what lies outside the edges, which hold the range and every spike."""
    cells = np.empty(len(reading.numbers), np.uint8)
    if column.kind in ("category", "boolean"):
        none = _OTHER if column.kind == "category" else _UNREADABLE
        np.multiply(reading.numbers == column.value_codes, none, out=cells, casting="unsafe")
    else:
        low, high = column.edges[0], column.edges[-1]
        _sides(reading.numbers, low, high, column.kind in ("integer", "date"), cells)
    if reading.unreadable is not None:
        cells[reading.unreadable] = _UNREADABLE
    if reading.null is not None:
        cells[reading.null] = _NULL
    return cells


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
