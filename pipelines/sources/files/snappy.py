"""Snappy, the usual compression of Parquet, undone where the bytes are wanted: no call and no copy for each page.

Every read stays inside the input and every write inside its place; whatever does not fit is reported.

Reference: google/snappy, `format_description.txt`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from understudy.pipelines.sources.files.varint import read_varint


@njit(cache=True, nogil=True)
def unsnap(packed: np.ndarray, at: int, end: int, out: np.ndarray, start: int, stop: int) -> bool:
    """Write what packed[at:end] stands for to out[start:stop], which it has to fill; whether it did."""
    size, at = read_varint(packed, at, end)
    if size != stop - start:
        return False
    done = start
    while at < end:
        tag = int(packed[at])
        at += 1
        kind = tag & 3
        if kind == 0:
            length, at = _read_length(packed, tag, at, end)
            if length < 0 or length > end - at or length > stop - done:
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
def whole_literal(packed: np.ndarray, at: int, end: int, size: int) -> int:
    """Where in packed[at:end] the bytes are, if they are all there as they are, `size` of them; else -1."""
    written, at = read_varint(packed, at, end)
    if written != size or at >= end or packed[at] & 3:
        return -1
    length, at = _read_length(packed, int(packed[at]), at + 1, end)
    return at if length == size and end - at == size else -1


@njit(cache=True, nogil=True)
def _read_length(packed: np.ndarray, tag: int, at: int, end: int) -> tuple[int, int]:
    """The length of the literal with this tag, or -1, and where it starts."""
    length = (tag >> 2) + 1
    if length <= 60:
        return length, at
    more = length - 60
    if more > end - at:
        return -1, at
    return 1 + _little(packed, at, more), at + more


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
