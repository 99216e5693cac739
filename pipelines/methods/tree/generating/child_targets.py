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
from understudy.pipelines.methods.privpgd.level_tables import shrink_by_trend
from understudy.pipelines.methods.privpgd.merging import Merged
from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.reconcile import Estimate
from understudy.pipelines.methods.privpgd.shrinkage import Table, shrink_all
from understudy.pipelines.methods.privpgd.start import mutual_information
from understudy.pipelines.methods.privpgd.targets import (
    LEAST_WEIGHT,
    Targets,
    assembled,
    lifted_estimates,
    uniform_targets,
)
from understudy.pipelines.methods.tree.generating.fitting import LagTarget
from understudy.pipelines.methods.tree.generating.gap_codes import beside_gaps, led_by_gaps, surprise_of
from understudy.pipelines.methods.tree.generating.moments import GapTarget
from understudy.pipelines.methods.tree.generating.numbers import numbers_in
from understudy.pipelines.methods.tree.released import ReleasedView
from understudy.pipelines.table.columns import DomainColumn

MOST_GAP_TABLES = 3
FEWEST_LEVELS = 3
"""Numbers of siblings that have a trend."""

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ChildTargets:
    """`gaps` are tables of the gap between neighbours, by columns of the later one, where that was measured."""

    rows: Targets
    lags: tuple[LagTarget, ...] = ()
    gaps: tuple[GapTarget, ...] = ()


def child_targets(
    rows: ReleasedView,
    order: ReleasedView | None,
    grid: Sequence[GridColumn],
    given: Mapping[int, Int32Array],
    weights: FloatArray,
    whole: frozenset[int],
    ordering: DomainColumn | None = None,
) -> ChildTargets:
    """`given` are the codes of the columns that are settled, of all rows, and `weights` what these weigh.

    `grid` are the columns of the view of rows. Those of `whole` are not merged. `ordering` puts siblings in order.
    """
    sizes = [column.size for column in grid]
    total = rows.residuals.total
    if total < 1.0 or not len(weights):
        return ChildTargets(uniform_targets(sizes))
    merged, known = learn(rows.residuals, grid, total, whole)
    settled = {c: _shares(codes, weights, sizes[c], merged.get(c)) for c, codes in given.items()}
    known = replace(known, columns={**known.columns, **settled})
    estimates = lifted_estimates(rows.residuals, merged)
    tables = shrink_all(estimates, total, known)
    tables |= _by_siblings(rows, estimates, tables, merged)
    targets = assembled(tables, estimates, rows.view.asked, sizes, merged)
    if order is None or order.residuals.total < 1.0:
        return ChildTargets(targets)
    best = min((estimates[s].variance for s in rows.view.asked if len(s) > 1), default=None)
    return ChildTargets(targets, *_neighbours(rows, order, grid, merged, best, ordering))


def _by_siblings(
    rows: ReleasedView,
    estimates: Mapping[tuple[int, ...], Estimate],
    tables: Mapping[tuple[int, ...], Table],
    merged: Mapping[int, Merged],
) -> dict[tuple[int, ...], Table]:
    """Columns by the number of siblings, shrunk towards a trend (`privpgd.level_tables`): large families are few roots
    and many rows, so what is known of them least matters most."""
    total, found = rows.residuals.total, dict[tuple[int, ...], Table]()
    for place, column in enumerate(rows.view.columns):
        if column.role != "siblings" or column.size < FEWEST_LEVELS:
            continue
        scores = np.log2([(numbers[0] + numbers[-1]) / 2 for numbers in numbers_in(column.most)])
        levels = tables[(place,)].probabilities
        for pair in rows.view.asked:
            other = [c for c in pair if c != place]
            if len(pair) != 2 or len(other) != 1 or other[0] in merged:
                continue
            observed = estimates[pair].counts / total
            observed = observed.T if pair[0] == place else observed
            own = tables[(other[0],)].probabilities
            table = shrink_by_trend(observed, estimates[pair].variance / total**2, own, levels, scores)
            turned = table.probabilities.T if pair[0] == place else table.probabilities
            found[pair] = Table(np.ascontiguousarray(turned), table.variance)
    return found


