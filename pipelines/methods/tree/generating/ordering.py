"""Values that rules put in order, `visits.date` not before `patients.born`, kept so within the bins of their rows.

Codes obey the rules already: in bins of two columns that a rule orders there are values in the right order. Those that
came out in the wrong one are drawn again, as whoever rejects them would; columns by which siblings lie in order stay as
they are. What is still wrong after that is moved: first down, as far as what must not lie below asks, then up, as far
as what must not lie above does. Siblings stay in order, and no value leaves its bin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.coding.placing import place, tilts
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tree_rules import Place, in_order

FloatArray = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]

MOST_REDRAWS = 20

Values = dict[Place, FloatArray]
"""In the units of the column; nan where there is none."""


@dataclass(frozen=True, eq=False)
class _Link:
    """Two columns of which the first must not exceed the second: of every row of the lower table, the rows of both."""

    first: Place
    second: Place
    first_rows: Int64Array
    second_rows: Int64Array

    def wrong(self, values: Values) -> Int64Array:
        return np.flatnonzero(values[self.first][self.first_rows] > values[self.second][self.second_rows])


@dataclass(frozen=True, eq=False)
class _Line:
    """A column whose values are moved. `family` is told where siblings lie in order of it."""

    column: DomainColumn
    codes: Int64Array
    family: Int64Array | None

    def drawn(self, rows: Int64Array, rng: np.random.Generator) -> FloatArray:
        known = self.codes[self.codes < self.column.value_codes]
        return place(self.codes[rows], self.column, tilts(known, self.column), rng).astype(np.float64)

    def highest(self, values: FloatArray) -> FloatArray:
        """Of each bin, or the value if that lies above; endless where there is no value."""
        _, highs = self.column.intervals()
        last = np.where(self.column.is_spike, highs, highs - (0 if self.column.kind == "number" else 1))
        within = last[np.minimum(self.codes, self.column.value_codes - 1)]
        return np.where(np.isnan(values), np.inf, np.fmax(within, values))

    def down(self, values: FloatArray) -> FloatArray:
        """To the next value that may be published."""
        return values if self._step is None else np.floor(values / self._step + 1e-9) * self._step

    def up(self, values: FloatArray) -> FloatArray:
        return values if self._step is None else np.ceil(values / self._step - 1e-9) * self._step

    @property
    def _step(self) -> float | None:
        if self.column.step is not None:
            return float(self.column.step)
        return None if self.column.kind == "number" else 1.0

    def not_above_later(self, values: FloatArray) -> FloatArray:
        if self.family is None:
            return values
        return np.asarray(pd.Series(values[::-1]).groupby(self.family[::-1]).cummin())[::-1]

    def not_below_earlier(self, values: FloatArray) -> FloatArray:
        if self.family is None:
            return values
        return np.asarray(pd.Series(values).groupby(self.family).cummax())


def keep_order(
    values: Values,
    orders: Sequence[tuple[Place, Place]],
    made: TreeCodes,
    tree: Tree,
    domains: Mapping[str, TableDomain],
    rng: np.random.Generator,
) -> None:
    """Change the values of the columns in `orders`, in place, until none is above one that it must not exceed."""
    links = [_link(first, second, made, tree) for first, second in orders]
    lines = {place: _line(place, made, tree, domains) for pair in orders for place in pair}
    for _ in range(MOST_REDRAWS):
        if not any(_redrawn(link, values, lines, rng) for link in links):
            break
    if any(len(link.wrong(values)) for link in links):
        _moved(values, links, lines, in_order(orders))


def _redrawn(link: _Link, values: Values, lines: Mapping[Place, _Line], rng: np.random.Generator) -> bool:
    """Draw what is in the wrong order again, where it may be; whether anything was."""
    wrong, found = link.wrong(values), False
    if not len(wrong):
        return False
    for key, rows in ((link.first, link.first_rows[wrong]), (link.second, link.second_rows[wrong])):
        if lines[key].family is None:
            again = np.unique(rows)
            values[key][again] = lines[key].drawn(again, rng)
            found = True
    return found


def _moved(values: Values, links: Sequence[_Link], lines: Mapping[Place, _Line], ordered: Sequence[Place]) -> None:
    upper: Values = {}
    for key in reversed(ordered):
        bound = lines[key].highest(values[key])
        for link in (link for link in links if link.first == key):
            np.minimum.at(bound, link.first_rows, upper[link.second][link.second_rows])
        upper[key] = lines[key].down(lines[key].not_above_later(bound))
        values[key] = np.minimum(values[key], upper[key])
    for key in ordered:
        bound = np.full(len(values[key]), -np.inf)
        for link in (link for link in links if link.second == key):
            asked = values[link.first][link.first_rows]
            np.maximum.at(bound, link.second_rows, np.where(np.isnan(asked), -np.inf, asked))
        values[key] = lines[key].not_below_earlier(np.maximum(values[key], lines[key].up(bound)))


def _link(first: Place, second: Place, made: TreeCodes, tree: Tree) -> _Link:
    lower = first[0] if second[0] in {first[0], *(each.name for each in tree.above(first[0]))} else second[0]
    rows = [made.ancestors(lower, table, tree) for table, _ in (first, second)]
    return _Link(first, second, *rows)


def _line(key: Place, made: TreeCodes, tree: Tree, domains: Mapping[str, TableDomain]) -> _Line:
    table, number = key
    column = domains[table].columns[number]
    orders = tree.table(table).order_by == column.name
    return _Line(column, made.codes[table][:, number].astype(np.int64), made.parent[table] if orders else None)
