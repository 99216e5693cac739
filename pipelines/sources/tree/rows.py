"""The rows of one table of a tree as they are read: codes, whose they are, their own key, and what orders them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source
from understudy.pipelines.sources.hashing import Hashes, hash_rows
from understudy.pipelines.sources.ids import read_ids
from understudy.pipelines.sources.modelled import as_modelled
from understudy.pipelines.sources.tree.keys import NOBODY, KeyIndex
from understudy.pipelines.table.coding.encode import code_type, encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.values import read_numbers


class Beside(Protocol):
    """How rows are told apart where columns were, or still are, open: by what these hold, and by the codes of the
    others (`known`), so that the same rows are kept before and after it is known what open columns can hold."""

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def known(self) -> Sequence[str]: ...

    def look(self, batch: pa.RecordBatch, codes: np.ndarray) -> tuple[np.ndarray, Hashes]:
        """Of every row some numbers that are kept, and a keyed hash of its open values and its codes of the others."""
        ...


@dataclass(frozen=True)
class Reader:
    """What is read of a table: `by` names the row of `parents` that a row belongs to, `key` the row itself, if rows of
    other tables may belong to it. `ids_are_text` and `hash_key` say how keys are read."""

    domain: TableDomain
    hash_key: bytes
    ids_are_text: bool = False
    key: str | None = None
    by: str | None = None
    parents: KeyIndex | None = None
    order: DomainColumn | None = None
    beside: Beside | None = None

    @property
    def columns(self) -> list[str]:
        named = (name for name in (self.key, self.by) if name is not None)
        more = () if self.beside is None else self.beside.columns
        return list(dict.fromkeys([*self.domain.counted_names, *more, *named]))

    @property
    def type(self) -> np.dtype:
        return code_type(max(self.domain.sizes, default=0))

    def read(self, source: Source, threads: int) -> TreeRows:
        """Every row that belongs to somebody."""
        parts = as_modelled(source, self.domain).parts()
        found = _gathered([as_modelled(source, self.domain)] if parts is None else parts, self, threads)
        return TreeRows.joined(found, self)

    def look(self, batch: pa.RecordBatch) -> TreeRows:
        """Those rows of a batch. What becomes of a row depends on that row alone, and on its parent being there."""
        parent = None
        if self.by is not None:
            assert self.parents is not None
            known, wanted = self._ids(batch, self.by)
            parent = self.parents.find(known, wanted)
            batch, parent = _taken(batch, parent != NOBODY), parent[parent != NOBODY]
        elif self.key is not None:  # a root without a key is nobody
            batch = _taken(batch, self._ids(batch, self.key)[0])
        has_key, key = self._ids(batch, self.key) if self.key is not None else (None, None)
        codes = np.empty((batch.num_rows, len(self.domain.columns)), self.type)
        for place, column in enumerate(self.domain.columns):
            codes[:, place] = encode_column(batch.column(column.name), column)
        order = None
        if self.order is not None:
            order = order_values(read_numbers(batch.column(self.order.name), self.order), self.order)
        beside, words = None, None
        if self.beside is not None:
            told = [place for place, name in enumerate(self.domain.names) if name in self.beside.known]
            beside, words = self.beside.look(batch, codes[:, told].astype(np.int32))
        return TreeRows(codes, parent, has_key, key, order, beside, words)

    def _ids(self, batch: pa.RecordBatch, column: str) -> tuple[np.ndarray, Hashes]:
        return read_ids(batch.column(column), self.ids_are_text, self.hash_key, across_types=True)


@dataclass(frozen=True, eq=False)
class TreeRows:
    """Rows of a table. `parent` is the place of each one's parent; `has_key` and `key` are its own key; `beside` is
    kept beside the codes, and `words` tell rows apart in their place."""

    codes: np.ndarray
    parent: np.ndarray | None
    has_key: np.ndarray | None
    key: Hashes | None
    order: np.ndarray | None
    beside: np.ndarray | None = None
    words: Hashes | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def taken(self, rows: np.ndarray) -> TreeRows:
        return TreeRows(
            self.codes[rows],
            None if self.parent is None else self.parent[rows],
            None if self.has_key is None else self.has_key[rows],
            None if self.key is None else self.key[rows],
            None if self.order is None else self.order[rows],
            None if self.beside is None else self.beside[rows],
            None if self.words is None else self.words[rows],
        )

    def ranks(self, rows: np.ndarray, hash_key: bytes) -> Hashes:
        """By which some of the rows are told apart: the keyed hash of everything that is kept of each."""
        parts = []
        if self.words is None:
            width = self.codes.shape[1] * self.codes.itemsize
            parts.append(np.ascontiguousarray(self.codes[rows]).view(np.uint8).reshape(len(rows), width))
        else:
            halves = self.words.high[rows], self.words.low[rows]
            parts += [np.ascontiguousarray(half).view(np.uint8).reshape(len(rows), 8) for half in halves]
        if self.order is not None:
            parts.append(np.ascontiguousarray(self.order[rows]).view(np.uint8).reshape(len(rows), 8))
        if self.key is not None and self.has_key is not None:
            parts.append(self.has_key[rows].astype(np.uint8).reshape(-1, 1))
            for half in (self.key.high, self.key.low):
                mine = np.where(self.has_key[rows], half[rows], np.uint64(0))
                parts.append(np.ascontiguousarray(mine).view(np.uint8).reshape(len(rows), 8))
        return hash_rows(np.concatenate(parts, axis=1), hash_key, "tree row")

    @staticmethod
    def joined(several: Sequence[TreeRows], reader: Reader) -> TreeRows:
        nothing = np.zeros((0, len(reader.domain.columns)), reader.type)
        codes = np.concatenate([nothing, *(each.codes for each in several)])
        parents = [each.parent for each in several if each.parent is not None]
        known = [each.has_key for each in several if each.has_key is not None]
        keys = [each.key for each in several if each.key is not None]
        orders = [each.order for each in several if each.order is not None]
        beside = [each.beside for each in several if each.beside is not None]
        words = [each.words for each in several if each.words is not None]
        place = np.zeros(0, np.int64 if reader.parents is None else reader.parents.rows.dtype)
        return TreeRows(
            codes,
            None if reader.by is None else np.concatenate([place, *parents]),
            None if reader.key is None else np.concatenate([np.zeros(0, np.bool_), *known]),
            None if reader.key is None else Hashes.joined(keys),
            None if reader.order is None else np.concatenate([np.zeros(0), *orders]),
            np.concatenate(beside) if beside else None,
            Hashes.joined(words) if words else None,
        )


def order_values(numbers: np.ndarray, column: DomainColumn) -> np.ndarray:
    """By what rows are ordered: values within the domain, NaN where there is none and the column may be null."""
    low, high = column.ends
    fallback = np.nan if column.nullable else float(low)
    found = np.where(np.isfinite(numbers), np.clip(numbers, float(low), float(high)), fallback)
    return np.where(np.isnan(found), np.nan, found + 0.0)  # one spelling of nothing and of zero


def _taken(batch: pa.RecordBatch, wanted: np.ndarray) -> pa.RecordBatch:
    return batch if wanted.all() else batch.filter(pa.array(wanted))


def _gathered(parts: Sequence[Part], reader: Reader, threads: int) -> list[TreeRows]:
    queue, lock, failed = _batches(parts, reader.columns), threading.Lock(), threading.Event()

    def work(_: int) -> list[TreeRows]:
        found: list[TreeRows] = []
        while True:
            with lock:
                batch = None if failed.is_set() else next(queue, None)
            if batch is None:
                return found
            try:
                found.append(reader.look(batch))
            except BaseException:
                failed.set()  # so that the other threads do not read the rest of the table in vain
                raise

    with ThreadPoolExecutor(threads) as pool:
        return [rows for found in pool.map(work, range(threads)) for rows in found]


def _batches(parts: Sequence[Part], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from part.read(columns, BATCH_ROWS)