def _neighbours(
    rows: ReleasedView,
    order: ReleasedView,
    grid: Sequence[GridColumn],
    merged: Mapping[int, Merged],
    best: float | None,
    ordering: DomainColumn | None,
) -> tuple[tuple[LagTarget, ...], tuple[GapTarget, ...]]:
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
    lags = []
    for pair in pairs:
        roles = [order.view.columns[c].role for c in pair]
        if sorted(roles) != ["before", "own"]:
            continue
        before, later = pair if roles[0] == "before" else pair[::-1]
        table = tables[pair].probabilities if roles[0] == "before" else tables[pair].probabilities.T
        surprise = None
        if order.view.columns[later].column == order.view.columns[before].column == order.view.order:
            counts = estimates[pair].counts if roles[0] == "before" else estimates[pair].counts.T
            led = _by_gaps(table, counts, estimates[pair].variance, total, order, tables, ordering)
            if led is not None:
                table, surprise = led, surprise_of(led, total)
        weight = min(max(least / estimates[pair].variance, LEAST_WEIGHT), 1.0)
        lag_before, lag_own = places[before], places[later]
        assert lag_before is not None
        assert lag_own is not None
        lags.append(LagTarget(lag_before, lag_own, np.ascontiguousarray(table), weight, surprise))
    return tuple(lags), _gap_tables(rows, order, tables, places, merged)


def _by_gaps(
    table: FloatArray,
    counts: FloatArray,
    variance: float,
    total: float,
    order: ReleasedView,
    tables: Mapping[tuple[int, ...], Table],
    ordering: DomainColumn | None,
) -> FloatArray | None:
    """The pair of neighbours' bins as far as gaps tell it; what is not known of either stays as it was."""
    gap = next((c for c, column in enumerate(order.view.columns) if column.role == "gap"), None)
    if gap is None or ordering is None or not ordering.edges or len(table) != ordering.size:
        return None
    edges, known = np.array(order.view.columns[gap].edges), ordering.value_codes
    gaps, block = tables[(gap,)].probabilities[: len(edges) - 1], table[:known, :known]
    mass = float(block.sum())
    if mass <= 0.0 or gaps.sum() <= 0.0:
        return None
    led = led_by_gaps(block.sum(axis=1) / mass, block.sum(axis=0) / mass, gaps / gaps.sum(), edges, ordering)
    found = table.copy()
    found[:known, :known] = mass * beside_gaps(led, counts[:known, :known], variance, total * mass)
    return found


def _gap_tables(
    rows: ReleasedView,
    order: ReleasedView,
    tables: Mapping[tuple[int, ...], Table],
    places: Sequence[int | None],
    merged: Mapping[int, Merged],
) -> tuple[GapTarget, ...]:
    """The gap by itself, and by those columns of the later row that tell most of it."""
    siblings = next((c for c, column in enumerate(rows.view.columns) if column.role == "siblings"), None)
    found = []
    for gap, column in enumerate(order.view.columns):
        if column.role != "gap":
            continue
        known = len(column.edges) - 1  # and one more for gaps that are not known
        edges = np.array(column.edges)
        found.append((0.0, GapTarget(None, edges, tables[(gap,)].probabilities[None, :known])))
        for pair in order.view.asked:
            if gap not in pair or len(pair) != 2:
                continue
            other = pair[0] if pair[1] == gap else pair[1]
            place = siblings if order.view.columns[other].role == "siblings" else places[other]
            if place is None or place in merged or order.view.columns[other].role == "before":
                continue
            table = tables[pair].probabilities if pair[1] == gap else tables[pair].probabilities.T
            found.append((mutual_information(table), GapTarget(place, edges, table[:, :known])))
    alone, by = [each for _, each in found[:1]], sorted(found[1:], key=lambda told: -told[0])
    return tuple(alone + [each for told, each in by[:MOST_GAP_TABLES] if told > 0.0])


def number_grid(column: ViewColumn) -> GridColumn:
    """Of a column that no table has: a number of rows, a place among siblings, a gap, which may not be known."""
    unknown = range(len(column.edges) - 1, column.size) if column.edges else ()
    return GridColumn(column.size, True, tuple(unknown))


def _shares(codes: Int32Array, weights: FloatArray, size: int, merged: Merged | None) -> FloatArray:
    if merged is not None:
        codes, size = merged.of[codes].astype(np.int32), merged.size
    found = np.bincount(codes, weights, minlength=size)
    return np.asarray(found / found.sum())
