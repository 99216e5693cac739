"""What is checked between the tables of a release, before any of them is published: one list, from the public tree.

Each table has its own contract (`contract.py`) as well. Everything here is judged from synthetic rows, so that what
fails reveals no more than the measurement that was paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.tree import ROWS, Tree

Tables: TypeAlias = Mapping[str, pa.Table]


@dataclass(frozen=True)
class KeysAreUnique:
    table: str
    key: str

    def __str__(self) -> str:
        return f"{self.table}: {self.key} is null or has a value twice"

    def broken(self, tables: Tables) -> int:
        keys = tables[self.table].column(self.key)
        return len(keys) - len(pc.unique(keys.drop_null()))


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
        named = tables[self.table].column(self.by)
        there = pc.is_in(named, value_set=tables[self.parent].column(self.key).combine_chunks())
        return len(named) - _number(pc.and_(pc.is_valid(named), there))


@dataclass(frozen=True)
class HasAtMost:
    """No row of the parent has more rows than may be kept of it."""

    table: str
    by: str
    most: int

    def __str__(self) -> str:
        return f"{self.table}: one {self.by} has more than {self.most:,} rows"

    def broken(self, tables: Tables) -> int:
        counts = pc.value_counts(tables[self.table].column(self.by).combine_chunks()).field("counts")
        return _number(pc.greater(counts, self.most))


@dataclass(frozen=True)
class ComesInOrder:
    """Rows of one parent lie together, and come one after the other; those without a value last."""

    table: str
    by: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}: rows of one {self.by} do not come in order of {self.column}"

    def broken(self, tables: Tables) -> int:
        owners = _numbered(tables[self.table].column(self.by))
        values = tables[self.table].column(self.column).combine_chunks()
        same = owners[1:] == owners[:-1]
        apart = int(np.count_nonzero(~same)) + 1 - len(np.unique(owners)) if len(owners) else 0
        known = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
        ranks = _ranks(values)
        falls = same & ((known[1:] & known[:-1] & (ranks[1:] < ranks[:-1])) | (known[1:] & ~known[:-1]))
        return int(np.count_nonzero(falls)) + apart


@dataclass(frozen=True)
class IsConstant:
    """What is said of an entity is the same in all its rows."""

    table: str
    by: str
    column: str

    def __str__(self) -> str:
        return f"{self.table}: {self.column} is not the same in all rows of one {self.by}"

    def broken(self, tables: Tables) -> int:
        owners = _numbered(tables[self.table].column(self.by))
        values = _numbered(tables[self.table].column(self.column))
        pairs = np.unique(np.stack([owners, values]), axis=1) if len(owners) else np.empty((2, 0), np.int64)
        return pairs.shape[1] - len(np.unique(owners))


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


def tree_breaches(tables: Tables, checks: Sequence[TreeCheck]) -> list[TreeCheck]:
    """The checks that fail."""
    return [check for check in checks if check.broken(tables)]


def _number(truths: pa.ChunkedArray | pa.Array) -> int:
    return int(pc.sum(truths, min_count=0).as_py() or 0)


def _numbered(values: pa.ChunkedArray) -> np.ndarray:
    """A whole number for each value, the same for equal ones; null is a value too."""
    coded = values.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(coded.indices.to_numpy(zero_copy_only=False), np.int64)


def _ranks(values: pa.Array) -> np.ndarray:
    """Places in order, ties alike; those of nulls mean nothing."""
    return np.asarray(pc.rank(values, tiebreaker="dense").to_numpy(zero_copy_only=False), np.int64)
