"""The inner loop of counting: one joint table over one batch of codes.

Cell numbers of a block of rows are computed first, in a loop the compiler vectorises; then the counters are
bumped. Consecutive rows use two separate tables, since bumping one counter twice in a row makes the
processor wait.
"""

from __future__ import annotations

import numpy as np
from numba import njit

BLOCK_ROWS = 2048
MOST_BATCH_ROWS = 1 << 24


@njit(cache=True, nogil=True)
def add_joint(codes: np.ndarray, columns: np.ndarray, strides: np.ndarray, counts: np.ndarray) -> None:
    """Add each row of `codes` (columns, rows) to its cell sum(code * stride).

    `counts` has shape (2, cells), uint32; the caller empties it before 2**32 rows could meet in one cell.
    """
    rows = codes.shape[1]
    cell = np.empty(BLOCK_ROWS, np.uint32)
    even, odd = counts[0], counts[1]
    for start in range(0, rows, BLOCK_ROWS):
        length = min(BLOCK_ROWS, rows - start)
        first, stride = codes[columns[0]], np.uint32(strides[0])
        for i in range(length):
            cell[i] = np.uint32(first[start + i]) * stride
        for k in range(1, len(columns)):
            more, stride = codes[columns[k]], np.uint32(strides[k])
            for i in range(length):
                cell[i] += np.uint32(more[start + i]) * stride
        for i in range(0, length - 1, 2):
            even[cell[i]] += np.uint32(1)
            odd[cell[i + 1]] += np.uint32(1)
        if length & 1:
            even[cell[length - 1]] += np.uint32(1)
