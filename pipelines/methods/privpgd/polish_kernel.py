"""The compiled sweeps of `polish`, and the arrays that they go over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UInt64Array = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

LANES = 8  # numbers of a vector; the kernel's inner loop is written out for them
LINK_MEAN, LINK_THRESHOLD, LINK_SIGMOID = 0, 1, 2


class Fibres(NamedTuple):
    """All gap tables in one buffer: each once per column of it, with that column last, so that a fibre is contiguous.

    Columns that never move need no layout of their own. A layout's fibres are padded with zeros to whole vectors of
    `LANES` numbers. Layouts are sorted by their last column.
    """

    gaps: Float32Array
    weight: Float32Array  # per layout
    start: UInt64Array  # per layout: where it begins in `gaps`
    order: Int64Array  # per layout: how many columns
    columns: Int64Array  # [layouts, max order], the fibre's column last
    strides: UInt64Array  # [layouts, max order]
    twins: Int64Array  # [layouts, max order - 1]: the other layouts of its table, -1 for a frozen column's
    changes: Bools  # per layout: whether counts change it; a rule's table stays
    column_start: Int64Array  # [columns + 1] into the layouts
    saved: Float32Array  # per column: the weights of all its tables that change


class Scores(NamedTuple):
    """The penalised statistics: every row's score in each, and the sums of their terms."""

    tables: Float64Array  # [statistics, codes of all columns]
    start: Int64Array  # per column: where its codes begin
    rows: Float64Array  # [rows, statistics]
    totals: Float64Array  # [statistics]
    links: Int32Array
    value: Float64Array
    attract: Float64Array
    repel: Float64Array
    softness: Float64Array


@njit(cache=True, nogil=True)
def link_value(kind: int, score: float) -> float:
    if kind == LINK_MEAN:
        return score
    if kind == LINK_THRESHOLD:
        return 1.0 if score > 0.0 else 0.0
    return float(1.0 / (1.0 + np.exp(-score)))


@njit(cache=True, nogil=True)
def _penalty(total: float, rows: int, value: float, attract: float, repel: float, softness: float) -> float:
    squared = (total / rows - value) ** 2
    return attract * squared + repel / (softness + squared)


@njit(cache=True, nogil=True)
def count_tables(
    codes: np.ndarray, start: np.ndarray, order: np.ndarray, columns: np.ndarray, strides: np.ndarray, cells: int
) -> np.ndarray:
    """Counts of all tables, one after the other, in a single pass over the rows."""
    counts = np.zeros(cells, dtype=np.int64)
    for row in range(codes.shape[0]):
        for table in range(len(start)):
            cell = start[table]
            for j in range(order[table]):
                cell += strides[table, j] * codes[row, columns[table, j]]
            counts[cell] += 1
    return counts


@njit(cache=True, nogil=True)
def weigh_tables(
    codes: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    order: np.ndarray,
    columns: np.ndarray,
    strides: np.ndarray,
    cells: int,
) -> np.ndarray:
    """`count_tables` where a row counts as much as it weighs."""
    counts = np.zeros(cells, dtype=np.float64)
    for row in range(codes.shape[0]):
        for table in range(len(start)):
            cell = start[table]
            for j in range(order[table]):
                cell += strides[table, j] * codes[row, columns[table, j]]
            counts[cell] += weights[row]
    return counts


@njit(cache=True, nogil=True)
def find_fibres(codes: np.ndarray, row: int, column: int, fibres: Fibres, base: np.ndarray) -> None:
    """Where in `gaps` the row's fibres along the column begin."""
    first = fibres.column_start[column]
    for layout in range(first, fibres.column_start[column + 1]):
        place = fibres.start[layout]
        for j in range(fibres.order[layout] - 1):
            place += fibres.strides[layout, j] * np.uint64(codes[row, fibres.columns[layout, j]])
        base[layout - first] = place


