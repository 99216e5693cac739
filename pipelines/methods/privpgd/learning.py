"""What residuals tell of columns one by one, which codes they are merged to, and what groups predict of pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.groups import GroupedClique, Starts
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.methods.privpgd.merging import Merged, merge
from understudy.pipelines.methods.privpgd.nested import Nested
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
from understudy.pipelines.methods.privpgd.stein import Shrunk

FloatArray = npt.NDArray[np.float64]
FEWEST_ORDERED = 8  # codes; fewer have hardly neighbours


def learn(
    residuals: Residuals,
    columns: Sequence[GridColumn],
    total: float,
    whole: frozenset[int],
    settled: Mapping[int, Merged] | None = None,
) -> tuple[dict[int, Merged], Known]:
    """`total` is at least one row. How columns are merged is chosen here, unless it is `settled`."""
    masses = [_alone(residuals, c, column, total) for c, column in enumerate(columns)]
    merged = dict(settled or {})
    for c, column in enumerate(columns if settled is None else ()):
        stds = [r.std for clique, r in residuals.by_clique.items() if len(clique) > 1 and c in clique]
        found = None if c in whole or not stds else merge(masses[c], column, total, min(stds), _cuts(residuals, c))
        if found is not None:
            merged[c] = found
    predicted = _predictions(residuals, columns, masses, merged, total)
    smooth = _smooth(residuals, columns, masses, merged, total)
    probabilities = {c: merged[c].probabilities if c in merged else masses[c] for c in range(len(columns))}
    nested = _nested(residuals, merged, total)
    return merged, Known(probabilities, {c: each.members for c, each in merged.items()}, predicted, smooth, nested)


def with_focus(known: Known, columns: Sequence[GridColumn], focus: frozenset[int]) -> Known:
    """Pairs with these columns are to be told together."""
    ordered = {c: codes for c, column in enumerate(columns) if (codes := in_order(column)) is not None}
    return replace(known, focus=focus, on_axis=ordered)


def _cuts(residuals: Residuals, column: int) -> Starts:
    """The finest groups in which pairs with the column were measured."""
    ways = [
        starts
        for each in residuals.grouped
        if len(each.columns) == 2
        for place, starts in zip(each.columns, each.starts, strict=True)
        if place == column and starts is not None
    ]
    return max(ways, key=len, default=())


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


class _Axes:
    """The axes of pairs, each made once."""

    def __init__(
        self, columns: Sequence[GridColumn], masses: Sequence[FloatArray], merged: Mapping[int, Merged]
    ) -> None:
        self._columns, self._masses, self._merged = columns, masses, merged
        self._made: dict[tuple[int, float, tuple[Grouped, ...]], Axis] = {}

    def of(self, pair: tuple[int, ...], measured: Sequence[tuple[Grouped, ...]]) -> list[tuple[Axis, Axis]]:
        """Of two columns that were measured in these ways, for every length."""
        first, second = zip(pair, measured, strict=True)
        return [(self._axis(*first, length), self._axis(*second, length)) for length in LENGTHS]

    def _axis(self, column: int, measured: tuple[Grouped, ...], length: float) -> Axis:
        on_axis = in_order(self._columns[column])
        key = column, 0.0 if on_axis is None else length, measured
        if key not in self._made:
            size = self._columns[column].size
            wanted = self._merged[column].of if column in self._merged else np.arange(size)
            self._made[key] = axis_of(self._masses[column], on_axis, length, measured, wanted)
        return self._made[key]


def in_order(column: GridColumn) -> int | None:
    """How many of a column's codes, its first ones, are in order."""
    on_axis = column.size - len(column.unordered_codes)
    return on_axis if column.ordered and all(code >= on_axis for code in column.unordered_codes) else None


def _smooth(
    residuals: Residuals,
    columns: Sequence[GridColumn],
    masses: Sequence[FloatArray],
    apart: Collection[int],
    total: float,
) -> dict[tuple[int, ...], Shrunk]:
    """Estimated interactions of pairs with an ordered column, but those with a column that is to be left `apart`."""
    axes = _Axes(columns, masses, {})
    smooth: dict[tuple[int, ...], Shrunk] = {}
    in_groups = {each.columns for each in residuals.grouped}
    for pair, residual in residuals.by_clique.items():
        ordered = any((in_order(columns[c]) or 0) >= FEWEST_ORDERED for c in pair)
        if len(pair) != 2 or pair in in_groups or not ordered or any(c in apart for c in pair):
            continue
        std = residual.std / total
        codes = [(Grouped(tuple(range(columns[c].size))),) for c in pair]
        seen = _interaction(GroupedClique(pair, (None, None)), residual, masses, total) / std
        found = kriged(seen, axes.of(pair, codes))
        smooth[pair] = Shrunk(std * found.interaction, found.freedom)
    return smooth


def _predictions(
    residuals: Residuals,
    columns: Sequence[GridColumn],
    masses: Sequence[FloatArray],
    merged: Mapping[int, Merged],
    total: float,
) -> dict[tuple[int, ...], FloatArray]:
    """What the groups of pairs predict of their interactions over merged codes."""
    axes = _Axes(columns, masses, merged)
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
        predicted[pair] = kriged(seen, axes.of(pair, measured)).interaction
    return predicted


def _nested(residuals: Residuals, merged: Mapping[int, Merged], total: float) -> dict[tuple[int, ...], list[Nested]]:
    """What pairs that were measured in groups were measured to hold, in groups and code by code."""
    nested: dict[tuple[int, ...], list[Nested]] = {}
    for each, residual in residuals.grouped.items():
        if len(each.columns) == 2:
            nested.setdefault(each.columns, []).append(_counted_in(each, residual, merged, total))
    for pair, found in nested.items():
        found.append(_counted_in(GroupedClique(pair, (None, None)), residuals.by_clique[pair], merged, total))
    return nested


def _counted_in(groups: GroupedClique, residual: Residual, merged: Mapping[int, Merged], total: float) -> Nested:
    """By the first merged code of every group, or by merged codes where there are no groups."""
    table, firsts, members = residual.counts / total, [], []
    for axis, (column, starts) in enumerate(zip(groups.columns, groups.starts, strict=True)):
        of = merged.get(column)
        if starts is None and of is not None:
            table = of.summed(table, axis)
        codes = np.arange(table.shape[axis]) if starts is None else np.array(starts, dtype=np.intp)
        firsts.append(codes if starts is None or of is None else of.of[codes])
        members.append(np.ones(len(codes)) if starts is not None or of is None else of.members)
    return Nested((firsts[0], firsts[1]), table, (residual.std / total) ** 2, (members[0], members[1]))


def _interaction(pair: GroupedClique, residual: Residual, masses: Sequence[FloatArray], total: float) -> FloatArray:
    """What a residual in groups says beside the product of the two columns' probabilities."""
    summed = [
        masses[column] if starts is None else np.add.reduceat(masses[column], starts)
        for column, starts in zip(pair.columns, pair.starts, strict=True)
    ]
    return residual.counts / total - centred(np.multiply.outer(*summed))
