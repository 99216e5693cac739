"""Several tables that belong together: a root and tables below it, each row of which belongs to a row of its parent.

    tables:
      patients: {source: {table: patients}, key: patient_id, columns: {...}}
      visits: {source: {table: visits}, key: visit_id, parent: {table: patients, by: patient_id}, max_rows: 24, ...}

The unit is one root with everything below it. A flat table whose unit has `columns` or `order_by` is such a tree too:
its implied root is the entity, with the columns that are constant for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, field_validator, model_validator

from understudy.pipelines.spec.address import check_address
from understudy.pipelines.spec.columns import IdentifierColumn, TensorColumn
from understudy.pipelines.spec.dates import DateColumn, DatetimeColumn
from understudy.pipelines.spec.derived import Column, DerivedColumn, LookupColumn, tagged
from understudy.pipelines.spec.dialect import CsvDialect
from understudy.pipelines.spec.numbers import IntegerColumn, NumberColumn
from understudy.pipelines.spec.open import OpenColumn
from understudy.pipelines.spec.public import Public, later
from understudy.pipelines.spec.source import SourceSpec

MOST_TABLES = 50
MOST_ROWS = 100_000
"""Of one table that a root may have: the product of the bounds on the way to it."""

ENTITIES, ROWS = "entities", "rows"
"""The tables of a flat table with entities."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")
_OWN = ("table", "csv", "quoted_newlines", "external")


class ParentSpec(Public):
    table: str = Field(min_length=1, max_length=60, description="the table whose rows these belong to")
    by: str = Field(min_length=1, max_length=200, description="the column that holds the key of the parent's row")


class TableSourceSpec(Public):
    """Where one of several tables is; what is left out is as the release's `source` says."""

    uri: str | None = later(description="where it is, if not where the release's source is", max_length=2000)
    table: str | None = later(description="table or view name, where the source is a database", max_length=200)
    quoted_newlines: bool | None = later(description="CSV: a quoted field may hold line breaks")
    csv: CsvDialect | None = later(description="CSV: how the file is written")
    external: bool | None = later(description="DuckDB: a view may read files and other databases")

    @field_validator("uri")
    @classmethod
    def _public_address(cls, uri: str | None) -> str | None:
        return None if uri is None else check_address(uri, "source.uri")

    def within(self, whole: SourceSpec, table: str) -> SourceSpec:
        """The source of this table by itself. Another address brings its own options."""
        said = {key: value for key in ("uri", *_OWN) if (value := getattr(self, key)) is not None}
        inherited = whole.model_dump(exclude=set(_OWN) if self.uri is not None else {"table"})
        named = {"id": f"{whole.id[: 98 - len(table)]}.{table}"} if whole.id is not None else {}
        return SourceSpec.model_validate({**inherited, **said, **named})


