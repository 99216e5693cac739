"""Counting on Dask: exact counts of each part of the table, added up in a tree. No noise is ever drawn here.

Every task is a pure function of the files and the job, so a task that runs twice, a lost worker or a
spilled result changes no count: the counts are those of `LocalTable`, which shares every function below the
map. Private intermediate values are `Sealed`, so that no worker's log can show them when a task fails.

Exact counts travel between the workers, the scheduler and this process. Over `tcp://` whoever can read that network
reads them; `tls://` encrypts every connection, and both ends prove who they are by certificates of the operator's,
which Dask finds in its own configuration (`distributed.comm.tls`, `DASK_DISTRIBUTED__COMM__TLS__...`), not in a spec.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
from distributed import Client, Future, KilledWorker, LocalCluster
from distributed.comm.core import CommClosedError
from distributed.core import rpc
from distributed.security import Security

from understudy.pipelines.counting.counting import LocalTable, add_bounded, add_counts, add_part, usable_cores
from understudy.pipelines.counting.tally import Clique, Tally
from understudy.pipelines.counting.weighted_tally import WeightedTally, read_columns
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source
from understudy.pipelines.sources.bounding import Candidates, Span, cut, found_in, merge, slices
from understudy.pipelines.sources.rows import CodeView
from understudy.pipelines.table.domain import TableDomain

FAN_IN = 8
SHARDS = 4
"""Ranges of entities that are bounded and counted beside each other."""
CONNECT_SECONDS = 10
WORKER_SECONDS = 5
LOOPBACK = "127.0.0.1:0"  # Dask's own default listens on every interface
Value = TypeVar("Value")


@dataclass(frozen=True, repr=False)
class Sealed(Generic[Value]):
    """A private value on its way between tasks; its repr shows nothing."""

    value: Value


class Bounded(Protocol):
    """Any job whose rows are bounded."""

    @property
    def unit(self) -> Unit: ...


@dataclass(frozen=True)
class Job:
    """What every task needs to know. All of it is public but the key, which is left out of the repr."""

    domain: TableDomain
    unit: Unit
    cliques: tuple[Clique, ...]
    batch_rows: int
    key: Sealed[bytes]
    weights: EntityWeights | None = None

    @property
    def view(self) -> CodeView:
        return CodeView(self.domain, read_columns(self.cliques, self.domain))


@dataclass(frozen=True)
class DaskTable:
    """A private table counted by Dask workers; satisfies `method.PrivateTable`.

    With `scheduler`, the workers of that cluster read the source's files themselves, so they must see them
    under the same paths. Without, threads of this process. A source that is one stream (a database, a CSV
    file) is counted in this process either way.
    """

    source: Source
    domain: TableDomain
    unit: Unit
    key: bytes
    scheduler: str | None = None
    batch_rows: int = BATCH_ROWS

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        return self._local.record_batches()

    def counts(self, cliques: Sequence[Clique], weights: EntityWeights | None = None) -> list[np.ndarray]:
        parts = self.source.parts()
        if not parts:
            return self._local.counts(cliques, weights)
        job = Job(self.domain, self.unit, tuple(cliques), self.batch_rows, Sealed(self.key), weights)
        with self._local.one_state(), client_of(self.scheduler) as client:
            if self.unit.entity is None:
                counted = client.map(count_part, parts, job=job, pure=False)
            else:
                counted = [
                    shard
                    for ends in slices(self.source.row_estimate(), job.view.row_bytes)
                    for shard in by_range(client, parts, job, ends, find_candidates, count_bounded)
                ]
            total: Sealed[list[np.ndarray]] = in_a_tree(client, counted, merge_counts, job).result()
            return total.value

    @cached_property
    def _local(self) -> LocalTable:
        return LocalTable(self.source, self.domain, self.unit, self.key, self.batch_rows)


@discreet("counting")
def count_part(part: Part, job: Job) -> Sealed[list[np.ndarray]]:
    tally = Tally(job.domain.countable_sizes, job.cliques)
    add_part(tally, part, job.domain, job.batch_rows)
    return Sealed(tally.marginals())


@discreet("counting")
def find_candidates(part: Part, job: Job, first: int, end: int) -> Sealed[Candidates | None]:
    return Sealed(found_in(part, job.view, job.unit, job.key.value, job.batch_rows, Span(first, end)))


@discreet("counting")
def take_range(found: Sealed[Candidates | None], first: int, end: int) -> Sealed[Candidates | None]:
    return Sealed(None if found.value is None else found.value.between(first, end))


@discreet("counting")
def merge_candidates(found: Sequence[Sealed[Candidates | None]], job: Bounded) -> Sealed[Candidates | None]:
    some = [each.value for each in found if each.value is not None]
    return Sealed(merge(some, job.unit) if some else None)


@discreet("counting")
def count_bounded(found: Sealed[Candidates | None], job: Job) -> Sealed[list[np.ndarray]]:
    if job.weights is not None:
        weighed = WeightedTally(job.domain, job.cliques, job.weights)
        if found.value is not None:
            weighed.add_bounded([found.value], job.unit)
        return Sealed(weighed.marginals())
    tally = Tally(job.domain.countable_sizes, job.cliques)
    if found.value is not None:
        add_bounded(tally, [found.value], job.unit)
    return Sealed(tally.marginals())


def by_range(
    client: Client, parts: Sequence[Part], job: Bounded, ends: tuple[int, int], find: Callable[..., Any],
    count: Callable[..., Any],
) -> list[Future]:  # fmt: skip
    """Counts of a range of entities, shard by shard: every task that keeps rows of an entity sees all there are."""
    first, end = ends
    found = client.map(find, parts, job=job, first=first, end=end, pure=False)
    counted = []
    for start, stop in cut(first, end, SHARDS):
        its = [client.submit(take_range, each, start, stop, pure=False) for each in found]
        merged = in_a_tree(client, its, merge_candidates, job)
        counted.append(client.submit(count, merged, job, pure=False))
    return counted


@discreet("counting")
def merge_counts(counts: Sequence[Sealed[list[np.ndarray]]], job: Job) -> Sealed[list[np.ndarray]]:
    return Sealed(add_counts([each.value for each in counts]))


def in_a_tree(client: Client, level: list[Future], join: Callable[..., Any], job: Any) -> Future:
    """One future that joins all, FAN_IN at a time, so that no worker has to hold every part's result."""
    while len(level) > 1:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [client.submit(join, group, job, pure=False) for group in groups]
    return level[0]


