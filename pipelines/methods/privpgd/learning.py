"""What residuals tell of columns one by one, which codes they are merged to, and what groups predict of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.groups import GroupedClique, Starts
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.methods.privpgd.merging import Merged, merge
from understudy.pipelines.methods.privpgd.order import (
    LENGTHS,
    Axis,
    Counted,
    Grouped,
    axis_of,
    column_from_groups,
    kriged,
)
from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.projection import project_to_simplex
from understudy.pipelines.methods.privpgd.shrinkage import Known, centred

FloatArray = npt.NDArray[np.float64]


def learn(
    residuals: Residuals, columns: Sequence[GridColumn], total: float, whole: frozenset[int]
) -> tuple[dict[int, Merged], Known]:
    """`total` is at least one row."""
    masses = [_alone(residuals, c, column, total) for c, column in enumerate(columns)]
    merged = {}
    for c, column in enumerate(columns):
        stds = [r.std for clique, r in residuals.by_clique.items() if len(clique) > 1 and c in clique]
        found = None if c in whole or not stds else merge(masses[c], column, total, min(stds))
        if found is not None:
            merged[c] = found
    predicted = _predictions(residuals, columns, masses, merged, total)
    probabilities = {c: merged[c].probabilities if c in merged else masses[c] for c in range(len(columns))}
    return merged, Known(probabilities, {c: each.members for c, each in merged.items()}, predicted)


def merged_marginal(residuals: Residuals, clique: tuple[int, ...], merged: Mapping[int, Merged]) -> FloatArray:
    """`Residuals.marginal` over merged codes, without a table of all single ones but those that were released."""
    members = [merged[c].members if c in merged else np.ones(residuals.sizes[c]) for c in clique]
    estimate = np.zeros(tuple(len(each) for each in members))
    for subset in subsets(clique):
        if subset not in residuals.by_clique:
            continue
        table = residuals.by_clique[subset].counts
        for axis, column in enumerate(subset):
            if column in merged:
                table = merged[column].summed(table, axis)
        table = table.reshape([len(members[i]) if column in subset else 1 for i, column in enumerate(clique)])
        for place, column in enumerate(clique):
            if column not in subset:
                spread = members[place] / members[place].sum()
                table = table * spread.reshape([-1 if other == place else 1 for other in range(len(clique))])
        estimate += table
    return estimate


def _alone(residuals: Residuals, column: int, grid: GridColumn, total: float) -> FloatArray:
    """The probabilities of a column's codes, from all that was measured of it alone."""
    own = residuals.by_clique.get((column,), Residual(np.zeros(grid.size), 0.0))
    grouped = [(each, r) for each, r in residuals.grouped.items() if each.columns == (column,)]
    if not grouped:
        return project_to_simplex((total / grid.size + own.counts) / total)
    levels = [_counted(each.starts[0] or (), r, total) for each, r in grouped]
    levels.append(_counted(tuple(range(grid.size)), own, total))
    levels.sort(key=lambda level: len(level.starts))
    return column_from_groups(levels, grid.size - len(grid.unordered_codes), total)


def _counted(starts: Starts, residual: Residual, total: float) -> Counted:
    return Counted(starts, total / len(starts) + residual.counts, residual.std**2)


def _predictions(
    residuals: Residuals,
    columns: Sequence[GridColumn],
    masses: Sequence[FloatArray],
    merged: Mapping[int, Merged],
    total: float,
) -> dict[tuple[int, ...], FloatArray]:
    """What the groups of pairs predict of their interactions over merged codes."""
    made: dict[tuple[int, float, tuple[Grouped, ...]], Axis] = {}

    def axis(column: int, length: float, measured: tuple[Grouped, ...]) -> Axis:
        grid = columns[column]
        on_axis = grid.size - len(grid.unordered_codes)
        ordered = grid.ordered and all(code >= on_axis for code in grid.unordered_codes)
        key = column, length if ordered else 0.0, measured
        if key not in made:
            wanted = merged[column].of if column in merged else np.arange(grid.size)
            made[key] = axis_of(masses[column], on_axis if ordered else None, length, measured, wanted)
        return made[key]

    predicted: dict[tuple[int, ...], FloatArray] = {}
    for pair in dict.fromkeys(each.columns for each in residuals.grouped if len(each.columns) == 2):
        tables = {each.starts: r for each, r in residuals.grouped.items() if each.columns == pair}
        rows, others = (list(dict.fromkeys(starts[side] for starts in tables)) for side in (0, 1))
        stds = np.array([[tables[a, b].std / total for b in others] for a in rows])
        seen = np.block(
            [
                [
                    _interaction(GroupedClique(pair, (a, b)), tables[a, b], masses, total) / stds[i, j]
                    for j, b in enumerate(others)
                ]
                for i, a in enumerate(rows)
            ]
        )
        # The stds of two columns' groupings are products of one factor for each.
        by_row, by_other = np.exp(np.log(stds).mean(axis=1)), np.exp(np.log(stds).mean(axis=0) - np.log(stds).mean())
        measured = [
            tuple(
                Grouped(starts or tuple(range(columns[c].size)), float(std))
                for starts, std in zip(ways, factors, strict=True)
            )
            for c, ways, factors in zip(pair, (rows, others), (by_row, by_other), strict=True)
        ]
        axes = [tuple(axis(c, length, each) for c, each in zip(pair, measured, strict=True)) for length in LENGTHS]
        predicted[pair] = kriged(seen, [(a, b) for a, b in axes])
    return predicted


def _interaction(pair: GroupedClique, residual: Residual, masses: Sequence[FloatArray], total: float) -> FloatArray:
    """What a residual in groups says beside the product of the two columns' probabilities."""
    summed = [
        masses[column] if starts is None else np.add.reduceat(masses[column], starts)
        for column, starts in zip(pair.columns, pair.starts, strict=True)
    ]
    return residual.counts / total - centred(np.multiply.outer(*summed))
