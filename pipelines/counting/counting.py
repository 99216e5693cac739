"""Exact counts of many marginals in one pass over codes, in parallel on one machine.

Guarantees. Counts are exact int64 and depend on the multiset of rows alone: not on batches, parts, order or threads.
Memory: what a `Tally` takes for each thread, and the result.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting import pushdown_postgresql
from understudy.pipelines.counting.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.counting.tally import Clique, Tally
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source, bound_parts, read_part
from understudy.pipelines.sources.bounding import Allowance
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.files.parquet import ParquetPart
from understudy.pipelines.table.coding.encode import EncodedBatch, encode_into
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import rows_at_once

Item = TypeVar("Item")


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
        for codes in part.encode({i: domain.columns[i] for i in tally.columns}, tally.room, batch_rows):
            tally.add_codes(codes)
        return
    for batch in read_part(part, number, names_to_read(domain, unit, tally.columns), unit, key, allowed, batch_rows):
        add_batch(tally, batch, domain)


def add_batch(tally: Tally, batch: pa.RecordBatch, domain: TableDomain) -> None:
    codes = tally.room(batch.num_rows)
    encode_into(batch, {i: domain.columns[i] for i in tally.columns}, codes)
    tally.add_codes(codes)


def names_to_read(domain: TableDomain, unit: Unit, columns: Sequence[int]) -> Sequence[str]:
    """What has to be read to count these columns. Which rows of an entity are kept depends on all of them."""
    return [domain.names[i] for i in columns] if columns and unit.entity is None else domain.counted_names


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
        return self.stream_counts(cliques)

    def stream_counts(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        """Counts by reading the rows here, also where a database could count them."""
        used = sorted({column for clique in cliques for column in clique})
        names = names_to_read(self.domain, self.unit, used)
        parts = self.source.parts()
        if parts is None:
            return count_items(
                self.source.batches(names, self.unit, self.key, self.batch_rows),
                lambda tally, batch: add_batch(tally, batch, self.domain),
                self.domain.sizes,
                cliques,
                self.threads,
            )
        allowed = None
        if self.unit.entity is not None:
            threads = self.threads or usable_cores()
            rows = self.source.row_estimate()
            allowed = bound_parts(parts, names, self.unit, self.key, self.batch_rows, rows, threads)

        def add(tally: Tally, numbered: tuple[int, Part]) -> None:
            number, part = numbered
            add_part(tally, part, number, self.domain, self.unit, self.key, allowed, self.batch_rows)

        return count_items(enumerate(parts), add, self.domain.sizes, cliques, self.threads)
