"""Whose row it is, across tables: keys as hashes, sorted, and found again fast.

A key is read as ids are (sources/ids.py), across types: 7 in a database and "7" in a CSV file are one key. What is
found depends on the keys alone, never on the order in which they came.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from understudy.pipelines.sources.hashing import Hashes

NOBODY = -1


@dataclass(frozen=True, eq=False)
class KeyIndex:
    """Keys, each once, in order of their hashes, and the row that each stands for, or NOBODY."""

    keys: Hashes
    rows: np.ndarray
    starts: np.ndarray
    """Where the keys begin whose hash starts with each number of as many bits as it takes."""

    @classmethod
    def of(cls, keys: Hashes, rows: np.ndarray) -> KeyIndex:
        """Of keys that are sorted and differ."""
        bits = max(1, min(28, len(keys).bit_length() - 1))
        edges = np.arange((1 << bits) + 1, dtype=np.uint64)
        tops = keys.high >> np.uint64(64 - bits)
        return cls(keys, rows, np.searchsorted(tops, edges).astype(np.int32 if len(keys) < 2**31 else np.int64))

    def find(self, known: np.ndarray, wanted: Hashes) -> np.ndarray:
        """The row of each wanted key; NOBODY where there is none, or where the value is no key."""
        found = np.full(len(wanted), NOBODY, self.rows.dtype)
        shift = np.uint64(64 - (len(self.starts) - 2).bit_length())
        _find(self.keys.high, self.keys.low, self.rows, self.starts, shift, known, wanted.high, wanted.low, found)
        return found

    def keys_of(self, rows: np.ndarray, count: int) -> Hashes:
        """The keys that lead to some rows, of `count` that there are."""
        places = np.zeros(count, np.int64)
        there = self.rows != NOBODY
        places[self.rows[there]] = np.flatnonzero(there)
        return self.keys[places[rows]]


def sorted_by_hash(hashes: Hashes) -> np.ndarray:
    """The order of hashes, by all of their bits. Equal ones stay as they were."""
    order = np.argsort(hashes.high, kind="stable")
    high = hashes.high[order]
    again = np.zeros(len(order), np.bool_)
    alike = high[1:] == high[:-1]
    again[1:] |= alike
    again[:-1] |= alike
    places = np.flatnonzero(again)
    if len(places):
        rows = order[places]
        order[places] = rows[np.lexsort((hashes.low[rows], hashes.high[rows]))]
    return order


def is_repeated(hashes: Hashes, order: np.ndarray) -> np.ndarray:
    """For each place of the order: whether its hash is that of the place before."""
    repeated = np.zeros(len(order), np.bool_)
    high, low = hashes.high[order], hashes.low[order]
    repeated[1:] = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return repeated


@njit(cache=True, nogil=True)
def _find(
    high: np.ndarray,
    low: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    shift: np.uint64,
    known: np.ndarray,
    wanted_high: np.ndarray,
    wanted_low: np.ndarray,
    found: np.ndarray,
) -> None:
    for i in range(len(found)):
        if not known[i]:
            continue
        start = np.int64(wanted_high[i] >> shift)
        for place in range(starts[start], starts[start + 1]):
            if high[place] == wanted_high[i] and low[place] == wanted_low[i]:
                found[i] = rows[place]
                break
