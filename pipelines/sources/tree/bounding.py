"""A tree of tables, every row attributed to one root, and at most so many rows below each row.

Theorem. Let the rows of a dataset D be attributed as follows, from the root down. A root is all rows of the root table
  with one key. A row of another table belongs to the row that *owns* the key it names: of all rows that bear the key
  and belong to a row that was kept, the one with the least rank, a keyed hash of what it is (then: of its parent's
  key). A row whose key nobody bears, or that names none, belongs to nobody. Then (1) if a root is removed with all rows
  attributed to it, every other row stays attributed as it was; (2) what is kept of a root (one row of it, and of the
  rows of each parent that was kept those `max_rows` with the least ranks) is a function of the rows attributed to it
  and of the public key alone.
Relation, sensitivity, noise unit. Both; one root with everything attributed to it; rows, and nothing is drawn here.
Proof. docs/proofs/trees.md.
Reference. docs/proofs/bounding.md, whose argument this is, once for each table.

Attribution comes before bounding: rows below a row that was dropped over its bound are dropped, and no other row that
bears its key inherits them.

Memory: the codes, and beside them at most 29 bytes a row when its table has been read (4 of the parent; 17 of the own
key where tables lie below; 8 of what orders). Once it is bounded, 8 (parent and root), 8 more where it is ordered and,
until the tables below were read, 24 more for its keys. Joining batches and sorting take as much again for a moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.sources.tree.keys import NOBODY, KeyIndex, is_repeated, sorted_by_hash
from understudy.pipelines.sources.tree.rows import Beside, Reader, TreeRows
from understudy.pipelines.spec.tree import Tree, TreeTable
from understudy.pipelines.table.domain import TableDomain

Told = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class BoundedTable:
    """What is kept of a table. Rows of one parent lie together and in order; `parent` and `root` are the places of a
    row's parent and root, `order` the value that orders it, `beside` what is kept beside the codes, if anything is."""

    codes: np.ndarray
    parent: np.ndarray | None
    root: np.ndarray
    order: np.ndarray | None = None
    beside: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, eq=False)
class BoundedTree:
    """All tables of a tree, bounded."""

    tree: Tree
    tables: Mapping[str, BoundedTable]

    def numbers(self, child: TreeTable) -> np.ndarray:
        """How many rows of a child table lie under each row of its parent."""
        parent = self.tables[child.name].parent
        assert parent is not None
        return np.bincount(parent, minlength=len(self.tables[str(child.parent)]))

    def a_root(self, table: str) -> np.ndarray:
        """How many rows of a table each root has."""
        return np.bincount(self.tables[table].root, minlength=len(self.tables[self.tree.root.name]))


def bound_tree(
    tree: Tree,
    sources: Mapping[str, Source],
    domains: Mapping[str, TableDomain],
    hash_key: bytes,
    ids_are_text: bool,
    threads: int,
    told: Told = lambda stage: None,
    beside: Mapping[str, Beside] = MappingProxyType({}),
) -> BoundedTree:
    """Read every table once, parents first; `told` hears what was done, for whoever takes the time. `beside` says by
    table what more is kept of each row."""
    found: dict[str, BoundedTable] = {}
    owners: dict[str, KeyIndex] = {}
    for table in tree.tables:
        domain = domains[table.name]
        reader = Reader(
            domain,
            hash_key,
            ids_are_text,
            table.key if tree.children(table.name) else None,
            table.by,
            None if table.parent is None else owners[table.parent],
            None if table.order_by is None else domain.columns[domain.index(table.order_by)],
            beside.get(table.name),
        )
        rows = reader.read(sources[table.name], threads)
        told(f"read {table.name}")
        if table.parent is None:
            found[table.name], owners[table.name] = _roots(rows, hash_key)
        else:
            above = found[table.parent]
            found[table.name], order = _bounded(rows, table.max_rows, above, hash_key)
            if reader.key is not None:
                owners[table.name] = _owners(rows, order, owners[table.parent], len(above), hash_key)
        told(f"bounded {table.name}")
    return BoundedTree(tree, found)


def _roots(rows: TreeRows, hash_key: bytes) -> tuple[BoundedTable, KeyIndex]:
    """One row for each key, that of the least rank; in order of the keys' hashes."""
    assert rows.key is not None
    order = sorted_by_hash(rows.key)
    repeated = is_repeated(rows.key, order)
    order = _least_first(rows.key, order, repeated, lambda some: [rows.ranks(some, hash_key)])[~repeated]
    codes, keys = rows.codes[order], rows.key[order]
    places = np.arange(len(order), dtype=_place_type(len(order)))
    beside = None if rows.beside is None else rows.beside[order]
    return BoundedTable(codes, None, places, None, beside), KeyIndex.of(keys, places)


