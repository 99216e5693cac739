"""Snappy, the usual compression of Parquet, undone where the bytes are wanted: no call and no copy for each page.

Every read stays inside the input and every write inside its place; whatever does not fit is reported.

Reference: google/snappy, `format_description.txt`.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def unsnap(packed: np.ndarray, at: int, end: int, out: np.ndarray, start: int, stop: int) -> bool:
    """Write what packed[at:end] stands for to out[start:stop], which it has to fill; whether it did."""
    size, shift = 0, 0
    while True:
        if at >= end or shift > 28:
            return False
        byte = int(packed[at])
        at += 1
        size |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    if size != stop - start:
        return False
    done = start
    while at < end:
        tag = int(packed[at])
        at += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length > 60:
                more = length - 60
                if more > end - at:
                    return False
                length = 1 + _little(packed, at, more)
                at += more
            if length > end - at or length > stop - done:
                return False
            copy(packed[at : at + length], out[done : done + length])
            at += length
        else:
            more = 4 if kind == 3 else kind
            if more > end - at:
                return False
            length, offset = (tag >> 2) + 1, _little(packed, at, more)
            if kind == 1:
                length, offset = 4 + ((tag >> 2) & 7), offset | (tag >> 5) << 8
            at += more
            if not 0 < offset <= done - start or length > stop - done:
                return False
            for i in range(done, done + length):  # may repeat what it writes itself
                out[i] = out[i - offset]
        done += length
    return done == stop


@njit(cache=True, nogil=True)
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """A loop that is compiled to wide moves; assigning a slice is not."""
    for i in range(len(target)):
        target[i] = source[i]


@njit(cache=True, nogil=True)
def _little(packed: np.ndarray, at: int, count: int) -> int:
    number = 0
    for i in range(count):
        number |= int(packed[at + i]) << (8 * i)
    return number
