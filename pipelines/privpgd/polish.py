"""Discrete refinement after snapping: single codes move while that lowers the squared gap to the target
counts.

Method: coordinate descent on sum_S w_S sum_x (count_S(x) - target_S(x))^2 over the rows' codes. Moving
column c of a row from code a to b changes the loss by 2 sum_{S with c} w_S (gap_S[b] - gap_S[a] + 1), so a
move needs only the gaps in the row's own fibres. Each table is therefore kept once per column with that
column last, and a fibre is one contiguous vector. Every accepted move lowers the loss; counts stay whole;
the table stays in its domain. The same idea as the gradual updates of Zhang et al. (PrivSyn, 2021), exact
instead of sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit
from understudy.pipelines.privpgd.targets import Target

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Fibres:
    """All gap tables in one buffer; a layout of a table has the fibre's column last, with stride 1."""

    gaps: Float32Array
    weight: Float32Array  # per layout
    start: Int64Array  # per layout: where it begins in `gaps`
    order: Int32Array  # per layout: how many columns
    columns: Int32Array  # [layouts, max order], the fibre's column last
    strides: Int64Array  # [layouts, max order]
    of_column: Int32Array  # layouts sorted by their last column
    column_start: Int32Array  # [columns + 1] into of_column
    group: Int32Array  # [layouts, 2]: first and end layout of the same table


def build_fibres(codes: Int32Array, targets: Sequence[Target], sizes: Sequence[int]) -> Fibres:
    rows = codes.shape[0]
    widest = max(len(t.columns) for t in targets)
    parts, weight, start, order, columns, strides, group, position = [], [], [], [], [], [], [], 0
    for target in targets:
        shape = target.probabilities.shape
        cells = np.ravel_multi_index([codes[:, c] for c in target.columns], shape)
        counts = np.bincount(cells, minlength=target.probabilities.size).reshape(shape)
        gap = (counts - rows * target.probabilities).astype(np.float32)
        first = len(start)
        for axis in range(len(shape)):
            axes = [a for a in range(len(shape)) if a != axis] + [axis]
            turned = np.ascontiguousarray(gap.transpose(axes))
            parts.append(turned.ravel())
            weight.append(target.weight)
            start.append(position)
            order.append(len(shape))
            padding = [0] * (widest - len(shape))
            columns.append([target.columns[a] for a in axes] + padding)
            strides.append([stride // turned.itemsize for stride in turned.strides] + padding)
            position += gap.size
        group.extend([[first, len(start)]] * len(shape))
    last = np.array([columns[layout][order[layout] - 1] for layout in range(len(order))])
    return Fibres(
        gaps=np.concatenate(parts),
        weight=np.array(weight, dtype=np.float32),
        start=np.array(start, dtype=np.int64),
        order=np.array(order, dtype=np.int32),
        columns=np.array(columns, dtype=np.int32),
        strides=np.array(strides, dtype=np.int64),
        of_column=np.argsort(last, kind="stable").astype(np.int32),
        column_start=np.searchsorted(np.sort(last), np.arange(len(sizes) + 1)).astype(np.int32),
        group=np.array(group, dtype=np.int32),
    )


def polish(
    codes: Int32Array, targets: Sequence[Target], sizes: Sequence[int], sweeps: int, rng: np.random.Generator
) -> int:
    """Improve `codes` in place; returns the number of moves. Stops once a sweep moves one code in 1000."""
    if not targets or codes.shape[0] == 0:
        return 0
    fibres = build_fibres(codes, targets, sizes)
    widths = np.array(sizes, dtype=np.int64)
    moved_in_all = 0
    for _ in range(sweeps):
        order = rng.permutation(codes.shape[0])
        moved = _sweep(
            codes,
            order,
            rng.permutation(len(sizes)),
            widths,
            fibres.gaps,
            fibres.weight,
            fibres.start,
            fibres.order,
            fibres.columns,
            fibres.strides,
            fibres.of_column,
            fibres.column_start,
            fibres.group,
        )
        moved_in_all += moved
        if moved * 1000 <= codes.size:
            break
    return moved_in_all


@njit(cache=True, fastmath=True)
def _sweep(
    codes,
    row_order,
    column_order,
    sizes,
    gaps,
    weight,
    start,
    order,
    columns,
    strides,
    of_column,
    column_start,
    group,
):
    cost = np.empty(sizes.max(), dtype=np.float32)
    moved = 0
    for row in row_order:
        for column in column_order:
            size = sizes[column]
            cost[:size] = 0.0
            begin, end = column_start[column], column_start[column + 1]
            total_weight = np.float32(0.0)
            for entry in range(begin, end):
                layout = of_column[entry]
                base = start[layout]
                for j in range(order[layout] - 1):
                    base += strides[layout, j] * codes[row, columns[layout, j]]
                share = weight[layout]
                total_weight += share
                for code in range(size):
                    cost[code] += share * gaps[base + code]
            now = codes[row, column]
            best = now
            best_cost = cost[now] - total_weight
            for code in range(size):
                if code != now and cost[code] < best_cost:
                    best, best_cost = code, cost[code]
            if best != now:
                moved += 1
                codes[row, column] = best
                for entry in range(begin, end):
                    first = of_column[entry]
                    for layout in range(group[first, 0], group[first, 1]):
                        base = start[layout]
                        shift = 0
                        for j in range(order[layout]):
                            base += strides[layout, j] * codes[row, columns[layout, j]]
                            if columns[layout, j] == column:
                                shift = strides[layout, j] * (now - best)
                        gaps[base] += 1.0
                        gaps[base + shift] -= 1.0
    return moved