def _bounded(rows: TreeRows, max_rows: int, above: BoundedTable, hash_key: bytes) -> tuple[BoundedTable, np.ndarray]:
    """What is kept, and which of the rows that is, in its order."""
    assert rows.parent is not None
    kept = _within_bound(rows, max_rows, len(above), hash_key)
    order = _in_order(rows, kept, hash_key)
    parent = rows.parent[order]
    if len(parent) and np.bincount(parent).max() > max_rows:
        raise ValueError("a row has more rows below it than its bound")  # what the sensitivity rests on
    values = None if rows.order is None else rows.order[order]
    beside = None if rows.beside is None else rows.beside[order]
    return BoundedTable(rows.codes[order], parent, above.root[parent], values, beside), order


def _within_bound(rows: TreeRows, max_rows: int, parents: int, hash_key: bytes) -> np.ndarray:
    """Which rows stay: of a parent's those of the least ranks. Rows that tie are alike in all that is kept of them."""
    assert rows.parent is not None
    crowded = np.bincount(rows.parent, minlength=parents) > max_rows
    kept = np.ones(len(rows), np.bool_)
    some = np.flatnonzero(crowded[rows.parent])
    if len(some):
        ranks = rows.ranks(some, hash_key)
        order = np.lexsort((ranks.low, ranks.high, rows.parent[some]))
        kept[some[order[_place_in_run(rows.parent[some[order]]) >= max_rows]]] = False
    return kept


def _in_order(rows: TreeRows, kept: np.ndarray, hash_key: bytes) -> np.ndarray:
    """The kept rows by parent and, where something orders them, by that; ties by rank."""
    assert rows.parent is not None
    here = np.flatnonzero(kept)
    if rows.order is None:
        return here[np.argsort(rows.parent[here], kind="stable")]
    values = np.where(np.isnan(rows.order[here]), np.inf, rows.order[here])  # those that are not known come last
    order = here[np.lexsort((values, rows.parent[here]))]
    parent, value = rows.parent[order], np.where(np.isnan(rows.order[order]), np.inf, rows.order[order])
    alike = (parent[1:] == parent[:-1]) & (value[1:] == value[:-1])
    again = np.zeros(len(order), np.bool_)
    again[1:] |= alike
    again[:-1] |= alike
    places = np.flatnonzero(again)
    if len(places):
        some = order[places]
        ranks = rows.ranks(some, hash_key)
        order[places] = some[np.lexsort((ranks.low, ranks.high, value[places], parent[places]))]
    return order


def _owners(rows: TreeRows, order: np.ndarray, parents: KeyIndex, above: int, hash_key: bytes) -> KeyIndex:
    """The place of the row that owns each key; NOBODY where that was dropped over its bound.

    Among rows of one key the least rank owns it, then the least key of the parent. Those that tie are equal rows of one
    parent: one that was kept, and the first of these.
    """
    assert rows.key is not None
    assert rows.has_key is not None
    assert rows.parent is not None
    place = np.full(len(rows), NOBODY, _place_type(len(order)))
    place[order] = np.arange(len(order), dtype=place.dtype)
    with_key = np.flatnonzero(rows.has_key)
    keys = rows.key[with_key]
    sorted_rows = sorted_by_hash(keys)
    repeated = is_repeated(keys, sorted_rows)

    def ranks(some: np.ndarray) -> list[Hashes | np.ndarray]:
        mine = with_key[some]
        assert rows.parent is not None
        return [
            rows.ranks(mine, hash_key),
            parents.keys_of(rows.parent[mine], above),
            place[mine] == NOBODY,
            place[mine],
        ]

    chosen = _least_first(keys, sorted_rows, repeated, ranks)[~repeated]
    return KeyIndex.of(keys[chosen], place[with_key[chosen]])


def _least_first(
    keys: Hashes,
    order: np.ndarray,
    repeated: np.ndarray,
    ranks: Callable[[np.ndarray], Sequence[Hashes | np.ndarray]],
) -> np.ndarray:
    """The same order of keys, with the rows of one key by their ranks."""
    in_run = repeated.copy()
    in_run[:-1] |= repeated[1:]
    places = np.flatnonzero(in_run)
    if not len(places):
        return order
    some = order[places]
    by: list[np.ndarray] = []
    for each in reversed(ranks(some)):  # lexsort goes by the last one first
        by += [each.low, each.high] if isinstance(each, Hashes) else [each]
    order = order.copy()
    order[places] = some[np.lexsort((*by, keys.low[some], keys.high[some]))]
    return order


def _place_in_run(values: np.ndarray) -> np.ndarray:
    """How many equal values stand before each, where equal ones lie together."""
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    lengths = np.diff(np.append(starts, len(values)))
    return np.arange(len(values)) - np.repeat(starts, lengths)


def _place_type(rows: int) -> np.dtype:
    return np.dtype(np.int32 if rows < 2**31 else np.int64)
