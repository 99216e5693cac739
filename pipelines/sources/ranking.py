"""Sorting rows by entity, where entities and rows are uniform 128-bit hashes and there are many of them."""

from __future__ import annotations

import numpy as np
from numba import njit

from understudy.pipelines.sources.hashing import Hashes

SMALL = 24


def first_of_each(entity: Hashes, row: Hashes, tie: Hashes, count: int) -> np.ndarray:
    """Indices of the first `count` rows of each entity by the row's two hashes, in that order, entities ascending."""
    order = np.argsort(entity.high)
    _rank_groups(entity.high, entity.low, row.high, row.low, tie.high, tie.low, order)
    kept = np.empty(len(order), np.bool_)
    _mark_first(entity.high, entity.low, order, count, kept)
    return order[kept]


def first_of_two(entity: Hashes, row: Hashes, tie: Hashes, split: int, count: int) -> np.ndarray:
    """The same, where the rows up to `split` are in that order already, and so are those from it."""
    order = np.empty(len(entity), np.int64)
    _interleave(entity.high, entity.low, row.high, row.low, tie.high, tie.low, split, order)
    kept = np.empty(len(order), np.bool_)
    _mark_first(entity.high, entity.low, order, count, kept)
    return order[kept]


@njit(cache=True, nogil=True)
def _interleave(
    e_high: np.ndarray,
    e_low: np.ndarray,
    r_high: np.ndarray,
    r_low: np.ndarray,
    t_high: np.ndarray,
    t_low: np.ndarray,
    split: int,
    order: np.ndarray,
) -> None:
    a, b = 0, split
    for i in range(len(order)):
        take_other = a == split
        if a < split and b < len(order):
            same = e_high[a] == e_high[b]
            take_other = _comes_after(e_low, r_high, r_low, t_high, t_low, a, b) if same else e_high[a] > e_high[b]
        if take_other:
            order[i] = b
            b += 1
        else:
            order[i] = a
            a += 1


@njit(cache=True, nogil=True)
def _comes_after(
    e_low: np.ndarray,
    r_high: np.ndarray,
    r_low: np.ndarray,
    t_high: np.ndarray,
    t_low: np.ndarray,
    a: int,
    b: int,
) -> bool:
    if e_low[a] != e_low[b]:
        return bool(e_low[a] > e_low[b])
    if r_high[a] != r_high[b]:
        return bool(r_high[a] > r_high[b])
    if r_low[a] != r_low[b]:
        return bool(r_low[a] > r_low[b])
    if t_high[a] != t_high[b]:
        return bool(t_high[a] > t_high[b])
    return bool(t_low[a] > t_low[b])


@njit(cache=True, nogil=True)
def _rank_groups(
    e_high: np.ndarray,
    e_low: np.ndarray,
    r_high: np.ndarray,
    r_low: np.ndarray,
    t_high: np.ndarray,
    t_low: np.ndarray,
    order: np.ndarray,
) -> None:
    """Sort `order` by the rest of the entity's hash and the row's within each run that starts alike."""
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and e_high[order[end]] == e_high[order[start]]:
            end += 1
        if end - start > SMALL:
            for key in (t_low, t_high, r_low, r_high, e_low):  # stable sorts, the last one decides first
                run = order[start:end].copy()
                order[start:end] = run[np.argsort(key[run], kind="mergesort")]
        else:
            for i in range(start + 1, end):
                moving, j = order[i], i
                while j > start and _comes_after(e_low, r_high, r_low, t_high, t_low, order[j - 1], moving):
                    order[j] = order[j - 1]
                    j -= 1
                order[j] = moving
        start = end


@njit(cache=True, nogil=True)
def _mark_first(e_high: np.ndarray, e_low: np.ndarray, order: np.ndarray, count: int, kept: np.ndarray) -> None:
    rank = 0
    for i in range(len(order)):
        a, b = order[i], order[i - 1]
        rank = rank + 1 if i and e_high[a] == e_high[b] and e_low[a] == e_low[b] else 0
        kept[i] = rank < count