def reach(scheduler: str) -> None:
    """Raise SourceError unless the scheduler answers and has a worker; with none, counting would wait for ever.

    Asked without a `Client`, whose own timeout does not end the wait for something that listens and says nothing.
    """
    security = _security(scheduler) or Security()
    try:
        with ThreadPoolExecutor(1) as thread:  # this thread may have a loop of its own running
            workers = thread.submit(asyncio.run, _workers(scheduler, security)).result()
    except (OSError, ValueError, TypeError, CommClosedError):
        workers = None
    if workers is None:
        problem = f"cannot reach the Dask scheduler at {scheduler}"
        raise SourceError(problem, "start it, or correct or remove compute.scheduler; nothing was spent")
    if workers == 0:
        problem = f"the Dask scheduler at {scheduler} has no workers"
        raise SourceError(problem, "start one (`dask worker`), then run again; nothing was spent")


async def _workers(scheduler: str, security: Security) -> int:
    """How many workers the scheduler has; a new cluster is given some seconds to get its first."""
    ends = security.get_connection_args("client")
    async with asyncio.timeout(CONNECT_SECONDS), rpc(scheduler, connection_args=ends) as asked:
        for _ in range(WORKER_SECONDS):
            if workers := len((await asked.identity())["workers"]):
                break
            await asyncio.sleep(1)
    return workers


def _security(scheduler: str) -> Security | None:
    """Certificates for a `tls://` scheduler, from Dask's configuration; with them nothing is ever sent in the clear."""
    if not scheduler.startswith("tls://"):
        return None
    security = Security(require_encryption=True)
    if not (security.tls_ca_file and security.tls_client_cert):
        raise SourceError(
            "the Dask scheduler's address is tls://, and no certificates are configured here",
            "name them in Dask's configuration or the environment: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY",
        )
    return security


@contextlib.contextmanager
def client_of(scheduler: str | None, doing: str = "counted the table") -> Iterator[Client]:
    """A client of the cluster at that address, or of one of this process's threads; closed afterwards."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        try:
            if scheduler is None:
                cluster = LocalCluster(
                    processes=False,
                    n_workers=1,
                    threads_per_worker=usable_cores(),
                    dashboard_address=LOOPBACK,
                    worker_dashboard_address=LOOPBACK,
                )
                stack.enter_context(cluster)
                client = stack.enter_context(Client(cluster))
            else:
                client = stack.enter_context(Client(scheduler, timeout=CONNECT_SECONDS, security=_security(scheduler)))
        except (OSError, ValueError, CommClosedError):
            problem = f"cannot reach the Dask scheduler at {scheduler}"
            raise SourceError(problem, "start it, or correct or remove compute.scheduler") from None
        try:
            yield client
        except (KilledWorker, CommClosedError):
            problem = f"Dask workers died again and again while they {doing}"
            fix = "look at the workers' logs; give them more memory or fewer threads"
            raise SourceError(problem, fix) from None
