"""Exact counts of many marginals in one pass over codes, in parallel on one machine.

Guarantees. Counts are exact int64 and depend on the multiset of rows alone: not on batches, parts, order or
threads. Memory for each thread: the codes of one row group or batch and 8 bytes a joint cell (see cover.py; at most
DENSE_CELLS cells a joint table, more are counted sparsely); plus the result.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from understudy.pipelines.domain import TableDomain
from understudy.pipelines.encoding import EncodedBatch, code_type, encode
from understudy.pipelines.marginals import pushdown_postgresql
from understudy.pipelines.marginals.cover import Cover, cover
from understudy.pipelines.marginals.kernel import add_joint
from understudy.pipelines.marginals.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.marginals.sparse import SparseCounts
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source, bound_parts, read_part
from understudy.pipelines.sources.bounding import Allowance
from understudy.pipelines.sources.duckdb_table import DuckDBSource
from understudy.pipelines.sources.parquet import ParquetPart
from understudy.pipelines.sources.postgresql import PostgresSource
from understudy.pipelines.tensors import rows_at_once

Clique = tuple[int, ...]
Item = TypeVar("Item")
DENSE_CELLS = 1 << 22
FLUSH_ROWS = 1 << 31
CACHED_ROWS = 1 << 17
"""Rows whose codes stay in the third-level cache while one joint table after the other is counted."""


class Tally:
    """Counts of some rows, for one thread: add batches, then read the marginals."""

    def __init__(self, sizes: Sequence[int], cliques: Sequence[Clique]) -> None:
        self.sizes = tuple(sizes)
        self.cliques = tuple(cliques)
        self._cover: Cover = cover(self.sizes, self.cliques)
        self._cells = [math.prod(self.sizes[column] for column in group) for group in self._cover.groups]
        self._columns = [np.array(group) for group in self._cover.groups]
        self._strides = [self._strides_of(group) for group in self._cover.groups]
        self.columns = sorted({column for group in self._cover.groups for column in group})
        self._code_type = code_type(max((self.sizes[column] for column in self.columns), default=0))
        self._room = np.empty(0, self._code_type)
        self._narrow: dict[int, np.ndarray] = {}
        self._sparse = {g: SparseCounts() for g, cells in enumerate(self._cells) if cells > max(DENSE_CELLS, 1)}
        self._totals: dict[int, np.ndarray] = {}
        self._rows = 0
        self._unflushed = 0

    def add(self, batch: EncodedBatch) -> None:
        codes = self.room(batch.rows)
        for column in self.columns:
            self._check(column, batch.columns[column])
            codes[column] = batch.columns[column]
        self._count(codes)

    def room(self, rows: int) -> np.ndarray:
        """Where to write the codes of so many rows, (columns, rows), for `add_codes`; each time the same memory."""
        needed = len(self.sizes) * rows
        if len(self._room) < needed:
            self._room = np.empty(needed, self._code_type)
        return self._room[:needed].reshape(len(self.sizes), rows)

    def add_codes(self, codes: np.ndarray) -> None:
        """Count what was written to the room; only `columns` of it need to have been."""
        for column in self.columns:
            self._check(column, codes[column])
        self._count(codes)

    def _check(self, column: int, codes: np.ndarray) -> None:
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < self.sizes[column]:
            raise ValueError(f"codes of column {column} must lie between 0 and {self.sizes[column] - 1}")

    def _count(self, codes: np.ndarray) -> None:
        rows = codes.shape[1]
        if self._unflushed + rows >= FLUSH_ROWS:
            self._flush()
        self._rows += rows
        self._unflushed += rows
        for start in range(0, rows, CACHED_ROWS):
            block = range(start, min(start + CACHED_ROWS, rows))
            for g, group in enumerate(self._cover.groups):
                if g in self._sparse:
                    columns = [codes[column][block.start : block.stop] for column in group]
                    self._sparse[g].add(columns, self._strides[g].tolist())
                elif group:
                    if g not in self._narrow:
                        self._narrow[g] = np.zeros(self._cells[g], np.uint32)
                    add_joint(codes, block, self._columns[g], self._strides[g], self._narrow[g])

    def marginals(self) -> list[np.ndarray]:
        """Counts of each clique, its axes in the clique's own order."""
        found = []
        for clique, home in zip(self.cliques, self._cover.home, strict=True):
            group = self._cover.groups[home]
            if not clique:
                found.append(np.array(self._rows, np.int64))
                continue
            summed_out = tuple(i for i, column in enumerate(group) if column not in clique)
            summed = self._joint(home).sum(axis=summed_out, dtype=np.int64)
            kept = [column for column in group if column in clique]
            found.append(np.ascontiguousarray(summed.transpose([kept.index(column) for column in clique])))
        return found

    def _joint(self, group: int) -> np.ndarray:
        if group in self._sparse:
            joint = np.zeros(self._cells[group], np.int64)
            self._sparse[group].add_to(joint)
        elif group in self._totals:
            joint = self._totals[group] + self._narrow[group]
        else:
            joint = self._narrow.get(group, np.zeros(self._cells[group], np.uint32))
        return joint.reshape([self.sizes[column] for column in self._cover.groups[group]])

    def _flush(self) -> None:
        """Move 32-bit counters to 64-bit totals before any could overflow."""
        for g, narrow in self._narrow.items():
            self._totals[g] = self._totals.get(g, 0) + narrow.astype(np.int64)
            narrow[:] = 0
        self._unflushed = 0

    def _strides_of(self, group: Clique) -> np.ndarray:
        sizes = [self.sizes[column] for column in group]
        return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)


