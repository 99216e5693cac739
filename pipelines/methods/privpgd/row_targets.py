"""Targets for rows where entities were counted: entities' tables carried over to rows by their levels.

Method: tables of entities are estimated and shrunk as those of rows are, columns by level towards a trend. Of a
marginal and the level together nothing was measured; the table of greatest entropy with that marginal and with each of
its columns' tables by level is the least that they say (iterative proportional fitting). Each level of it times the
rows of an entity in that level, summed over levels, is the marginal of rows. So rows differ from entities as far as
the columns themselves were measured to depend on the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.methods.privpgd.learning import learn, with_focus
from understudy.pipelines.methods.privpgd.level_tables import shrink_by_trend, shrink_in_groups
from understudy.pipelines.methods.privpgd.merging import Merged
from understudy.pipelines.methods.privpgd.problem import GridColumn
from understudy.pipelines.methods.privpgd.projection import FITTING_ROUNDS, TOLERANCE
from understudy.pipelines.methods.privpgd.shrinkage import Table, shrink_all
from understudy.pipelines.methods.privpgd.targets import LEAST_WEIGHT, Target, Targets, lifted_estimates

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowTable:
    """A marginal as a probability table of rows, and by how much it outweighs that of entities in each cell."""

    probabilities: FloatArray
    over_entities: FloatArray
    variance: float


def row_targets(
    counted: EntityResiduals,
    columns: Sequence[GridColumn],
    whole: frozenset[int] = frozenset(),
    focus: frozenset[int] = frozenset(),
) -> Targets:
    """What rows should look like, over the columns without the level. Columns of `whole` are not merged; pairs with one
    of `focus` are told together.
    """
    tables, merged = row_tables(counted, columns, whole, focus)
    measured = [clique for clique in tables if len(clique) > 1]
    variances = {s: max(counted.residuals.variance(s), 1e-300) * _outweighed(tables[s]) for s in measured}
    best = min(variances.values(), default=1.0)
    joint = tuple(
        Target(s, tables[s].probabilities, max(best / variances[s], LEAST_WEIGHT), tables[s].variance)
        for s in measured
        if not any(set(s) < set(other) for other in measured)
    )
    single = tuple(Target((c,), tables[(c,)].probabilities, 1.0, tables[(c,)].variance) for c in range(counted.level))
    return Targets(joint, single, {(s[0], s[1]): tables[s].probabilities for s in measured if len(s) == 2}, merged)


def row_tables(
    counted: EntityResiduals,
    columns: Sequence[GridColumn],
    whole: frozenset[int] = frozenset(),
    focus: frozenset[int] = frozenset(),
) -> tuple[dict[Clique, RowTable], dict[int, Merged]]:
    """Of every marginal that was asked for, and of its parts, over merged codes where a column has any."""
    tables, merged = _shrunk(counted, columns, whole, focus)
    levels = tables[(counted.level,)].probabilities
    outweighs = counted.rows_each / float(levels @ counted.rows_each)
    cliques = [clique for clique in tables if counted.level not in clique]
    return {clique: _of_rows(clique, tables, counted.level, outweighs) for clique in cliques}, merged


def _shrunk(
    counted: EntityResiduals, columns: Sequence[GridColumn], whole: frozenset[int], focus: frozenset[int]
) -> tuple[dict[Clique, Table], dict[int, Merged]]:
    """Tables of entities, with and without the level."""
    entities, level = counted.entities, counted.level
    if entities < 1.0:
        return shrink_all(lifted_estimates(counted.residuals), entities), {}
    grid = [*columns, GridColumn(len(counted.rows_each), True)]
    merged, known = learn(counted.residuals, grid, entities, whole | {level})
    estimates = lifted_estimates(counted.residuals, merged)
    tables = shrink_all(estimates, entities, with_focus(known, grid, focus))
    levels, scores = tables[(level,)].probabilities, np.log2(counted.rows_each)
    for column in range(level):
        pair, own = (column, level), tables[(column,)].probabilities
        if pair in known.nested:
            tables[pair] = shrink_in_groups(known.nested[pair], own, levels, scores)
            continue
        observed, variance = estimates[pair].counts / entities, estimates[pair].variance / entities**2
        tables[pair] = shrink_by_trend(observed, variance, own, levels, scores, known.members.get(column))
    return tables, merged


def _of_rows(clique: Clique, tables: Mapping[Clique, Table], level: int, outweighs: FloatArray) -> RowTable:
    entities = tables[clique].probabilities
    rows = _by_level(clique, tables, level, outweighs)
    ratio = np.divide(rows, entities, out=np.ones_like(rows), where=entities > 0.0)
    return RowTable(rows, ratio, tables[clique].variance * float(np.square(ratio).mean()))


def _by_level(clique: Clique, tables: Mapping[Clique, Table], level: int, outweighs: FloatArray) -> FloatArray:
    """The marginal's table by level, each level times what it outweighs, summed over levels."""
    measured = tables.get((*clique, level))
    if measured is not None:
        return np.asarray(measured.probabilities @ outweighs)
    return carried_over(tables[clique].probabilities, [tables[(c, level)].probabilities for c in clique], outweighs)


def carried_over(entities: FloatArray, by_level: Sequence[FloatArray], outweighs: FloatArray) -> FloatArray:
    """Sum over l of outweighs_l P(., l), P of greatest entropy with the marginal `entities` and (axis, level) tables.

    P = entities prod_i f_i(c_i, l) / Z, Z summing over levels: it is fitted by its factors, and never made as a whole.
    """
    factors = [_shares_of(table, table.sum(axis=1)) for table in by_level]
    axes = [chr(ord("a") + axis) for axis in range(entities.ndim)]
    joined = ",".join(f"{axis}z" for axis in axes)

    def mixed(levels: FloatArray) -> FloatArray:
        return np.asarray(np.einsum(f"{joined},z->{''.join(axes)}", *factors, levels, optimize=True))

    every = np.ones(len(outweighs))
    for _ in range(FITTING_ROUNDS):
        worst = 0.0
        for place, axis in enumerate(axes):
            left = _shares_of(entities, mixed(every))
            others = [factor for other, factor in enumerate(factors) if other != place]
            told = ",".join(["".join(axes), *(f"{other}z" for other in axes if other != axis), "z"])
            current = factors[place] * np.einsum(f"{told}->{axis}z", left, *others, every, optimize=True)
            worst = max(worst, float(np.abs(current - by_level[place]).sum()))
            factors[place] = factors[place] * _shares_of(by_level[place], current)
        if worst < TOLERANCE:
            break
    rows = entities * _shares_of(mixed(outweighs), mixed(every))
    mass = float(rows.sum())
    return rows / mass if mass > 0.0 else entities


def _shares_of(part: FloatArray, whole: FloatArray) -> FloatArray:
    """part / whole, and 0 where there is nothing; `whole` may lack the last axes of `part`."""
    whole = np.broadcast_to(whole.reshape(whole.shape + (1,) * (part.ndim - whole.ndim)), part.shape)
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0)


def _outweighed(table: RowTable) -> float:
    return math.fsum(np.square(table.over_entities).ravel()) / table.over_entities.size
