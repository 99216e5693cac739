"""What is counted of a tree of tables: views, decided by the spec and the domains alone.

A view is a flat table that the tree is seen as; each of its rows counts some ticks (tally.py), so that a root counts
once in every view, however many rows it has there.
- `rows` of the root: a row a root. Its columns, and for each table below the number of its rows.
- `rows` of a child table: a row a row. Its own columns, those of the rows above it, how many siblings it has under its
  parent, whether it comes first of them where they are in order, and the number of rows below it.
- `order` of a child table with `order_by`: a row for two that follow each other under one parent. The own columns of
  the later one and of the one before, the gap between them, and how many siblings they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np

from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.spec.tree import Tree, TreeTable
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

Role = Literal["own", "above", "number", "siblings", "place", "before", "gap"]
Kind = Literal["rows", "order"]

EXACT_NUMBERS = 8
"""Up to as many rows under one parent are counted one by one, more in levels."""

MOST_GAPS, GAP_GROWTH = 32, 1.5
MOST_CROSSED, MOST_CROSSED_CELLS = 10, 2_500
"""Columns up to which an order view asks for pairs of different columns too, and the cells of such a pair."""


@dataclass(frozen=True)
class ViewColumn:
    """A column of a view. `table` is whose column it is (own, above, before), which child table is counted (number), or
    the view's own; `column` its number in that table's domain.

    `most`, of `number` and `siblings`: the greatest number of rows that each code stands for. `edges`, of `gap`: those
    of its bins in the units of the order column, the last one closed; where that may be null, one more code says that
    a gap is not known. `place` is 0 for the first of its siblings and 1 for the others.
    """

    role: Role
    table: str
    column: int
    size: int
    most: tuple[int, ...] = ()
    edges: tuple[float, ...] = ()

    def name(self, domains: Mapping[str, TableDomain]) -> str:
        if self.role in ("own", "above", "before"):
            named = f"{self.table}.{domains[self.table].names[self.column]}"
            return f"{named} before" if self.role == "before" else named
        return {"number": f"number of {self.table}", "siblings": f"siblings in {self.table}"}.get(self.role, self.role)


@dataclass(frozen=True)
class View:
    """A flat table that the tree is seen as; `asked` are marginals over `columns`. `order` is the number of the own
    column that orders, in an order view."""

    table: str
    kind: Kind
    columns: tuple[ViewColumn, ...]
    asked: tuple[Clique, ...]
    order: int | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns)

    def title(self, clique: Clique, domains: Mapping[str, TableDomain]) -> str:
        said = " x ".join(self.columns[i].name(domains) for i in clique)
        return said or (f"{self.table}: roots" if self.kind == "rows" else f"{self.table}: roots with two in order")


def views_of(tree: Tree, domains: Mapping[str, TableDomain]) -> tuple[View, ...]:
    """All of them, the root's first and parents before children."""
    views = []
    for table in tree.tables:
        views.append(_rows_view(table, tree, domains))
        if table.order_by is not None:
            views.append(_order_view(table, domains))
    return tuple(views)


def number_levels(max_rows: int, least: int = 0) -> tuple[int, ...]:
    """The greatest number that each code of a number of rows stands for, from `least` to `max_rows`."""
    if max_rows <= EXACT_NUMBERS:
        return tuple(range(least, max_rows + 1))
    powers = [1 << power for power in range(3, max_rows.bit_length()) if 1 << power < max_rows]
    return (*range(least, 5), *powers, max_rows)


def levels_tell(most: tuple[int, ...]) -> bool:
    """Whether a code of such a column is a single number of rows."""
    return all(high - low == 1 for low, high in pairwise(most))


def gap_edges(column: DomainColumn) -> tuple[float, ...]:
    """Of a duration in the units of an ordered column: nothing, one step, then ever longer, up to all of its range."""
    low, high = column.ends
    width = float(high - low)
    step = float(column.step) if column.step is not None else (width / 1024 if column.kind == "number" else 1.0)
    if width <= step or step <= 0:
        return (0.0, max(width, 1.0))
    steps = width / step
    growth = max(GAP_GROWTH, steps ** (1 / (MOST_GAPS - 3)))
    edges, reach = [0.0], 1.0
    while reach < steps:
        edges.append(reach * step)
        reach = max(reach + 1, math.ceil(reach * growth))
    return (*edges, width)


