"""Discrete refinement after snapping: single codes move while that lowers the squared gap to the target
counts.

Method: coordinate descent on sum_S w_S sum_x (count_S(x) - target_S(x))^2 + rows^2 R over the rows' codes.
Moving column c of a row from code a to b changes the first part by 2 sum_{S with c} w_S (gap_S[b] -
gap_S[a] + 1), so a move needs only the gaps in the row's own fibres. Each table is therefore kept once per
column with that column last, and a fibre is one contiguous vector. Every accepted move lowers the loss;
counts stay whole; the table stays in its domain. The idea of the gradual updates of Zhang et al. (PrivSyn,
2021), exact instead of sampled.

The descent can be preceded by redraws: every code is drawn anew given the rest of the table, of density
exp(-strength/2 sum_S w_S gap_S^2) over all tables (Gibbs sampling). Where rows are many, such a table's rows are draws
of the log-linear model with potentials -strength w_S gap_S, the distribution of greatest entropy with those
marginals (conditional limit theorem, Csiszar 1984): whatever no marginal asks for, above all in three columns and
more, is forgotten. Graphical models have that by construction. Penalties play no part in it; the descent that follows
sees to them.

A hard rule is one more table, of prohibitive cost where it forbids, so moves mend a broken row and never break
a sound one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from understudy.pipelines.methods.privpgd.constraints import Penalty, Rule
from understudy.pipelines.methods.privpgd.polish_kernel import (
    LANES,
    LINK_MEAN,
    LINK_SIGMOID,
    LINK_THRESHOLD,
    Fibres,
    Float32Array,
    Float64Array,
    Int32Array,
    Scores,
    count_tables,
    redraw,
    sweep,
    weigh_tables,
)
from understudy.pipelines.methods.privpgd.targets import Target

PROHIBITIVE = 1e12
# Gaps then stay within some ten counts, and the descent that follows closes them.
REDRAW_STRENGTH = 0.1
LINKS = {"mean": LINK_MEAN, "threshold": LINK_THRESHOLD, "sigmoid": LINK_SIGMOID}


def polish(
    codes: Int32Array,
    targets: Sequence[Target],
    sizes: Sequence[int],
    sweeps: int,
    rng: np.random.Generator,
    rules: Sequence[Rule] = (),
    penalties: Sequence[Penalty] = (),
    redraws: int = 0,
) -> int:
    """Improve `codes` in place after `redraws`; returns the number of moves of the descent.

    It stops once a sweep moves one code in 1000.
    """
    if not targets or codes.shape[0] == 0:
        return 0
    fibres = build_fibres(codes, targets, rules, sizes)
    widths = np.array(sizes, dtype=np.int64)
    for _ in range(redraws):
        orders = rng.permutation(codes.shape[0]), rng.permutation(len(sizes))
        redraw(codes, *orders, widths, fibres, np.float32(REDRAW_STRENGTH), rng)
    scores = build_scores(codes, penalties, sizes)
    moved_in_all = 0
    for _ in range(sweeps):
        moved = sweep(codes, rng.permutation(codes.shape[0]), rng.permutation(len(sizes)), widths, fibres, scores)
        moved_in_all += moved
        if moved * 1000 <= codes.size:
            break
    return int(moved_in_all)


def build_fibres(
    codes: Int32Array,
    targets: Sequence[Target],
    rules: Sequence[Rule],
    sizes: Sequence[int],
    weights: Float64Array | None = None,
    frozen: frozenset[int] = frozenset(),
) -> Fibres:
    """Gaps of all tables. Rows count 1 each, or what they weigh; columns of `frozen` are never moved."""
    gaps = _gaps(codes, targets, weights)
    tables = [(t.columns, gap, t.weight, True) for t, gap in zip(targets, gaps, strict=True)]
    tables += [(r.columns, np.where(r.allowed, 0.0, PROHIBITIVE), 1.0, False) for r in rules]
    widest = max(len(columns) for columns, *_ in tables)
    # (table, axis) of every layout, those of a column together.
    layouts = sorted(
        (
            (t, axis)
            for t, (columns, *_) in enumerate(tables)
            for axis in range(len(columns))
            if columns[axis] not in frozen
        ),
        key=lambda layout: tables[layout[0]][0][layout[1]],
    )
    place = {layout: index for index, layout in enumerate(layouts)}
    shape = (len(layouts), widest)
    weight, changes = np.zeros(len(layouts), dtype=np.float32), np.zeros(len(layouts), dtype=np.bool_)
    start, order = np.zeros(len(layouts), dtype=np.uint64), np.zeros(len(layouts), dtype=np.int64)
    columns_of, twins = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    strides = np.zeros(shape, dtype=np.uint64)
    last = np.array([tables[t][0][axis] for t, axis in layouts], dtype=np.int64)
    parts: list[Float32Array] = []
    position = 0
    for layout, (t, axis) in enumerate(layouts):
        columns, table, weight[layout], changes[layout] = tables[t]
        others = [a for a in range(len(columns)) if a != axis]
        turned = _padded(table.transpose([*others, axis]))
        parts.append(turned.ravel())
        start[layout], order[layout] = position, len(columns)
        columns_of[layout, : len(columns)] = [columns[a] for a in (*others, axis)]
        strides[layout, : len(columns)] = [stride // turned.itemsize for stride in turned.strides]
        twins[layout, : len(others)] = [place.get((t, other), -1) for other in others]
        position += turned.size
    column_start = np.searchsorted(last, np.arange(len(sizes) + 1))
    saved = np.bincount(last, weights=weight * changes, minlength=len(sizes)).astype(np.float32)
    return Fibres(np.concatenate(parts), weight, start, order, columns_of, strides, twins, changes, column_start, saved)


def _padded(table: Float64Array) -> Float32Array:
    """Zeros after every fibre, up to whole vectors."""
    missing = -table.shape[-1] % LANES
    return np.pad(np.ascontiguousarray(table, dtype=np.float32), [(0, 0)] * (table.ndim - 1) + [(0, missing)])


def build_scores(codes: Int32Array, penalties: Sequence[Penalty], sizes: Sequence[int]) -> Scores:
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    tables = np.zeros((len(penalties), int(sum(sizes))))
    rows = np.zeros((len(codes), len(penalties)))
    for s, penalty in enumerate(penalties):
        statistic = penalty.statistic
        # The slope is folded into the scores, so that the kernel's sigmoid has none.
        slope = statistic.steepness if statistic.link == "sigmoid" else 1.0
        rows[:, s] = slope * statistic.offset
        for column, scores in statistic.scores.items():
            tables[s, start[column] : start[column] + sizes[column]] = slope * np.asarray(scores)
            rows[:, s] += tables[s, start[column] + codes[:, column]]
    return Scores(
        tables=tables,
        start=start,
        rows=rows,
        totals=np.array([float(p.statistic.terms(codes).sum()) for p in penalties], dtype=np.float64),
        links=np.array([LINKS[p.statistic.link] for p in penalties], dtype=np.int32),
        value=np.array([p.value for p in penalties], dtype=np.float64),
        attract=np.array([p.attract for p in penalties], dtype=np.float64),
        repel=np.array([p.repel for p in penalties], dtype=np.float64),
        softness=np.array([p.softness for p in penalties], dtype=np.float64),
    )


def _gaps(codes: Int32Array, targets: Sequence[Target], weights: Float64Array | None) -> list[Float64Array]:
    """Count minus target of every cell, a table for each target."""
    widest = max(len(t.columns) for t in targets)
    order = np.array([len(t.columns) for t in targets], dtype=np.int64)
    columns, strides = (
        np.zeros((len(targets), widest), dtype=np.int64),
        np.zeros((len(targets), widest), dtype=np.int64),
    )
    for row, target in enumerate(targets):
        columns[row, : order[row]] = target.columns
        strides[row, : order[row]] = [stride // 8 for stride in np.empty(target.probabilities.shape).strides]
    ends = np.cumsum([t.probabilities.size for t in targets])
    start = np.concatenate([[0], ends[:-1]])
    where = start, order, columns, strides, int(ends[-1])
    counted = count_tables(codes, *where) if weights is None else weigh_tables(codes, weights, *where)
    total = len(codes) if weights is None else float(weights.sum())
    return [
        count.reshape(t.probabilities.shape) - total * t.probabilities
        for count, t in zip(np.split(counted, ends[:-1]), targets, strict=True)
    ]
