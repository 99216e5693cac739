"""The exact sums of what is asked about columns of several tables, whose unit is a root with everything below it.

Theorem. Let a root have t different cells of a question in all its rows that are kept (sources/tree/bounding.py); it
  gives each the weight w(t). As t is at most W, the most rows of any table that a root can have, a root is to every
  question a unit of at most W rows: what it adds has L2 norm at most G, and which rows are kept of a root is a function
  of the rows attributed to it, so that no other root's part changes with it.
Relation, sensitivity, noise unit. Both; G, or sqrt(2) G (REPLACE_ONE), of each question, as in `mechanism`, for a unit
  of W rows; weights, and nothing is drawn here.
Proof. docs/proofs/discovery.md, step 10, with docs/proofs/trees.md, steps 1 to 4.
Reference. Gopi et al. 2020.

Rows are attributed and bounded as in counting, by keys and by keyed hashes of what they hold: of open columns the texts
of their values, of others their codes. The release that buys its domain measures by the same hashes under the same key
(`open_words`, `attribution_key`), so that both charges attribute every row to the same root, also where ids collide.
Rows are streamed through this process whatever the source: no engine computes those hashes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.counting.counting import usable_cores
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.observing import Looking, different
from understudy.pipelines.discovery.tally import UNITS, Asked, Tally, question_name
from understudy.pipelines.discovery.tallying import DiscoveryView, hashed_texts
from understudy.pipelines.discovery.thresholds import grain
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.hashing import Hashes, hash_rows
from understudy.pipelines.sources.pinning import changed
from understudy.pipelines.sources.tree.bounding import bound_tree
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.derived import DerivedColumn, LookupColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.open import OpenColumn
from understudy.pipelines.table.domain import TableDomain


@dataclass(frozen=True)
class OpenWords:
    """Rows of a table told apart by the texts of its open columns and the codes of the others; the cells of what is
    asked are kept."""

    view: DiscoveryView
    open: tuple[str, ...]
    known: tuple[str, ...]

    @property
    def columns(self) -> Sequence[str]:
        return self.open

    def look(self, batch: pa.RecordBatch, codes: np.ndarray) -> tuple[np.ndarray, Hashes]:
        seen = self.view.look(batch)
        texts = [hashed_texts(different(batch.column(name), Looking(name, None)), self.view.key) for name in self.open]
        width = codes.shape[1] * codes.itemsize
        told = [np.ascontiguousarray(codes).view(np.uint8).reshape(batch.num_rows, width), *texts]
        return seen.kept, hash_rows(np.concatenate(told, axis=1), self.view.key, "open values")


def open_words(
    spec: ReleaseSpec, open_columns: Collection[str], key: bytes, tallies: Mapping[str, Tally]
) -> dict[str, OpenWords]:
    """By table, where one has columns that are, or were, open: called by their table's name and their own."""
    found = {}
    for name, alone in spec.alone.items():
        left = tuple(column for column in alone.columns if f"{name}.{column}" in open_columns)
        known = tuple(column for column in known_domain(alone, left).names)
        if left:
            found[name] = OpenWords(DiscoveryView(tallies[name], key), left, known)
    return found


def attribution_key(spec: ReleaseSpec) -> bytes:
    """Keys the hashes of a release that buys what its columns can hold: the same before and after it knows that."""
    assert spec.tree is not None
    tables = [[t.name, t.key, t.parent, t.by, t.max_rows, t.order_by] for t in spec.tree.tables]
    return sha256(f"attribution:{hash_of([spec.name, spec.source.snapshot, tables])}".encode()).digest()


def tally_tree(
    source: TreeSource,
    spec: ReleaseSpec,
    asked: Sequence[Asked],
    unit: Unit,
    threads: int | None = None,
) -> dict[str, Sums]:
    """`unit` is a root with as many rows as it can have in any table."""
    tree, first, key = spec.tree, source.snapshot_id(), attribution_key(spec)
    assert tree is not None
    tallies = {name: Tally([one for one in asked if one.table == name], unit) for name in tree.names}
    left = {f"{name}.{column}" for name, each in spec.alone.items() for column in _left_open(each)}
    beside = open_words(spec, left, key, tallies)
    ids_are_text = spec.privacy.protected_unit.ids_are_text
    bounded = bound_tree(
        tree, source.tables, known_domains(spec), key, ids_are_text, threads or usable_cores(), beside=beside
    )
    if source.snapshot_id() != first:
        raise changed("the tables")
    for name, tally in tallies.items():
        table = bounded.tables[name]
        if tally.asked and table.beside is not None:
            tally.add_entities(table.beside, table.root.astype(np.int64))
    roots = len(bounded.tables[tree.root.name])
    return _named(asked, tallies) | {UNITS: Sums(np.array([grain(unit) * roots], np.int64))}


def known_domains(spec: ReleaseSpec) -> dict[str, TableDomain]:
    """Of each table what is known of it before anything is bought."""
    return {name: known_domain(alone, _left_open(alone)) for name, alone in spec.alone.items()}


def known_domain(table: ReleaseSpec, left: Collection[str]) -> TableDomain:
    """The coded columns of a table but those that are, or were, left open."""
    known = {
        name: declared
        for name, declared in table.columns.items()
        if name not in left and not isinstance(declared, DerivedColumn | LookupColumn)
    }
    return TableDomain.of(table.model_copy(update={"columns": known}))


def _left_open(table: ReleaseSpec) -> tuple[str, ...]:
    return tuple(name for name, declared in table.columns.items() if isinstance(declared, OpenColumn))


def _named(asked: Sequence[Asked], tallies: Mapping[str, Tally]) -> dict[str, Sums]:
    """Each table's sums by the places that its columns have among all that is asked."""
    sums = {name: tally.sums() for name, tally in tallies.items()}
    found: dict[str, Sums] = {}
    places = dict.fromkeys(tallies, 0)
    for place, one in enumerate(asked):
        own = places[one.table]
        places[one.table] += 1
        found |= {question_name(place, about): sums[one.table][question_name(own, about)] for about in one.about}
    return found
