"""Exact counts of many marginals in one pass over codes, in parallel on one machine.

Guarantees. Counts are exact int64 and depend on the multiset of rows alone: not on batches, parts, order or threads.
Memory: what a `Tally` takes for each thread, and the result.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.counting.tally import Clique, Tally
from understudy.pipelines.counting.weighted_tally import WeightedTally, read_columns
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source
from understudy.pipelines.sources.bounding import Candidates, merge, passes
from understudy.pipelines.sources.pinning import changed
from understudy.pipelines.sources.rows import CodeView, RecordView
from understudy.pipelines.table.coding.encode import EncodedBatch, encode_into
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import rows_at_once

Item = TypeVar("Item")
Result = TypeVar("Result")


class Counting(Protocol):
    """What one thread counts with."""

    def marginals(self) -> list[np.ndarray]: ...


Kind = TypeVar("Kind", bound=Counting)


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
    return tally_items(items, add, partial(Tally, sizes, cliques), threads)


def tally_items(
    items: Iterable[Item], add: Callable[[Kind, Item], None], made: Callable[[], Kind], threads: int | None = None
) -> list[np.ndarray]:
    """The same, with a tally of any kind for each thread."""

    def work(mine: Iterator[Item]) -> list[np.ndarray]:
        tally = made()
        for item in mine:
            add(tally, item)
        return tally.marginals()

    return add_counts(share_out(items, work, threads or usable_cores()))


def share_out(items: Iterable[Item], work: Callable[[Iterator[Item]], Result], threads: int) -> list[Result]:
    """What each thread makes of the items that it takes, one by one, from all."""
    queue, lock, failed = iter(items), threading.Lock(), threading.Event()
    done = object()

    def taken() -> Iterator[Item]:
        while True:
            with lock:
                item = done if failed.is_set() else next(queue, done)
            if item is done:
                return
            yield item  # type: ignore[misc]

    def guarded(_: int) -> Result:
        try:
            return work(taken())
        except BaseException:
            failed.set()  # so that the other threads do not read the rest of the table in vain
            raise

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(guarded, range(threads)))


def add_part(tally: Tally, part: Part, domain: TableDomain, batch_rows: int) -> None:
    """Count the rows of one part."""
    for batch in part.read(names_to_read(domain, tally.columns), batch_rows):
        add_batch(tally, batch, domain)


def add_bounded(tally: Tally, found: Sequence[Candidates], unit: Unit) -> None:
    """Count what is kept of a range of entities, given all that was found of it by a `CodeView` of the columns."""
    kept = merge(found, unit).kept
    codes = tally.room(len(kept))
    codes[tally.columns] = kept.T
    tally.add_codes(codes)


def add_batch(tally: Tally, batch: pa.RecordBatch, domain: TableDomain) -> None:
    codes = tally.room(batch.num_rows)
    encode_into(batch, {i: domain.countable[i] for i in tally.columns}, codes)
    tally.add_codes(codes)


def names_to_read(domain: TableDomain, columns: Sequence[int]) -> Sequence[str]:
    """What has to be read to count these columns."""
    named = dict.fromkeys(domain.countable[i].name for i in columns)
    return list(named) if columns else domain.counted_names


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
        with self.one_state():
            if self.unit.entity is None:
                yield from self.source.read(self.domain.record_names, rows)
                return
            for found in passes(self._parts, RecordView(self.domain), self.unit, self.key, rows, self._threads):
                for pieces in found:
                    if pieces:
                        yield from merge(pieces, self.unit).kept.to_batches(rows)

    def counts(self, cliques: Sequence[Clique], weights: EntityWeights | None = None) -> list[np.ndarray]:
        with self.one_state():
            return self._counts(cliques) if weights is None else self._ticks(cliques, weights)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Whatever is read within is the state of the table that this object saw first, as far as its source can tell.

        Built-in sources see to it themselves, read by read; this holds for every other as well.
        """
        first = self._first_state
        yield
        if self.source.snapshot_id() != first:
            raise changed("the table")

    @cached_property
    def _first_state(self) -> str | None:
        return self.source.snapshot_id()

    def _counts(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        if self.unit.entity is not None:  # no engine chooses the rows that `passes` does
            return self._bounded_counts(cliques)
        counter = self.source.counter()
        if counter is not None and is_cheaper(counter, self.domain, cliques):
            return count_in_engine(counter, self.domain, cliques)
        return self.stream_counts(cliques)

    def stream_counts(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        """Counts by reading the rows here, also where a database could count them."""
        sizes, threads = self.domain.countable_sizes, self._threads
        if self.source.parts() is not None:
            add_one = partial(add_part, domain=self.domain, batch_rows=self.batch_rows)
            return count_items(self._parts, add_one, sizes, cliques, threads)
        used = sorted({column for clique in cliques for column in clique})
        batches = self.source.read(names_to_read(self.domain, used), self.batch_rows)
        return count_items(batches, partial(add_batch, domain=self.domain), sizes, cliques, threads)

    def _bounded_counts(self, cliques: Sequence[Clique]) -> list[np.ndarray]:
        view = CodeView(self.domain, sorted({column for clique in cliques for column in clique}))
        totals = []
        for found in passes(self._parts, view, self.unit, self.key, self.batch_rows, self._threads):
            pieces = [each for each in found if each]
            add = partial(add_bounded, unit=self.unit)
            totals.append(count_items(pieces, add, self.domain.countable_sizes, cliques, self._threads))
        return add_counts(totals)

    def _ticks(self, cliques: Sequence[Clique], weights: EntityWeights) -> list[np.ndarray]:
        """Rows weighed by how many their entity has."""
        view = CodeView(self.domain, read_columns(cliques, self.domain))
        made = partial(WeightedTally, self.domain, cliques, weights)
        totals = []
        for found in passes(self._parts, view, self.unit, self.key, self.batch_rows, self._threads):
            add = partial(WeightedTally.add_bounded, unit=self.unit)
            totals.append(tally_items([each for each in found if each], add, made, self._threads))
        return add_counts(totals)

    @cached_property
    def _parts(self) -> Sequence[Part]:
        parts = self.source.parts()
        return [self.source] if parts is None else parts

    @property
    def _threads(self) -> int:
        return self.threads or usable_cores()