def count_marginals(
    batches: Iterable[EncodedBatch], sizes: Sequence[int], cliques: Sequence[Clique]
) -> list[np.ndarray]:
    """Exact int64 counts of each clique, shaped by its columns' sizes in the clique's order."""
    return count_items(batches, Tally.add, sizes, cliques)


def count_items(
    items: Iterable[Item],
    add: Callable[[Tally, Item], None],
    sizes: Sequence[int],
    cliques: Sequence[Clique],
    threads: int | None = None,
) -> list[np.ndarray]:
    """Counts of what `add` finds in each item; threads take the items one by one."""
    queue, lock, failed = iter(items), threading.Lock(), threading.Event()
    done = object()

    def work(_: int) -> list[np.ndarray]:
        tally = Tally(sizes, cliques)
        while True:
            with lock:
                item = done if failed.is_set() else next(queue, done)
            if item is done:
                return tally.marginals()
            try:
                add(tally, item)  # type: ignore[arg-type]
            except BaseException:
                failed.set()  # so that the other threads do not read the rest of the table in vain
                raise

    workers = threads or usable_cores()
    with ThreadPoolExecutor(workers) as pool:
        return add_counts(list(pool.map(work, range(workers))))


def add_part(
    tally: Tally,
    part: Part,
    number: int,
    domain: TableDomain,
    unit: Unit,
    key: bytes,
    allowed: Allowance | None,
    batch_rows: int,
) -> None:
    """Count the bounded rows of one part. `allowed` comes from a first pass over all, if there is an entity."""
    if allowed is None and isinstance(part, ParquetPart) and tally.columns:
        for codes in part.encode(domain, tally.columns, tally.room, batch_rows):
            tally.add_codes(codes)
        return
    for batch in read_part(part, number, domain.counted_names, unit, key, allowed, batch_rows):
        tally.add(encode(batch, domain))


def add_counts(counts: Sequence[list[np.ndarray]]) -> list[np.ndarray]:
    """Sum of several parts' counts, clique by clique."""
    totals = [table.copy() for table in counts[0]]
    for more in counts[1:]:
        for total, table in zip(totals, more, strict=True):
            total += table
    return totals


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class LocalTable:
    """A private table counted in this process; satisfies `method.PrivateTable`."""

    source: Source
    domain: TableDomain
    unit: Unit
    key: bytes
    batch_rows: int = BATCH_ROWS
    threads: int | None = None

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        rows = rows_at_once(self.domain, self.batch_rows)
        return self.source.batches(self.domain.record_names, self.unit, self.key, rows)

    def counts(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        if isinstance(self.source, DuckDBSource) and is_cheaper(self.domain, cliques):
            return count_in_engine(self.source, self.domain, self.unit, self.key, cliques)
        if isinstance(self.source, PostgresSource) and pushdown_postgresql.is_cheaper(
            self.source, self.domain, self.unit, cliques
        ):
            return pushdown_postgresql.count_in_postgresql(self.source, self.domain, cliques)
        parts = self.source.parts()
        if parts is None:
            return count_items(
                self.source.batches(self.domain.counted_names, self.unit, self.key, self.batch_rows),
                lambda tally, batch: tally.add(encode(batch, self.domain)),
                self.domain.sizes,
                cliques,
                self.threads,
            )
        names = self.domain.counted_names
        allowed = None
        if self.unit.entity is not None:
            threads = self.threads or usable_cores()
            rows = self.source.row_estimate()
            allowed = bound_parts(parts, names, self.unit, self.key, self.batch_rows, rows, threads)

        def add(tally: Tally, numbered: tuple[int, Part]) -> None:
            number, part = numbered
            add_part(tally, part, number, self.domain, self.unit, self.key, allowed, self.batch_rows)

        return count_items(enumerate(parts), add, self.domain.sizes, cliques, self.threads)