class TableSpec(Public):
    """One of several tables: where it is, whose rows its rows are, and what its columns can hold."""

    source: TableSourceSpec = Field(TableSourceSpec(), description="where it is; what is left out is as in `source`")
    key: str | None = Field(
        None, min_length=1, max_length=200, description="the column that tells its rows apart; published as fresh ids"
    )
    parent: ParentSpec | None = Field(None, description="whose rows these are; the root has none")
    max_rows: int | None = Field(
        None, ge=1, le=MOST_ROWS, description="rows kept for one row of the parent; the rest are dropped"
    )
    order_by: str | None = Field(
        None, description="the date or number by which rows of one parent come one after other"
    )
    share: float | None = Field(None, gt=0, lt=1, description="part of the budget, in squared noise, for this table")
    columns: dict[str, Column] = Field(max_length=2000, description="what each column can hold")

    @field_validator("parent", mode="before")
    @classmethod
    def _one_parent(cls, given: Any) -> Any:
        if isinstance(given, list | tuple):
            raise ValueError(
                "a table has one parent: a row of two parents would count for two people, and noise for one would not "
                "hide it. Name the one that leads to whoever is protected, and declare the other key as a category"
            )
        return given

    @field_validator("columns", mode="before")
    @classmethod
    def _column_names(cls, columns: Any) -> Any:
        return checked_columns(columns)

    @model_validator(mode="after")
    def _coherent(self) -> TableSpec:
        if self.parent is not None and self.max_rows is None:
            raise ValueError("max_rows is missing: how many of its rows may count for one row of the parent")
        if self.parent is None and (self.max_rows is not None or self.order_by is not None):
            raise ValueError("max_rows and order_by are for rows of a parent, and this table has none")
        if self.parent is not None and self.parent.by == self.key:
            raise ValueError("key and parent.by are one column; a table without tables below it needs no key")
        for name, column in self.columns.items():
            if isinstance(column, TensorColumn):
                raise ValueError(f"{name!r}: tensors cannot be copied in a release of several tables")
        for name in self.key_columns:
            if not isinstance(self.columns.get(name, IdentifierColumn(type="identifier")), IdentifierColumn):
                raise ValueError(f"the key column {name!r} cannot be modelled; leave it out of `columns`")
        if all(_is_not_modelled(column) for column in self.columns.values()):
            raise ValueError("no column is modelled; declare at least one that is not an identifier or text")
        if self.order_by is not None:
            check_order(self.order_by, self.columns)
        return self

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Its own key and its parent's, as far as it has them."""
        return tuple(name for name in (self.key, self.parent.by if self.parent else None) if name is not None)

    @property
    def published(self) -> dict[str, Any]:
        """All its columns, keys first: those are published as fresh ids."""
        keys = {name: IdentifierColumn(type="identifier", action="surrogate") for name in self.key_columns}
        return {**keys, **{name: column for name, column in self.columns.items() if name not in keys}}


@dataclass(frozen=True)
class TreeTable:
    """One table of a tree. `max_rows` are of one row of the parent; `implied` is the entity of a flat table."""

    name: str
    key: str | None
    parent: str | None = None
    by: str | None = None
    max_rows: int = 1
    order_by: str | None = None
    share: float | None = None
    implied: bool = False


@dataclass(frozen=True)
class Tree:
    """The tables, parents before children; the first is the root."""

    tables: tuple[TreeTable, ...]

    @property
    def root(self) -> TreeTable:
        return self.tables[0]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(table.name for table in self.tables)

    @property
    def is_implied(self) -> bool:
        """Whether it is a flat table with entities."""
        return self.root.implied

    def table(self, name: str) -> TreeTable:
        return next(table for table in self.tables if table.name == name)

    def children(self, name: str) -> tuple[TreeTable, ...]:
        return tuple(table for table in self.tables if table.parent == name)

    def above(self, name: str) -> tuple[TreeTable, ...]:
        """Its parent, that one's parent, and so on up to the root."""
        parent = self.table(name).parent
        return () if parent is None else (self.table(parent), *self.above(parent))

    def keys_read(self, name: str) -> tuple[str, ...]:
        """The key columns of a table that are read: its own if tables lie below, and its parent's."""
        table = self.table(name)
        own = table.key if self.children(name) else None
        return tuple(key for key in (own, table.by) if key is not None)

    def most_rows(self, name: str) -> int:
        """That a root can have of a table, once everything is bounded."""
        return math.prod(table.max_rows for table in (self.table(name), *self.above(name)))


