"""The compiled sweeps of `polish`, and the arrays that they go over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

LINK_MEAN, LINK_THRESHOLD, LINK_SIGMOID = 0, 1, 2


class Fibres(NamedTuple):
    """All gap tables in one buffer; a layout of a table has the fibre's column last, with stride 1."""

    gaps: Float32Array
    weight: Float32Array  # per layout
    start: Int64Array  # per layout: where it begins in `gaps`
    order: Int32Array  # per layout: how many columns
    columns: Int32Array  # [layouts, max order], the fibre's column last
    strides: Int64Array  # [layouts, max order]
    of_column: Int32Array  # layouts sorted by their last column
    column_start: Int32Array  # [columns + 1] into of_column
    group: Int32Array  # [layouts, 2]: first and end layout of the table; empty for rules


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
def _gap_costs(codes: np.ndarray, row: int, column: int, size: int, fibres: Fibres, cost: np.ndarray) -> np.float32:
    """Fill `cost` with the weighted gaps that each code of the column would meet; returns what leaving a code saves."""
    cost[:size] = 0.0
    saved = np.float32(0.0)
    for entry in range(fibres.column_start[column], fibres.column_start[column + 1]):
        layout = fibres.of_column[entry]
        base = fibres.start[layout]
        for j in range(fibres.order[layout] - 1):
            base += fibres.strides[layout, j] * codes[row, fibres.columns[layout, j]]
        share = fibres.weight[layout]
        if fibres.group[layout, 0] < fibres.group[layout, 1]:
            saved += share
        fibre = fibres.gaps[base : base + size]
        for code in range(size):
            cost[code] += share * fibre[code]
    return saved


@njit(cache=True, nogil=True)
def _move(codes: np.ndarray, row: int, column: int, code: int, fibres: Fibres) -> None:
    now = codes[row, column]
    codes[row, column] = code
    for entry in range(fibres.column_start[column], fibres.column_start[column + 1]):
        one = fibres.of_column[entry]
        for layout in range(fibres.group[one, 0], fibres.group[one, 1]):
            base = fibres.start[layout]
            shift = 0
            for j in range(fibres.order[layout]):
                base += fibres.strides[layout, j] * codes[row, fibres.columns[layout, j]]
                if fibres.columns[layout, j] == column:
                    shift = fibres.strides[layout, j] * (now - code)
            fibres.gaps[base] += 1.0
            fibres.gaps[base + shift] -= 1.0


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
    cost = np.empty(sizes.max(), dtype=np.float32)
    for row in row_order:
        for column in column_order:
            size, now = sizes[column], codes[row, column]
            saved = _gap_costs(codes, row, column, size, fibres, cost)
            cost[now] -= saved
            least = cost[:size].min()
            total = np.float32(0.0)
            for code in range(size):
                total += np.exp(strength * (least - cost[code]))
                cost[code] = total
            level, drawn = rng.random() * total, 0
            while drawn < size - 1 and cost[drawn] <= level:
                drawn += 1
            if drawn != now:
                _move(codes, row, column, drawn, fibres)


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
    cost = np.empty(sizes.max(), dtype=np.float32)
    moved = 0
    for row in row_order:
        for column in column_order:
            size, now = sizes[column], codes[row, column]
            saved = _gap_costs(codes, row, column, size, fibres, cost)
            for s in range(totals.shape[0]):
                first = score_start[column]
                score = row_scores[row, s] - score_tables[s, first + now]
                others = totals[s] - link_value(links[s], row_scores[row, s])
                for code in range(size):
                    total = others + link_value(links[s], score + score_tables[s, first + code])
                    cost[code] += half_square * _penalty(total, rows, value[s], attract[s], repel[s], softness[s])
            best = now
            best_cost = cost[now] - saved
            for code in range(size):
                if code != now and cost[code] < best_cost:
                    best, best_cost = code, cost[code]
            if best == now:
                continue
            moved += 1
            _move(codes, row, column, best, fibres)
            for s in range(totals.shape[0]):
                before = row_scores[row, s]
                after = (
                    before + score_tables[s, score_start[column] + best] - score_tables[s, score_start[column] + now]
                )
                row_scores[row, s] = after
                totals[s] += link_value(links[s], after) - link_value(links[s], before)
    return moved
