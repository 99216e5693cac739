"""Parquet's hybrid of runs and bit-packed groups, decoded at well under a nanosecond a number.

Every read stays inside the page and every number below `limit`, whatever the bytes say; what does not is reported.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MOST_BITS = 24
ROOM = 7
"""Groups of eight numbers are written whole, so there must be room for so many more than asked for."""


@njit(cache=True, nogil=True)
def unpack(words: np.ndarray, at: int, end: int, width: int, limit: int, out: np.ndarray, count: int) -> bool:
    """Fill the start of `out` with the `count` numbers that begin at byte `at`; whether that went well.

    `words` must go on for two words after byte `end`.
    """
    bytes_ = words.view(np.uint8)
    done = 0
    while done < count:
        header, shift = 0, 0
        while True:
            if at >= end or shift > 28:
                return False
            byte = int(bytes_[at])
            at += 1
            header |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        many = header >> 1
        if many == 0:
            return False
        if header & 1:
            groups = min(many, (count - done + 7) >> 3)
            if groups * width > end - at:
                return False
            _unpack_groups(words, at, groups, width, out[done : done + groups * 8])
            if limit < 1 << width and _most(out[done : min(count, done + groups * 8)]) >= limit:
                return False  # numbers after the last are padding and may be anything
            at += many * width
            done += groups * 8
        else:
            size = (width + 7) >> 3
            if size > end - at:
                return False
            number = 0
            for i in range(size):
                number |= int(bytes_[at + i]) << (8 * i)
            if number >= limit:
                return False
            at += size
            run = min(many, count - done)
            out[done : done + run] = number
            done += run
    return True


@njit(cache=True, nogil=True)
def _unpack_groups(words: np.ndarray, at: int, groups: int, width: int, out: np.ndarray) -> None:
    mask, step = np.uint64((1 << width) - 1), np.uint64(width)
    for group in range(groups):
        place = (at + group * width) * 8
        if width <= 8:  # the whole group lies in one word
            word, eight = _word(words, place), out[group * 8 : group * 8 + 8]
            for i in range(8):
                eight[i] = (word >> (np.uint64(i) * step)) & mask
        else:
            for i in range(8):
                out[group * 8 + i] = _word(words, place + i * width) & mask


@njit(cache=True, nogil=True)
def _word(words: np.ndarray, place: int) -> np.uint64:
    """64 bits from any bit position."""
    first, shift = place >> 6, np.uint64(place & 63)
    return (words[first] >> shift) | ((words[first + 1] << np.uint64(1)) << (np.uint64(63) - shift))


@njit(cache=True, nogil=True)
def _most(numbers: np.ndarray) -> int:
    most = numbers[0]
    for number in numbers:
        most = max(most, number)
    return int(most)
