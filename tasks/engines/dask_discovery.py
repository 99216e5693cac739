"""What open columns hold, tallied on Dask: exact sums of each part of the table, added up in a tree. No noise is drawn.

Every task is a pure function of the files and the job, and sums are whole numbers: they are those of `tally_table`,
which shares every function below the map. Values travel between workers as texts, sealed like exact counts
(dask_counting.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.tally import VALUES, Asked, Tally, merge_sums
from understudy.pipelines.discovery.tallying import (
    DiscoveryView,
    as_numbers,
    as_texts,
    numbered_entities,
    one_state,
    tally_table,
)
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.sources.base import BATCH_ROWS, Part, Source
from understudy.pipelines.sources.bounding import Candidates, Span, found_in, merge, slices
from understudy.tasks.engines.dask_counting import Sealed, by_range, client_of, in_a_tree

TEXT_BYTES = 24
"""What a value that is kept of a row is taken to need, when ranges of entities are cut."""


@dataclass(frozen=True)
class DiscoveryJob:
    """What every task needs to know. All of it is public but the key, which is left out of the repr."""

    asked: tuple[Asked, ...]
    unit: Unit
    key: Sealed[bytes]
    batch_rows: int = BATCH_ROWS

    @property
    def row_bytes(self) -> int:
        return sum(TEXT_BYTES if about == VALUES else 4 for one in self.asked for about in one.about)


@dataclass(frozen=True)
class DaskTallying:
    """`tally_table` by the workers of a cluster, or by threads of this process that Dask runs. A source that is one
    stream is tallied in this process either way."""

    scheduler: str | None = None

    def __call__(self, source: Source, asked: Sequence[Asked], unit: Unit, key: bytes) -> dict[str, Sums]:
        parts = source.parts()
        if not parts:
            return tally_table(source, asked, unit, key)
        job = DiscoveryJob(tuple(asked), unit, Sealed(key))
        with one_state(source), client_of(self.scheduler) as client:
            if unit.entity is None:
                tallied = client.map(tally_part, parts, job=job, pure=False)
            else:
                tallied = [
                    shard
                    for ends in slices(source.row_estimate(), job.row_bytes)
                    for shard in by_range(client, parts, job, ends, find_texts, tally_bounded)
                ]
            total: Sealed[dict[str, Sums]] = in_a_tree(client, tallied, merge_tallied, job).result()
            return total.value


@discreet("discovering")
def tally_part(part: Part, job: DiscoveryJob) -> Sealed[dict[str, Sums]]:
    tally = Tally(job.asked, job.unit)
    for batch in part.read(list(dict.fromkeys(tally.columns)), job.batch_rows):
        tally.add_rows(batch, range(len(job.asked)))
    return Sealed(tally.sums())


@discreet("discovering")
def find_texts(part: Part, job: DiscoveryJob, first: int, end: int) -> Sealed[Candidates | None]:
    """What a part has of a range of entities, its values as texts."""
    tally = Tally(job.asked, job.unit)
    view = DiscoveryView(tally, job.key.value)
    found = found_in(part, view, job.unit, job.key.value, job.batch_rows, Span(first, end))
    return Sealed(None if found is None else replace(found, kept=as_texts(found.kept, tally)))


@discreet("discovering")
def tally_bounded(found: Sealed[Candidates | None], job: DiscoveryJob) -> Sealed[dict[str, Sums]]:
    tally = Tally(job.asked, job.unit)
    if found.value is not None:
        merged = merge([found.value], job.unit)
        tally.add_entities(as_numbers(merged.kept, tally), numbered_entities(merged))
    return Sealed(tally.sums())


@discreet("discovering")
def merge_tallied(several: Sequence[Sealed[dict[str, Sums]]], job: DiscoveryJob) -> Sealed[dict[str, Sums]]:
    return Sealed(merge_sums([each.value for each in several]))
