"""A measured tree as questions see it: each view a table whose columns have names, and which view a question is of.

A column is called by its table, `visits.ward`, or by itself where no other table has one of that name. Beside those of
the tables there are
    visits.number          how many rows of visits a row of its parent has
    visits.place           whether a row is the first of its parent's, or later, where they are in order
    visits.previous.ward   the ward of the row before
    visits.gap             the step from the row before: days of a date or a moment, else the column's own units
Where a table has a column of such a name, it is `visits.the number` and so on.
In every view each root counts once, and its rows weigh alike. Of several views the one of the highest table that has
all columns answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.tree.views import Role, View, ViewColumn
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.question_sums import Told
from understudy.pipelines.inference.residuals import ROUNDING
from understudy.pipelines.methods.tree.released import ReleasedTree
from understudy.pipelines.spec.tree import Tree
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

DAY = 86_400_000_000
"""Microseconds."""

IN_ORDER: tuple[Role, ...] = ("place", "before", "gap")
"""What is of rows that follow each other."""


@dataclass(frozen=True, eq=False)
class ToldView:
    """A view with its residuals in roots, and its columns by their full names."""

    view: View
    residuals: Residuals
    columns: tuple[DomainColumn, ...]

    @property
    def table(self) -> str:
        return self.view.table

    @cached_property
    def places(self) -> dict[str, int]:
        return {column.name: place for place, column in enumerate(self.columns)}

    def told(self, called: Mapping[str, str]) -> Told:
        """As one question sees it, which calls columns as it likes."""
        names = {full: name for name, full in called.items()}
        return Told(self.residuals, tuple(replace(each, name=names.get(each.name, each.name)) for each in self.columns))


@dataclass(frozen=True, eq=False)
class ToldTree:
    tree: Tree
    views: tuple[ToldView, ...]
    published: tuple[str, ...] = ()
    """Columns that rows have, in full, measured or not."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """In full, those of the root's view first."""
        return tuple(dict.fromkeys(name for view in self.views for name in view.places))

    def called(self, names: Sequence[str]) -> dict[str, str]:
        """What each of these names is called in full; SpecError where it may be several columns, or two are one."""
        found = {name: self._full(name) for name in names}
        for name, full in found.items():
            other = next((each for each in names if each != name and found[each] == full), None)
            if other is not None:
                raise SpecError(f"{name} and {other} are one column", "write it one way")
        return found

    def _full(self, name: str) -> str:
        every = dict.fromkeys((*self.names, *self.published))
        if name in every:
            return name
        meant = [full for full in every if full.partition(".")[2] == name]
        if len(meant) > 1:
            raise SpecError(f"{name!r} may be {' or '.join(meant)}", "name its table, too")
        return meant[0] if meant else name

    def views_with(self, full: Sequence[str]) -> list[ToldView]:
        """Those that have all these columns, the highest first."""
        return [view for view in self.views if all(name in view.places for name in full)]

    def table_of(self, full: Sequence[str]) -> str | None:
        """The lowest table whose rows these columns are of, the root's where there are none; None where they are of
        two that hang side by side."""
        tables = {self._table(name) for name in full} or {self.tree.root.name}
        for table in tables:
            if tables <= {table, *(above.name for above in self.tree.above(table))}:
                return table
        return None

    @cached_property
    def roles(self) -> dict[str, Role]:
        """What each column is, in the first view that has it."""
        found: dict[str, Role] = {}
        for view in self.views:
            for name, column in zip(view.places, view.view.columns, strict=True):
                found.setdefault(name, column.role)
        return found

    def _table(self, full: str) -> str:
        """Whose rows have it: how many rows a table has below a row, that row has."""
        name = full.partition(".")[0]
        if name not in self.tree.names:
            return self.tree.root.name
        return (self.tree.table(name).parent or name) if self.roles.get(full) in ("number", "siblings") else name


def told_tree(
    released: ReleasedTree,
    tree: Tree,
    domains: Mapping[str, TableDomain],
    ticks: int,
    published: Sequence[str] = (),
) -> ToldTree:
    """`ticks` to a root: what is rounded when noise is drawn is a tick."""
    views = []
    for each in released.views:
        columns = tuple(described(column, domains) for column in each.view.columns)
        views.append(ToldView(each.view, _with_rounding(each.residuals, ticks), columns))
    return ToldTree(tree, tuple(views), tuple(published))


def full_name(column: ViewColumn, domains: Mapping[str, TableDomain]) -> str:
    if column.role in ("own", "above"):
        return f"{column.table}.{domains[column.table].names[column.column]}"
    match column.role:
        case "before":
            name = f"previous.{domains[column.table].names[column.column]}"
        case "siblings":
            name = "number"
        case _:
            name = column.role
    return f"{column.table}.{name}" if name not in domains[column.table].names else f"{column.table}.the {name}"


def described(column: ViewColumn, domains: Mapping[str, TableDomain]) -> DomainColumn:
    name = full_name(column, domains)
    match column.role:
        case "number" | "siblings":
            edges = (column.most[0], *(most + 1 for most in column.most))
            return DomainColumn(name, "integer", (), edges, False, False, True)
        case "place":
            return DomainColumn(name, "category", ("first", "later"), (), False, False, True)
        case "gap":
            return _gap(name, column, domains[column.table].columns[column.column])
        case _:
            return replace(domains[column.table].columns[column.column], name=name)


def _gap(name: str, column: ViewColumn, ordering: DomainColumn) -> DomainColumn:
    nullable = column.size == len(column.edges)
    if ordering.kind in ("date", "integer"):
        edges = tuple(int(edge) for edge in column.edges)
        return DomainColumn(name, "integer", (), (*edges[:-1], edges[-1] + 1), False, nullable, True)
    unit = DAY if ordering.kind == "datetime" else 1
    return DomainColumn(name, "number", (), tuple(edge / unit for edge in column.edges), False, nullable, True)


def _with_rounding(told: Residuals, ticks: int) -> Residuals:
    found = {}
    for clique, residual in told.by_clique.items():
        cells = ticks * math.prod(told.sizes[column] for column in clique)
        found[clique] = Residual(residual.counts, math.sqrt(residual.std**2 + ROUNDING / cells**2))
    return replace(told, by_clique=found)
