"""The compiled sweeps over the rows of families, and the arrays that they go over.

As `privpgd.polish_kernel`, whose tables these are, with three things more. Some columns are frozen: what a row has of
its ancestors. A row weighs 1/m where its root has m of them, so that tables count roots. And siblings lie in order, one
after the other: tables of a row and the one before it are counted with them, and codes of the column that orders them
never fall.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from understudy.pipelines.methods.privpgd.polish_kernel import (
    Bools,
    Fibres,
    Float32Array,
    Int64Array,
    exponential,
    find_fibres,
    gap_costs,
    move,
    workspace,
)


class Families(NamedTuple):
    """What a row is worth and where it stands. The sibling before a row is the row before it."""

    weight: Float32Array  # per row: of its root
    pair_weight: Float32Array  # per row: of its root, of each pair of neighbouring siblings that the root has
    follows: Bools  # [rows + 1]: whether there is a sibling before; False after the last row
    ordered: int  # the column whose codes never fall along siblings, or -1


class Lags(NamedTuple):
    """Gap tables of (before, own), each twice in one buffer: with `own` last, and with `before` last."""

    gaps: Float32Array
    weight: Float32Array  # per table
    own: Int64Array  # per table: the row's column
    before: Int64Array  # per table: the column of the sibling before
    own_last: Int64Array  # per table: where [before, own] begins
    before_last: Int64Array  # per table: where [own, before] begins
    own_size: Int64Array
    before_size: Int64Array
    by_own: Int64Array  # tables sorted by `own`
    own_start: Int64Array  # [columns + 1] into `by_own`
    by_before: Int64Array
    before_start: Int64Array


@njit(cache=True, nogil=True)
def _lag_costs(
    codes: np.ndarray, row: int, column: int, size: int, families: Families, lags: Lags, cost: np.ndarray
) -> np.float32:
    """Add the gaps that each code would meet in the tables of neighbours; returns what the row itself has in them."""
    gaps, pair = lags.gaps, families.pair_weight[row]
    times = pair / families.weight[row]
    saved = np.float32(0.0)
    if families.follows[row]:
        for place in range(lags.own_start[column], lags.own_start[column + 1]):
            lag = lags.by_own[place]
            share = times * lags.weight[lag]
            at = lags.own_last[lag] + lags.own_size[lag] * codes[row - 1, lags.before[lag]]
            saved += share * pair
            for code in range(size):
                cost[code] += share * gaps[at + code]
    if families.follows[row + 1]:
        for place in range(lags.before_start[column], lags.before_start[column + 1]):
            lag = lags.by_before[place]
            share = times * lags.weight[lag]
            at = lags.before_last[lag] + lags.before_size[lag] * codes[row + 1, lags.own[lag]]
            saved += share * pair
            for code in range(size):
                cost[code] += share * gaps[at + code]
    return saved


@njit(cache=True, nogil=True)
def _move_lags(codes: np.ndarray, row: int, column: int, now: int, code: int, families: Families, lags: Lags) -> None:
    """Keep the tables of neighbours true for a row whose code of the column was `now`."""
    gaps, pair = lags.gaps, families.pair_weight[row]
    if families.follows[row]:
        for place in range(lags.own_start[column], lags.own_start[column + 1]):
            lag = lags.by_own[place]
            other = codes[row - 1, lags.before[lag]]
            gaps[lags.own_last[lag] + lags.own_size[lag] * other + now] -= pair
            gaps[lags.own_last[lag] + lags.own_size[lag] * other + code] += pair
            gaps[lags.before_last[lag] + lags.before_size[lag] * now + other] -= pair
            gaps[lags.before_last[lag] + lags.before_size[lag] * code + other] += pair
    if families.follows[row + 1]:
        for place in range(lags.before_start[column], lags.before_start[column + 1]):
            lag = lags.by_before[place]
            other = codes[row + 1, lags.own[lag]]
            gaps[lags.before_last[lag] + lags.before_size[lag] * other + now] -= pair
            gaps[lags.before_last[lag] + lags.before_size[lag] * other + code] += pair
            gaps[lags.own_last[lag] + lags.own_size[lag] * now + other] -= pair
            gaps[lags.own_last[lag] + lags.own_size[lag] * code + other] += pair


@njit(cache=True, nogil=True)
def _allowed(codes: np.ndarray, row: int, column: int, size: int, families: Families) -> tuple[int, int]:
    """The first code that the row may have, and the last."""
    first, last = 0, size - 1
    if column == families.ordered:
        if families.follows[row]:
            first = codes[row - 1, column]
        if families.follows[row + 1]:
            last = codes[row + 1, column]
    return first, last


@njit(cache=True, nogil=True)
def redraw_families(
    codes: np.ndarray,
    row_order: np.ndarray,
    column_order: np.ndarray,
    sizes: np.ndarray,
    fibres: Fibres,
    families: Families,
    lags: Lags,
    strength: np.float32,
    rng: np.random.Generator,
) -> None:
    """Draw every code of these columns anew given the rest, of density exp(-strength x the gaps that it would meet).

    The potentials do not depend on what a row weighs: light rows are as far from chance as heavy ones.
    """
    cost, base = workspace(sizes, fibres)
    for row in row_order:
        one = families.weight[row]
        for column in column_order:
            size, now = sizes[column], codes[row, column]
            first, last = _allowed(codes, row, column, size, families)
            if first == last:
                continue
            find_fibres(codes, row, column, fibres, base)
            gap_costs(column, size, fibres, base, cost)
            saved = _lag_costs(codes, row, column, size, families, lags, cost)
            cost[now] -= one * fibres.saved[column] + saved
            least = cost[first]
            for code in range(first + 1, last + 1):
                least = min(least, cost[code])
            total = np.float32(0.0)
            for code in range(first, last + 1):
                cost[code] = exponential(strength * (least - cost[code]))
                total += cost[code]
            level, drawn = np.float32(rng.random()) * total - cost[first], first
            while drawn < last and level >= 0.0:
                drawn += 1
                level -= cost[drawn]
            if drawn != now:
                move(codes, row, column, drawn, fibres, base, one)
                _move_lags(codes, row, column, now, drawn, families, lags)


@njit(cache=True, nogil=True)
def sweep_families(
    codes: np.ndarray,
    row_order: np.ndarray,
    column_order: np.ndarray,
    sizes: np.ndarray,
    fibres: Fibres,
    families: Families,
    lags: Lags,
) -> int:
    """One pass of single moves that close gaps; returns the number of codes moved."""
    cost, base = workspace(sizes, fibres)
    moved = 0
    for row in row_order:
        one = families.weight[row]
        for column in column_order:
            size, now = sizes[column], codes[row, column]
            first, last = _allowed(codes, row, column, size, families)
            if first == last:
                continue
            find_fibres(codes, row, column, fibres, base)
            gap_costs(column, size, fibres, base, cost)
            saved = _lag_costs(codes, row, column, size, families, lags, cost)
            cost[now] -= one * fibres.saved[column] + saved
            best = now
            for code in range(first, last + 1):
                if cost[code] < cost[best]:
                    best = code
            if best != now:
                moved += 1
                move(codes, row, column, best, fibres, base, one)
                _move_lags(codes, row, column, now, best, families, lags)
    return moved
