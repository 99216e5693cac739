"""What the rows of a child table should look like, given the parents that they lie under.

Tables are estimated and shrunk as those of a single table are (`privpgd.targets`), with two differences. What ancestors
have is settled before: their columns' own tables are those of the fixed parents, and every pair with them is fitted to
these. And neighbours in order have tables of their own, over the same merged codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.tree.views import ViewColumn
from understudy.pipelines.methods.privpgd.learning import learn
from understudy.pipelines.methods.privpgd.merging import Merged
from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.reconcile import Estimate
from understudy.pipelines.methods.privpgd.shrinkage import Table, shrink_all
from understudy.pipelines.methods.privpgd.targets import (
    LEAST_WEIGHT,
    Targets,
    assembled,
    lifted_estimates,
    uniform_targets,
)
from understudy.pipelines.methods.tree.generating.fitting import LagTarget
from understudy.pipelines.methods.tree.released import ReleasedView

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ChildTargets:
    """`gaps` are the probabilities of the bins of the gap between neighbours, where that was measured."""

    rows: Targets
    lags: tuple[LagTarget, ...]
    gaps: FloatArray | None


def child_targets(
    rows: ReleasedView,
    order: ReleasedView | None,
    grid: Sequence[GridColumn],
    given: Mapping[int, Int32Array],
    weights: FloatArray,
    whole: frozenset[int],
) -> ChildTargets:
    """`given` are the codes of the columns that are settled, of all rows, and `weights` what these weigh.

    `grid` are the columns of the view of rows. Those of `whole` are not merged.
    """
    sizes = [column.size for column in grid]
    total = rows.residuals.total
    if total < 1.0 or not len(weights):
        return ChildTargets(uniform_targets(sizes), (), None)
    merged, known = learn(rows.residuals, grid, total, whole)
    settled = {c: _shares(codes, weights, sizes[c], merged.get(c)) for c, codes in given.items()}
    known = replace(known, columns={**known.columns, **settled})
    estimates = lifted_estimates(rows.residuals, merged)
    targets = assembled(shrink_all(estimates, total, known), estimates, rows.view.asked, sizes, merged)
    if order is None or order.residuals.total < 1.0:
        return ChildTargets(targets, (), None)
    best = min((estimates[s].variance for s in rows.view.asked if len(s) > 1), default=None)
    return ChildTargets(targets, *_neighbours(rows, order, grid, merged, best))


def _neighbours(
    rows: ReleasedView,
    order: ReleasedView,
    grid: Sequence[GridColumn],
    merged: Mapping[int, Merged],
    best: float | None,
) -> tuple[tuple[LagTarget, ...], FloatArray | None]:
    own = {column.column: place for place, column in enumerate(rows.view.columns) if column.role == "own"}
    places = [own[column.column] if column.role in ("own", "before") else None for column in order.view.columns]
    columns = [
        number_grid(column) if place is None else grid[place]
        for column, place in zip(order.view.columns, places, strict=True)
    ]
    settled = {c: merged[place] for c, place in enumerate(places) if place is not None and place in merged}
    total = order.residuals.total
    _, known = learn(order.residuals, columns, total, frozenset(), settled)
    estimates: dict[tuple[int, ...], Estimate] = lifted_estimates(order.residuals, settled)
    tables: dict[tuple[int, ...], Table] = shrink_all(estimates, total, known)
    pairs = [s for s in order.view.asked if len(s) == 2]
    least = min((estimates[s].variance for s in pairs), default=1.0) if best is None else best
    lags, gaps = [], None
    for pair in pairs:
        roles = [order.view.columns[c].role for c in pair]
        if sorted(roles) != ["before", "own"]:
            continue
        before, later = pair if roles[0] == "before" else pair[::-1]
        table = tables[pair].probabilities if roles[0] == "before" else tables[pair].probabilities.T
        weight = min(max(least / estimates[pair].variance, LEAST_WEIGHT), 1.0)
        lag_before, lag_own = places[before], places[later]
        assert lag_before is not None
        assert lag_own is not None
        lags.append(LagTarget(lag_before, lag_own, np.ascontiguousarray(table), weight))
    for c, column in enumerate(order.view.columns):
        if column.role == "gap" and (c,) in tables:
            lengths = tables[(c,)].probabilities[: len(column.edges) - 1]  # without the gaps that are not known
            gaps = lengths / lengths.sum() if lengths.sum() > 0.0 else None
    return tuple(lags), gaps


def number_grid(column: ViewColumn) -> GridColumn:
    """Of a column that no table has: a number of rows, a place among siblings, a gap, which may not be known."""
    unknown = range(len(column.edges) - 1, column.size) if column.edges else ()
    return GridColumn(column.size, True, tuple(unknown))


def _shares(codes: Int32Array, weights: FloatArray, size: int, merged: Merged | None) -> FloatArray:
    if merged is not None:
        codes, size = merged.of[codes].astype(np.int32), merged.size
    found = np.bincount(codes, weights, minlength=size)
    return np.asarray(found / found.sum())
