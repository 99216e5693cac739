"""Estimates as a table for SQL: every one-way and two-way group-by that was measured, with interval columns.

A target that is a database puts it beside the rows, as `<table>_estimates`. It is computed from what the release
carries and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from understudy.pipelines.counting.released import counts_entities
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.axes import group_value
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.intervals import deviations
from understudy.pipelines.inference.sums import Grouping, sums
from understudy.pipelines.inference.tree_verdict import counted_in, judged
from understudy.pipelines.inference.tree_views import told_tree
from understudy.pipelines.methods.tree.released import released_tree
from understudy.pipelines.publishing.manifest import ReleaseFile
from understudy.pipelines.publishing.measured import read_measured, told_of
from understudy.pipelines.publishing.measured_tree import MeasuredTree, read_measured_tree

FloatArray = npt.NDArray[np.float64]
NAME = "estimates"
"""What the table is called in a release of several tables, where none of them is called so."""

MOST_ROWS = 200_000
"""The narrowest tables first, as many as fit."""


def estimates_of(files: Sequence[ReleaseFile]) -> pa.Table | None:
    """From the files of `measured/`; None where there are none."""
    contents = {file.path: file.content for file in files}
    tree = read_measured_tree(contents.get)
    if tree is not None:
        return tree_estimates(tree)
    measured = read_measured(contents.get)
    if measured is None:
        return None
    counted = "entities" if counts_entities(measured.measurement) else "rows"
    return estimates_table(told_of(measured), counted)


def estimates_table(told: Told, counted: str = "rows") -> pa.Table:
    """Values are text, as `understudy ask` calls groups; `low` to `high` hold the table's own count 95 times in 100."""
    return _narrowest([(told, clique) for clique in told.residuals.by_clique if len(clique) in (1, 2)], counted)


def tree_estimates(measured: MeasuredTree) -> pa.Table | None:
    """Of several tables: what the verdict judges, by columns' full names. None where one of the tables is itself called
    so."""
    if NAME in measured.tree.names:
        return None
    released, ticks = released_tree(measured.measurement), int(measured.measurement.facts["ticks"])
    told = told_tree(released, measured.tree, measured.domains, ticks)
    wanted = [(view.told({}), tuple(clique)) for view in told.views for clique in judged(view.view)]
    return _narrowest(wanted, counted_in(measured.tree))


def _narrowest(wanted: Sequence[tuple[Told, Clique]], counted: str) -> pa.Table:
    def cells(told: Told, clique: Clique) -> int:
        return math.prod(told.residuals.sizes[c] for c in clique)

    room, parts = MOST_ROWS, []
    for told, clique in sorted(wanted, key=lambda each: (len(each[1]), cells(*each), each[1])):
        room -= cells(told, clique)
        if room < 0:
            break
        parts.append(_part(told, clique, counted))
    return pa.concat_tables(parts)


def _part(told: Told, clique: Clique, counted: str) -> pa.Table:
    columns = [told.columns[c] for c in clique]
    labels = [[_text(group_value(column, code)) for code in range(column.size)] for column in columns]
    shape = [told.residuals.sizes[c] for c in clique]
    cells, z = math.prod(shape), deviations(LEVEL)
    places = [axis.ravel() for axis in np.indices(shape)]
    found = sums(told.residuals, clique, np.ones((1, *shape)), Grouping(outer=clique))
    flat, variance, with_total = found.values[:, 0, 0], found.noise[:, 0, 0, 0, 0], found.of_total[:, 0, 0]
    off = z * np.sqrt(variance)
    total, of_total = told.residuals.total, told.residuals.by_clique[()].std ** 2
    low, high = _shares(flat, total, variance, with_total * of_total, of_total, z)
    first, second = (
        pa.array([labels[place][code] for code in places[place]], pa.string())
        if place < len(clique)
        else pa.nulls(cells, pa.string())
        for place in (0, 1)
    )
    names = [column.name for column in columns]
    return pa.table(
        {
            "grouped_by": pa.array([", ".join(names)] * cells, pa.string()),
            "column_1": pa.array([names[0]] * cells, pa.string()),
            "value_1": first,
            "column_2": pa.array([names[1] if len(names) > 1 else None] * cells, pa.string()),
            "value_2": second,
            "counted": pa.array([counted] * cells, pa.string()),
            "estimate": np.maximum(flat, 0.0),
            "low": np.maximum(flat - off, 0.0),
            "high": np.maximum(flat + off, 0.0),
            "share": np.clip(flat / total, 0.0, 1.0) if total > 0 else np.zeros(cells),
            "share_low": low,
            "share_high": high,
        }
    )


def _shares(
    counts: FloatArray, total: float, own: FloatArray, both: FloatArray, of_total: float, z: float
) -> tuple[FloatArray, FloatArray]:
    """Fieller's interval of counts / total, cut to what a share can be; all of it where the total may be zero."""
    square = total**2 - z**2 * of_total
    if square <= 0:
        return np.zeros_like(counts), np.ones_like(counts)
    middle = (counts * total - z**2 * both) / square
    inside = np.maximum(middle**2 - (counts**2 - z**2 * own) / square, 0.0)
    return np.clip(middle - np.sqrt(inside), 0.0, 1.0), np.clip(middle + np.sqrt(inside), 0.0, 1.0)


def _text(value: object) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)