def gap_codes(gaps: np.ndarray, edges: tuple[float, ...]) -> np.ndarray:
    """The bin of each gap; after the last one those that are not known."""
    codes = np.searchsorted(np.array(edges[1:-1]), gaps, side="right")
    return np.where(np.isnan(gaps), len(edges) - 1, codes)


def view_facts(view: View) -> dict[str, Any]:
    """For whoever reads a stored measurement."""
    return {
        "table": view.table,
        "kind": view.kind,
        "columns": [
            {
                "role": each.role,
                "table": each.table,
                "column": each.column,
                "size": each.size,
                **({"most": list(each.most)} if each.most else {}),
                **({"edges": list(each.edges)} if each.edges else {}),
            }
            for each in view.columns
        ],
        "asked": [list(clique) for clique in view.asked],
        "order": view.order,
    }


def view_from(facts: Mapping[str, Any]) -> View:
    columns = tuple(
        ViewColumn(
            each["role"],
            each["table"],
            int(each["column"]),
            int(each["size"]),
            tuple(int(most) for most in each.get("most", ())),
            tuple(float(edge) for edge in each.get("edges", ())),
        )
        for each in facts["columns"]
    )
    return View(
        facts["table"], facts["kind"], columns, tuple(tuple(clique) for clique in facts["asked"]), facts.get("order")
    )


def _rows_view(table: TreeTable, tree: Tree, domains: Mapping[str, TableDomain]) -> View:
    columns = _columns_of("own", table.name, domains)
    for other in tree.above(table.name):
        columns += _columns_of("above", other.name, domains)
    if table.parent is not None:
        columns.append(_siblings(table))
    if table.order_by is not None and table.max_rows > 1:
        columns.append(ViewColumn("place", table.name, 0, 2))
    for child in tree.children(table.name):
        most = number_levels(child.max_rows, 1 if table.implied else 0)
        columns.append(ViewColumn("number", child.name, 0, len(most), most))
    asked = [pair for pair in combinations(range(len(columns)), 2) if any(_is_new(columns[i]) for i in pair)]
    return View(table.name, "rows", tuple(columns), tuple(asked))


def _order_view(table: TreeTable, domains: Mapping[str, TableDomain]) -> View:
    domain = domains[table.name]
    order = domain.index(str(table.order_by))
    ordering = domain.columns[order]
    edges = gap_edges(ordering)
    own, before = (_columns_of(role, table.name, domains) for role in ("own", "before"))
    gap, siblings = 2 * len(own), 2 * len(own) + 1
    columns = [*own, *before, ViewColumn("gap", table.name, order, len(edges) - 1 + ordering.nullable, edges=edges)]
    columns.append(_siblings(table))
    asked = [(i, len(own) + i) for i in range(len(own))]
    if len(own) <= MOST_CROSSED:
        asked += [
            (i, len(own) + j)
            for i in range(len(own))
            for j in range(len(own))
            if i != j and order not in (i, j) and own[i].size * own[j].size <= MOST_CROSSED_CELLS
        ]
    asked += [(i, gap) for i in range(len(own)) if i != order] + [(gap, siblings)]
    return View(table.name, "order", tuple(columns), tuple(sorted(asked)), order)


def _columns_of(role: Role, table: str, domains: Mapping[str, TableDomain]) -> list[ViewColumn]:
    return [ViewColumn(role, table, i, size) for i, size in enumerate(domains[table].sizes)]


def _siblings(table: TreeTable) -> ViewColumn:
    most = number_levels(table.max_rows, 1)
    return ViewColumn("siblings", table.name, 0, len(most), most)


def _is_new(column: ViewColumn) -> bool:
    """Whether it is first seen in this view: what is above was measured there."""
    return column.role in ("own", "number")