@njit(cache=True, nogil=True)
def gap_costs(column: int, size: int, fibres: Fibres, base: np.ndarray, cost: np.ndarray) -> None:
    """Fill `cost` with the weighted gaps that each code of the column would meet."""
    gaps, first, end = fibres.gaps, fibres.column_start[column], fibres.column_start[column + 1]
    lanes = np.uint64(LANES)
    for block in range((size + LANES - 1) // LANES):
        shift = np.uint64(block) * lanes
        a = b = c = d = e = f = g = h = np.float32(0.0)
        for layout in range(first, end):
            share, at = fibres.weight[layout], base[layout - first] + shift
            a += share * gaps[at]
            b += share * gaps[at + np.uint64(1)]
            c += share * gaps[at + np.uint64(2)]
            d += share * gaps[at + np.uint64(3)]
            e += share * gaps[at + np.uint64(4)]
            f += share * gaps[at + np.uint64(5)]
            g += share * gaps[at + np.uint64(6)]
            h += share * gaps[at + np.uint64(7)]
        cost[shift] = a
        cost[shift + np.uint64(1)] = b
        cost[shift + np.uint64(2)] = c
        cost[shift + np.uint64(3)] = d
        cost[shift + np.uint64(4)] = e
        cost[shift + np.uint64(5)] = f
        cost[shift + np.uint64(6)] = g
        cost[shift + np.uint64(7)] = h


@njit(cache=True, nogil=True)
def move(
    codes: np.ndarray, row: int, column: int, code: int, fibres: Fibres, base: np.ndarray, one: np.float32
) -> None:
    """Give the row, which weighs `one`, another code, in every layout of every table that counts the column."""
    gaps, first = fibres.gaps, fibres.column_start[column]
    before, after = np.uint64(codes[row, column]), np.uint64(code)
    codes[row, column] = code
    for layout in range(first, fibres.column_start[column + 1]):
        if not fibres.changes[layout]:
            continue
        gaps[base[layout - first] + before] -= one
        gaps[base[layout - first] + after] += one
        for k in range(fibres.order[layout] - 1):
            twin = fibres.twins[layout, k]
            if twin < 0:
                continue
            place, stride = fibres.start[twin], np.uint64(0)
            for j in range(fibres.order[layout]):
                if fibres.columns[twin, j] == column:
                    stride = fibres.strides[twin, j]
                else:
                    place += fibres.strides[twin, j] * np.uint64(codes[row, fibres.columns[twin, j]])
            gaps[place + stride * before] -= one
            gaps[place + stride * after] += one


@njit(cache=True, nogil=True)
def redraw(
    codes: np.ndarray,
    row_order: np.ndarray,
    column_order: np.ndarray,
    sizes: np.ndarray,
    fibres: Fibres,
    strength: np.float32,
    rng: np.random.Generator,
) -> None:
    """Draw every code anew given the rest of the table, of density exp(-strength / 2 x weighted squared gaps)."""
    cost, base = workspace(sizes, fibres)
    for row in row_order:
        for column in column_order:
            size, now = sizes[column], codes[row, column]
            find_fibres(codes, row, column, fibres, base)
            gap_costs(column, size, fibres, base, cost)
            cost[now] -= fibres.saved[column]
            least = cost[0]
            for code in range(1, size):
                least = min(least, cost[code])
            total = np.float32(0.0)
            for code in range(size):
                cost[code] = exponential(strength * (least - cost[code]))
                total += cost[code]
            level, drawn = np.float32(rng.random()) * total - cost[0], 0
            while drawn < size - 1 and level >= 0.0:
                drawn += 1
                level -= cost[drawn]
            if drawn != now:
                move(codes, row, column, drawn, fibres, base, np.float32(1.0))


@njit(cache=True, nogil=True)
def exponential(power: np.float32) -> np.float32:
    """exp of a number that is not positive, as (1 + x/1024)^1024: below exp(x) by a share of x^2/2048.

    Ten products, which the compiler takes eight codes at a time; nothing here needs the last digits.
    """
    near = max(np.float32(1.0) + power * np.float32(1 / 1024), np.float32(0.0))
    for _ in range(10):
        near *= near
    return near


@njit(cache=True, nogil=True)
def workspace(sizes: np.ndarray, fibres: Fibres) -> tuple[np.ndarray, np.ndarray]:
    """Room for the costs of a column's codes, whole vectors, and for where its fibres begin."""
    most = 0
    for column in range(len(sizes)):
        most = max(most, fibres.column_start[column + 1] - fibres.column_start[column])
    return np.empty(sizes.max() + LANES, dtype=np.float32), np.empty(most, dtype=np.uint64)


@njit(cache=True, nogil=True)
def sweep(
    codes: np.ndarray,
    row_order: np.ndarray,
    column_order: np.ndarray,
    sizes: np.ndarray,
    fibres: Fibres,
    scores: Scores,
) -> int:
    """One pass over all rows and columns; returns the number of codes moved."""
    score_tables, score_start, row_scores, totals, links, value, attract, repel, softness = scores
    rows = codes.shape[0]
    half_square = 0.5 * rows * rows
    cost, base = workspace(sizes, fibres)
    moved = 0
    for row in row_order:
        for column in column_order:
            size, now = sizes[column], codes[row, column]
            find_fibres(codes, row, column, fibres, base)
            gap_costs(column, size, fibres, base, cost)
            for s in range(totals.shape[0]):
                first = score_start[column]
                score = row_scores[row, s] - score_tables[s, first + now]
                others = totals[s] - link_value(links[s], row_scores[row, s])
                for code in range(size):
                    total = others + link_value(links[s], score + score_tables[s, first + code])
                    cost[code] += half_square * _penalty(total, rows, value[s], attract[s], repel[s], softness[s])
            best = now
            best_cost = cost[now] - fibres.saved[column]
            for code in range(size):
                if code != now and cost[code] < best_cost:
                    best, best_cost = code, cost[code]
            if best == now:
                continue
            moved += 1
            move(codes, row, column, best, fibres, base, np.float32(1.0))
            for s in range(totals.shape[0]):
                before = row_scores[row, s]
                after = (
                    before + score_tables[s, score_start[column] + best] - score_tables[s, score_start[column] + now]
                )
                row_scores[row, s] = after
                totals[s] += link_value(links[s], after) - link_value(links[s], before)
    return moved
