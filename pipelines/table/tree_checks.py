"""What is checked between the tables of a release, before any of them is published: one list, from the public tree.

Each table has its own contract (`contract.py`) as well. Everything here is judged from synthetic rows, so that what
fails reveals no more than the measurement that was paid for. What Arrow and Great Expectations are asked is what a
check `shows`: the tables joined, counted or compared, as columns with checks of the contract's kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.tree import ROWS, Tree
from understudy.pipelines.table.checks import Checks, IsUnique, IsWithin, NotNull, Verdict, breaches

Tables: TypeAlias = Mapping[str, pa.Table]
Shown: TypeAlias = tuple[pa.Table, Checks]


@dataclass(frozen=True)
class KeysAreUnique:
    table: str
    key: str

    def __str__(self) -> str:
        return f"{self.table}: {self.key} is null or has a value twice"

    def broken(self, tables: Tables) -> int:
        keys = tables[self.table].column(self.key)
        return len(keys) - len(pc.unique(keys.drop_null()))

    def shows(self, tables: Tables) -> Shown:
        return tables[self.table].select([self.key]), Checks((), (NotNull(self.key), IsUnique(self.key)))


@dataclass(frozen=True)
class BelongsTo:
    """Every row names a row of the parent."""

    table: str
    by: str
    parent: str
    key: str

    def __str__(self) -> str:
        return f"{self.table}: {self.by} names no row of {self.parent}"

    def broken(self, tables: Tables) -> int:
        return int(np.count_nonzero(self._orphans(tables)))

    def shows(self, tables: Tables) -> Shown:
        return _at_most(self.by, self._orphans(tables), 0)

    def _orphans(self, tables: Tables) -> np.ndarray:
        named = tables[self.table].column(self.by)
        there = pc.is_in(named, value_set=tables[self.parent].column(self.key).combine_chunks())
        return ~np.asarray(pc.and_(pc.is_valid(named), there))


@dataclass(frozen=True)
class HasAtMost:
    """No row of the parent has more rows than may be kept of it."""

    table: str
    by: str
    most: int

    def __str__(self) -> str:
        return f"{self.table}: one {self.by} has more than {self.most:,} rows"

    def broken(self, tables: Tables) -> int:
        return int(np.count_nonzero(self._rows_each(tables) > self.most))

    def shows(self, tables: Tables) -> Shown:
        return _at_most(self.by, self._rows_each(tables), self.most)

    def _rows_each(self, tables: Tables) -> np.ndarray:
        return np.asarray(pc.value_counts(tables[self.table].column(self.by).combine_chunks()).field("counts"))


@dataclass(frozen=True)
class ComesInOrder:
    """Rows of one parent lie together, and come one after the other; those without a value last."""

    table: str
    by: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}: rows of one {self.by} do not come in order of {self.column}"

    def broken(self, tables: Tables) -> int:
        return int(np.count_nonzero(self._misplaced(tables)))

    def shows(self, tables: Tables) -> Shown:
        return _at_most(self.column, self._misplaced(tables), 0)

    def _misplaced(self, tables: Tables) -> np.ndarray:
        """Rows that come before the one above them, or apart from the others of their owner."""
        owners = _numbered(tables[self.table].column(self.by))
        values = tables[self.table].column(self.column).combine_chunks()
        begins = np.append(True, owners[1:] != owners[:-1])[: len(owners)]
        begins[np.unique(owners, return_index=True)[1]] = False
        known = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
        ranks, same = _ranks(values), owners[1:] == owners[:-1]
        falls = same & ((known[1:] & known[:-1] & (ranks[1:] < ranks[:-1])) | (known[1:] & ~known[:-1]))
        begins[1:] |= falls
        return begins


@dataclass(frozen=True)
class IsConstant:
    """What is said of an entity is the same in all its rows."""

    table: str
    by: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}: {self.column} is not the same in all rows of one {self.by}"

    def broken(self, tables: Tables) -> int:
        return int((self._values_each(tables) - 1).sum())

    def shows(self, tables: Tables) -> Shown:
        return _at_most(self.column, self._values_each(tables), 1)

    def _values_each(self, tables: Tables) -> np.ndarray:
        owners = _numbered(tables[self.table].column(self.by))
        values = _numbered(tables[self.table].column(self.column))
        pairs = np.unique(np.stack([owners, values]), axis=1) if len(owners) else np.empty((2, 0), np.int64)
        return np.unique(pairs[0], return_counts=True)[1]


TreeCheck: TypeAlias = KeysAreUnique | BelongsTo | HasAtMost | ComesInOrder | IsConstant


def tree_checks(tree: Tree, constant: Sequence[str] = ()) -> tuple[TreeCheck, ...]:
    """Of the tables as they are published. A flat table with entities is one of them, `constant` what is said of those.

    A root may have no rows of a table, so that tables without rows hold here; their own contracts refuse them.
    """
    found: list[TreeCheck] = []
    for table in tree.tables:
        if table.key is not None and not tree.is_implied:
            found.append(KeysAreUnique(table.name, table.key))
        if table.parent is None or table.by is None:
            continue
        key = tree.table(table.parent).key
        if key is not None and not tree.is_implied:
            found.append(BelongsTo(table.name, table.by, table.parent, key))
        found.append(HasAtMost(table.name, table.by, table.max_rows))
        if table.order_by is not None:
            found.append(ComesInOrder(table.name, table.by, table.order_by))
    if tree.is_implied:
        [rows] = [table for table in tree.tables if table.name == ROWS]
        found += [IsConstant(ROWS, str(rows.by), column) for column in constant]
    return tuple(found)


def tree_breaches(tables: Tables, checks: Sequence[TreeCheck], verdict: Verdict = breaches) -> list[TreeCheck]:
    """The checks that fail, by whoever runs those of the contract."""
    return [check for check in checks if verdict(*check.shows(tables))]


def _at_most(column: str, numbers: np.ndarray, most: int) -> Shown:
    return pa.table({column: numbers.astype(np.int64)}), Checks((), (IsWithin(column, 0, most),))


def _numbered(values: pa.ChunkedArray) -> np.ndarray:
    """A whole number for each value, the same for equal ones; null is a value too."""
    coded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)


def _ranks(values: pa.Array) -> np.ndarray:
    """Places in order, ties alike; those of nulls mean nothing."""
    return np.asarray(pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False), np.int64)
