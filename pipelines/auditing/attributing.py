"""Whose row it is, in a tree of tables, row by row from the definition (docs/proofs/trees.md, steps 1 and 2).

It shares with `sources.tree.bounding` how a row by itself is read (codes, texts of open columns, ids, what orders, the
keyed hash of it all), and nothing of how rows are put together: an audit that asked the audited code whose rows to
take out would find that it agrees with itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.discovery.tally import Tally
from understudy.pipelines.discovery.tree_tallying import attribution_key, open_words
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.releasing.measuring import contribution_key
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.sources.ids import read_ids
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.tree.rows import Beside, Reader, TreeRows
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

Hash = tuple[int, int]
_ROOTS: Hash = (0, 0)


@dataclass(eq=False)
class _Row:
    rank: Hash
    own: Hash | None
    names: Hash | None
    root: Hash | None = None
    above: Hash = _ROOTS
    """The key of its parent, among rows of equal rank."""
    kept: bool = False


def roots_of(
    tables: Mapping[str, pa.Table], spec: ReleaseSpec, domains: Mapping[str, TableDomain]
) -> dict[str, list[Hash | None]]:
    """The root that each row of each table belongs to, by the hash of its key; None where it is nobody's."""
    tree = spec.tree
    assert tree is not None
    left = open_columns(spec)
    hash_key = attribution_key(spec) if left else contribution_key(spec)
    beside = open_words(spec, left, hash_key, {name: Tally((), Unit()) for name in tree.names}) if left else {}
    found: dict[str, list[Hash | None]] = {}
    bearers: dict[str, dict[Hash, list[_Row]]] = {}
    for table in tree.tables:
        key = table.key if tree.children(table.name) or table.parent is None else None
        reader = _reader(spec, domains[table.name], hash_key, table.order_by, beside.get(table.name))
        rows = _read(tables[table.name], reader, key, table.by)
        here = _roots(rows) if table.parent is None else _below(rows, bearers[table.parent], table.max_rows)
        bearers[table.name] = {}
        for row in here:
            if row.own is not None:
                bearers[table.name].setdefault(row.own, []).append(row)
        found[table.name] = [row.root for row in rows]
    return found


def _roots(rows: list[_Row]) -> list[_Row]:
    """Rows with a key are the root of that key, of which the least is kept."""
    least: dict[Hash, _Row] = {}
    for row in sorted(rows, key=lambda each: each.rank):
        row.root = row.own
        if row.own is not None:
            least.setdefault(row.own, row).kept = True
    return list(least.values())


def _below(rows: list[_Row], bearers: Mapping[Hash, list[_Row]], most: int) -> list[_Row]:
    """Each row belongs to whoever owns the key that it names. Given back are those that belong to a kept row, which
    alone bear a key themselves."""
    of_owner: dict[int, list[_Row]] = {}
    for row in rows:
        several = [] if row.names is None else bearers.get(row.names, [])
        if not several:
            continue
        owner = min(several, key=lambda each: (each.rank, each.above, not each.kept))
        row.root, row.above = owner.root, owner.own or _ROOTS
        if owner.kept:
            of_owner.setdefault(id(owner), []).append(row)
    for its in of_owner.values():
        for row in sorted(its, key=lambda each: each.rank)[:most]:
            row.kept = True
    return [row for its in of_owner.values() for row in its]


def _reader(
    spec: ReleaseSpec, domain: TableDomain, hash_key: bytes, order_by: str | None, beside: Beside | None
) -> Reader:
    order = None if order_by is None else domain.columns[domain.index(order_by)]
    return Reader(domain, hash_key, spec.privacy.protected_unit.ids_are_text, order=order, beside=beside)


def _read(table: pa.Table, reader: Reader, key: str | None, by: str | None) -> list[_Row]:
    """Every row of a table by itself."""
    plain, hash_key = reader.read(ArrowSource(table), 1), reader.hash_key

    def ids(column: str) -> tuple[np.ndarray, Hashes]:
        return read_ids(table.column(column).combine_chunks(), reader.ids_are_text, hash_key, across_types=True)

    nobody: list[Hash | None] = [None] * table.num_rows
    has_key, own = (None, None) if key is None else ids(key)
    told = TreeRows(plain.codes, None, has_key, own, plain.order, words=plain.words)
    ranks = told.ranks(np.arange(table.num_rows), hash_key)
    owns = nobody if has_key is None or own is None else _listed(has_key, own)
    names = nobody if by is None else _listed(*ids(by))
    everything = np.ones(table.num_rows, np.bool_)
    found = zip(_listed(everything, ranks), owns, names, strict=True)
    return [_Row(rank, mine, named) for rank, mine, named in found if rank is not None]


def _listed(known: np.ndarray, hashes: Hashes) -> list[Hash | None]:
    pairs = zip(known.tolist(), hashes.high.tolist(), hashes.low.tolist(), strict=True)
    return [(high, low) if there else None for there, high, low in pairs]
