"""Numbers of seven bits a byte, lowest first, as Parquet's runs and Snappy's sizes are written."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def read_varint(bytes_: np.ndarray, at: int, end: int) -> tuple[int, int]:
    """The number at `at`, or -1 if none ends before `end` within five bytes, and where it ends."""
    number, shift = 0, 0
    while at < end and shift <= 28:
        byte = int(bytes_[at])
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at
    return -1, at
