"""The compiled sweep of `polish`; arrays as in its `Fibres` and `Scores`."""

from __future__ import annotations

import numpy as np
from numba import njit

LINK_MEAN, LINK_THRESHOLD, LINK_SIGMOID = 0, 1, 2


@njit(cache=True)
def link_value(kind, score):  # type: ignore[no-untyped-def]
    if kind == LINK_MEAN:
        return score
    if kind == LINK_THRESHOLD:
        return 1.0 if score > 0.0 else 0.0
    return 1.0 / (1.0 + np.exp(-score))


@njit(cache=True)
def _penalty(total, rows, value, attract, repel, softness):  # type: ignore[no-untyped-def]
    squared = (total / rows - value) ** 2
    return attract * squared + repel / (softness + squared)


@njit(cache=True)
def count_tables(codes, start, order, columns, strides, cells):  # type: ignore[no-untyped-def]
    """Counts of all tables, one after the other, in a single pass over the rows."""
    counts = np.zeros(cells, dtype=np.int64)
    for row in range(codes.shape[0]):
        for table in range(len(start)):
            cell = start[table]
            for j in range(order[table]):
                cell += strides[table, j] * codes[row, columns[table, j]]
            counts[cell] += 1
    return counts


@njit(cache=True)
def sweep(codes, row_order, column_order, sizes, fibres, scores):  # type: ignore[no-untyped-def]
    """One pass over all rows and columns; returns the number of codes moved."""
    gaps, weight, start, order, columns, strides, of_column, column_start, group = fibres
    score_tables, score_start, row_scores, totals, links, value, attract, repel, softness = scores
    rows = codes.shape[0]
    half_square = 0.5 * rows * rows
    cost = np.empty(sizes.max(), dtype=np.float32)
    moved = 0
    for row in row_order:
        for column in column_order:
            size = sizes[column]
            cost[:size] = 0.0
            begin, end = column_start[column], column_start[column + 1]
            threshold = np.float32(0.0)
            for entry in range(begin, end):
                layout = of_column[entry]
                base = start[layout]
                for j in range(order[layout] - 1):
                    base += strides[layout, j] * codes[row, columns[layout, j]]
                share = weight[layout]
                if group[layout, 0] < group[layout, 1]:
                    threshold += share
                fibre = gaps[base : base + size]
                for code in range(size):
                    cost[code] += share * fibre[code]
            now = codes[row, column]
            for s in range(totals.shape[0]):
                first = score_start[column]
                score = row_scores[row, s] - score_tables[s, first + now]
                others = totals[s] - link_value(links[s], row_scores[row, s])
                for code in range(size):
                    total = others + link_value(links[s], score + score_tables[s, first + code])
                    cost[code] += half_square * _penalty(total, rows, value[s], attract[s], repel[s], softness[s])
            best = now
            best_cost = cost[now] - threshold
            for code in range(size):
                if code != now and cost[code] < best_cost:
                    best, best_cost = code, cost[code]
            if best == now:
                continue
            moved += 1
            codes[row, column] = best
            for entry in range(begin, end):
                one = of_column[entry]
                for layout in range(group[one, 0], group[one, 1]):
                    base = start[layout]
                    shift = 0
                    for j in range(order[layout]):
                        base += strides[layout, j] * codes[row, columns[layout, j]]
                        if columns[layout, j] == column:
                            shift = strides[layout, j] * (now - best)
                    gaps[base] += 1.0
                    gaps[base + shift] -= 1.0
            for s in range(totals.shape[0]):
                before = row_scores[row, s]
                after = (
                    before + score_tables[s, score_start[column] + best] - score_tables[s, score_start[column] + now]
                )
                row_scores[row, s] = after
                totals[s] += link_value(links[s], after) - link_value(links[s], before)
    return moved
