"""Sorting rows by entity and looking entities up, where both are uniform 64-bit hashes and there are many."""

from __future__ import annotations

import numpy as np
from numba import njit

SMALL = 24


def first_of_each(entity: np.ndarray, row: np.ndarray, position: np.ndarray, count: int) -> np.ndarray:
    """Indices of the first `count` rows of each entity by (row, position), in that order, entities ascending."""
    order = np.argsort(entity)
    _rank_groups(entity, row, position, order)
    kept = np.empty(len(order), np.bool_)
    _mark_first(entity, order, count, kept)
    return order[kept]


def find(sorted_hashes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where each wanted hash is among distinct sorted ones, or -1."""
    places = np.empty(len(wanted), np.int64)
    _find(sorted_hashes, wanted, places)
    return places


@njit(cache=True, nogil=True)
def _rank_groups(entity: np.ndarray, row: np.ndarray, position: np.ndarray, order: np.ndarray) -> None:
    """Sort `order` by (row, position) within each run of one entity."""
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and entity[order[end]] == entity[order[start]]:
            end += 1
        if end - start > SMALL:
            run = order[start:end]
            order[start:end] = run[np.argsort(row[run])]
            tie = start
            while tie < end:
                tie_end = tie + 1
                while tie_end < end and row[order[tie_end]] == row[order[tie]]:
                    tie_end += 1
                if tie_end - tie > 1:
                    equal = order[tie:tie_end]
                    order[tie:tie_end] = equal[np.argsort(position[equal])]
                tie = tie_end
        else:
            for i in range(start + 1, end):
                moving, j = order[i], i
                while j > start and (
                    row[order[j - 1]] > row[moving]
                    or (row[order[j - 1]] == row[moving] and position[order[j - 1]] > position[moving])
                ):
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = moving
        start = end


@njit(cache=True, nogil=True)
def _mark_first(entity: np.ndarray, order: np.ndarray, count: int, kept: np.ndarray) -> None:
    rank = 0
    for i in range(len(order)):
        rank = rank + 1 if i and entity[order[i]] == entity[order[i - 1]] else 0
        kept[i] = rank < count


@njit(cache=True, nogil=True)
def _find(sorted_hashes: np.ndarray, wanted: np.ndarray, places: np.ndarray) -> None:
    """Start where a uniform hash should be and widen: about one cache miss instead of one a halving."""
    size = len(sorted_hashes)
    scale = size / 2.0**64
    for i in range(len(wanted)):
        places[i] = -1
        if size == 0:
            continue
        value = wanted[i]
        guess = min(int(np.float64(value) * scale), size - 1)
        low, high, width = guess, guess + 1, 16
        while low > 0 and sorted_hashes[low] > value:
            low = max(0, low - width)
            width *= 2
        width = 16
        while high < size and sorted_hashes[high - 1] < value:
            high = min(size, high + width)
            width *= 2
        while low < high:
            middle = (low + high) >> 1
            if sorted_hashes[middle] < value:
                low = middle + 1
            else:
                high = middle
        if low < size and sorted_hashes[low] == value:
            places[i] = low
