"""Methods that need more than counts, on Dask: what is computed of each part of the table, summed or gathered.

Moments and embeddings are sums of integers: workers send the sums of their parts, which are added up in a tree. Rows
that are mixed or sampled must lie together when they are drawn from: workers read them and hand them back as the
numbers the method works with, in the order in which one process would read them. No noise is ever drawn here, and
every task is a pure function of the files and the job, so a lost worker costs time only. As for counts, what travels
is private (dask_counting.py says who can read it), and of a method that gathers it is every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from distributed import Client, Future

from understudy.pipelines.methods.gaussian.moments import one_blas_thread
from understudy.pipelines.methods.over_rows import Work
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.sources.base import Part
from understudy.pipelines.sources.bounding import TIE_BYTES, Candidates, Span, found_in, merge, slices
from understudy.pipelines.sources.rows import RecordView
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import rows_at_once
from understudy.tasks.engines.dask_counting import DaskTable, Sealed, by_range, client_of, in_a_tree

VALUE_BYTES = 8
"""What a value of a row that is kept whole is taken to need, when ranges of entities are cut."""
Made = TypeVar("Made")


@dataclass(frozen=True)
class RowsJob:
    """What every task needs to know. All of it is public but the key and the work, which may hold bought numbers."""

    domain: TableDomain
    unit: Unit
    batch_rows: int
    key: Sealed[bytes]
    work: Sealed[Work[Any]]

    @property
    def row_bytes(self) -> int:
        tensors = 4 * sum(tensor.size for tensor in self.domain.tensors)
        return TIE_BYTES + VALUE_BYTES * len(self.domain.record_names) + tensors


@dataclass(frozen=True)
class DaskRows(DaskTable):
    """A private table whose rows Dask's workers read: satisfies `PrivateTable` and `SpreadOut`. A source that is one
    stream is read in this process."""

    def summed(self, work: Work[np.ndarray]) -> np.ndarray:
        parts = self.source.parts()
        if not parts:
            return work(self.record_batches())
        with self._worked_on(parts, work) as (client, made):
            total: Sealed[np.ndarray] = in_a_tree(client, made, add_up, None).result()
            return total.value

    def gathered(self, work: Work[Made]) -> list[Made]:
        parts = self.source.parts()
        if not parts:
            return [work(self.record_batches())]
        with self._worked_on(parts, work) as (_, made):
            return [_taken(future).value for future in made]

    @contextmanager
    def _worked_on(self, parts: Sequence[Part], work: Work[Any]) -> Iterator[tuple[Client, list[Future]]]:
        """What the work will make of each part or, with entities, of each range of them."""
        batch_rows = rows_at_once(self.domain, self.batch_rows)
        job = RowsJob(self.domain, self.unit, batch_rows, Sealed(self.key), Sealed(work))
        with self._local.one_state(), one_blas_thread(), client_of(self.scheduler, "read the table") as client:
            yield client, self._submitted(client, parts, job)

    def _submitted(self, client: Client, parts: Sequence[Part], job: RowsJob) -> list[Future]:
        if self.unit.entity is None:
            return list(client.map(work_on_part, parts, job=job, pure=False))
        return [
            shard
            for ends in slices(self.source.row_estimate(), job.row_bytes)
            for shard in by_range(client, parts, job, ends, find_rows, work_on_bounded)
        ]


@discreet("reading rows")
def work_on_part(part: Part, job: RowsJob) -> Sealed[Any]:
    return Sealed(job.work.value(part.read(job.domain.record_names, job.batch_rows)))


@discreet("reading rows")
def find_rows(part: Part, job: RowsJob, first: int, end: int) -> Sealed[Candidates | None]:
    view = RecordView(job.domain)
    return Sealed(found_in(part, view, job.unit, job.key.value, job.batch_rows, Span(first, end)))


@discreet("reading rows")
def work_on_bounded(found: Sealed[Candidates | None], job: RowsJob) -> Sealed[Any]:
    return Sealed(job.work.value(_bounded_rows(found.value, job)))


@discreet("reading rows")
def add_up(several: Sequence[Sealed[np.ndarray]], _: None) -> Sealed[np.ndarray]:
    total = several[0].value.copy()
    for each in several[1:]:
        total += each.value
    return Sealed(total)


def _bounded_rows(found: Candidates | None, job: RowsJob) -> Iterator[pa.RecordBatch]:
    if found is not None:
        yield from merge([found], job.unit).kept.to_batches(job.batch_rows)


def _taken(future: Future) -> Any:
    """The result, which the worker need not keep any longer."""
    result = future.result()
    future.release()
    return result
