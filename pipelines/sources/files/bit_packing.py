"""Parquet's hybrid of runs and bit-packed groups, decoded and looked up at a quarter of a nanosecond a number.

Every read stays inside the page and the SPARE bytes after it, and every number inside the table it is looked up in,
whatever the bytes say; what does not is reported. Numbers of few bits are looked up two at a time.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.lib.stride_tricks import as_strided

from understudy.pipelines.sources.files.varint import read_varint

MOST_BITS = 24
PAIR_BITS = 6
"""Pairs of wider numbers would need a table that does not fit the first-level cache."""

SPARE = 8
_NO_SUCH_NUMBER = np.uint32(1 << 16)


@njit(cache=True, nogil=True)
def unpack(
    bytes_: np.ndarray,
    at: int,
    end: int,
    width: int,
    lookup: np.ndarray,
    pairs: np.ndarray,
    out: np.ndarray,
    start: int,
    count: int,
) -> bool:
    """Write the table's entries of the `count` numbers from byte `at` to out[start:]; whether that went well.

    `pairs` is what `pair_up` made for this width, or empty. SPARE bytes must follow byte `end`.
    """
    # Runs are short, of 512 numbers mostly, and a view costs as much as a hundred of them: these are of all bytes.
    words = as_strided(bytes_[:8].view(np.uint64), (len(bytes_) - 7,), (1,))
    in_pairs = len(pairs) > 0 and len(out) > 1
    twos = as_strided((out[:2] if in_pairs else np.empty(2, out.dtype)).view(np.uint16), (max(len(out) - 1, 1),), (1,))
    mask, step, pair_mask = np.uint64((1 << width) - 1), np.uint64(2 * width), np.uint64((1 << 2 * width) - 1)
    seen, done, stop = np.uint32(0), start, start + count
    while done < stop:
        # Twice the length of a run, or twice the number of groups plus one.
        header, at = read_varint(bytes_, at, end)
        many = header >> 1
        if many <= 0:
            return False
        if header & 1:
            here = min(many * 8, stop - done)  # numbers after the last are padding and may be anything
            if ((here + 7) >> 3) * width > end - at:
                return False
            first = done
            if in_pairs:
                first = done + here // 8 * 8
                place = at
                for eight in range(done, first, 8):
                    word = words[place]
                    for i in range(4):
                        both = pairs[word & pair_mask]
                        twos[eight + 2 * i] = both
                        seen |= both
                        word >>= step
                    place += width
            place = at * 8 + (first - done) * width
            for i in range(first, done + here):
                number = (words[place >> 3] >> np.uint64(place & 7)) & mask
                if number >= len(lookup):
                    return False
                out[i] = lookup[number]
                place += width
            at += many * width
            done += here
        else:
            size = (width + 7) >> 3
            if size > end - at:
                return False
            number = np.uint64(0)
            for i in range(size):
                number |= np.uint64(bytes_[at + i]) << np.uint64(8 * i)
            if number >= len(lookup):
                return False
            at += size
            run = min(many, stop - done)
            entry = lookup[number]
            for i in range(done, done + run):
                out[i] = entry
            done += run
    return bool(seen < _NO_SUCH_NUMBER)


@njit(cache=True, nogil=True)
def pair_up(lookup: np.ndarray, width: int, pairs: np.ndarray) -> None:
    """Write for every two numbers of `width` bits both their entries, of one byte each, or that there are none."""
    for second in range(1 << width):
        for first in range(1 << width):
            known = first < len(lookup) and second < len(lookup)
            both = np.uint32(lookup[first]) | np.uint32(lookup[second]) << np.uint32(8) if known else _NO_SUCH_NUMBER
            pairs[second << width | first] = both