def tree_of(tables: Mapping[str, TableSpec]) -> Tree:
    """The tables in order; ValueError where they are no tree."""
    roots = [name for name, table in tables.items() if table.parent is None]
    if len(roots) != 1:
        found = f"{len(roots)} tables have no parent ({', '.join(roots[:5])})" if roots else "every table has a parent"
        raise ValueError(f"{found}; exactly one is the root, whose rows are who is protected")
    ordered, left = [roots[0]], [name for name in tables if name != roots[0]]
    while left:
        found_now = [name for name in left if _parent(tables[name]) in ordered]
        if not found_now:
            raise ValueError(_no_way_up(left, tables))
        ordered += found_now
        left = [name for name in left if name not in found_now]
    tree = Tree(tuple(_tree_table(name, tables[name]) for name in ordered))
    for table in tree.tables:
        if table.key is None and (tree.children(table.name) or table.parent is None):
            below = ", ".join(child.name for child in tree.children(table.name)) or "nobody"
            raise ValueError(f"{table.name}: the key is missing by which {below} would name its rows")
        if tree.most_rows(table.name) > MOST_ROWS:
            raise ValueError(
                f"{table.name}: one {tree.root.name} row may have {tree.most_rows(table.name):,} of its rows, and "
                f"{MOST_ROWS:,} are the most; lower max_rows"
            )
    shares = [table.share for table in tree.tables if table.share is not None]
    if math.fsum(shares) > 1 or (len(shares) < len(tree.tables) and math.fsum(shares) > 0.99):
        raise ValueError("the tables' shares leave nothing of the budget for the others; lower them")
    return tree


def implied_tree(entity: str, max_rows: int, order_by: str | None) -> Tree:
    """A flat table with entities: one row an entity, and its rows below it."""
    root = TreeTable(ENTITIES, entity, implied=True)
    return Tree((root, TreeTable(ROWS, None, ENTITIES, entity, max_rows, order_by)))


def checked_tables(tables: Any) -> Any:
    if isinstance(tables, dict):
        for name in tables:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ValueError("table names are lower-case letters, digits and underscores, at most 60")
    return tables


def checked_columns(columns: Any) -> Any:
    """Named soundly, and each with its type."""
    if isinstance(columns, dict):
        for name in columns:
            if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
                raise ValueError("column names must be printable text of at most 200 characters")
        return {name: tagged(column) for name, column in columns.items()}
    return columns


def check_order(order_by: str, columns: Mapping[str, Any]) -> None:
    column = columns.get(order_by)
    if isinstance(column, OpenColumn):
        raise ValueError(f"order_by names {order_by!r}, whose bounds are left open; say them, they order what is read")
    if not isinstance(column, DateColumn | DatetimeColumn | IntegerColumn | NumberColumn):
        raise ValueError(f"order_by names {order_by!r}, which is no date, datetime or number of the table")
    if isinstance(column, DatetimeColumn) and column.parts:
        raise ValueError(f"order_by names {order_by!r}, which is modelled by its parts; leave `parts` out")


def measured_tables(tables: Mapping[str, TableSpec]) -> list[Any]:
    """What is measured of them, for the spec's hash: order counts, of tables and of columns; made columns do not."""
    told = []
    for name, table in tables.items():
        said = table.model_dump(mode="json", exclude={"source": {"external"}})
        columns = [each for each in said["columns"].items() if each[1]["type"] not in ("derived", "lookup")]
        told.append([name, {**said, "columns": columns}])
    return told


def _is_not_modelled(column: Any) -> bool:
    return isinstance(column, IdentifierColumn | DerivedColumn | LookupColumn)


def _parent(table: TableSpec) -> str | None:
    return None if table.parent is None else table.parent.table


def _no_way_up(left: list[str], tables: Mapping[str, TableSpec]) -> str:
    unknown = [(name, _parent(tables[name])) for name in left if _parent(tables[name]) not in tables]
    if unknown:
        return f"{unknown[0][0]}: its parent {unknown[0][1]!r} is no table of the spec"
    return f"{', '.join(left[:5])}: their parents lead round in a circle and never to the root"


def _tree_table(name: str, table: TableSpec) -> TreeTable:
    parent, by = (None, None) if table.parent is None else (table.parent.table, table.parent.by)
    return TreeTable(name, table.key, parent, by, table.max_rows or 1, table.order_by, table.share)
