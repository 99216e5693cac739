"""How values were understood, as codes: one of six cells a row, by that row's value alone.

Theorem, relation, sensitivity, noise unit, reference. That a row touches one cell of each column is what the
sensitivity of docs/proofs/quality.md rests on.
"""

from __future__ import annotations

import numpy as np

from understudy.pipelines.table.domain import CELLS, QualityColumn
from understudy.pipelines.table.reading.values import NULL, UNDERSTOOD, UNLISTED, UNREADABLE, Reading

_OF_KIND = {UNDERSTOOD: "fine", NULL: "null", UNREADABLE: "unreadable", UNLISTED: "other"}
_CELL = np.array([CELLS.index(_OF_KIND[kind]) for kind in sorted(_OF_KIND)], np.uint8)
_BELOW, _ABOVE = CELLS.index("below"), CELLS.index("above")


def cells_of(reading: Reading, column: QualityColumn) -> np.ndarray:
    """Cells of CELLS as uint8. Out of range is what lies outside the edges, which hold the range and every spike."""
    kinds = reading.kinds(column)
    cells = _CELL.take(kinds)
    if column.kind in ("category", "boolean"):
        return cells
    low, high = column.edges[0], column.edges[-1]
    with np.errstate(invalid="ignore"):
        above = reading.numbers > high if column.kind in ("number", "datetime") else reading.numbers >= high
        below = reading.numbers < low
    understood = kinds == UNDERSTOOD
    cells[below & understood] = _BELOW
    cells[above & understood] = _ABOVE
    return cells
