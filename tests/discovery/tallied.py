"""The ways in which one table is tallied, all to the same sums: streamed, in threads, by an engine, by Dask's tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.tally import Asked
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, Source, SourceBase
from understudy.pipelines.sources.bounding import WHOLE
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.sources.memory import ArrowPart, ArrowSource

Way = Callable[[pa.Table, Sequence[Asked], Unit], dict[str, Sums]]
KEY = b"key"


@dataclass(frozen=True)
class Streamed(SourceBase):
    """Any source as one stream: nobody counts for it, and it has no parts."""

    source: Source

    def schema(self) -> pa.Schema:
        return self.source.schema()

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        return self.source.read(columns, batch_rows)


class InPieces(ArrowSource):
    """Parts of two rows each."""

    def parts(self) -> Sequence[ArrowPart]:
        return [ArrowPart(self.table.slice(start, 2)) for start in range(0, max(1, self.table.num_rows), 2)]


def as_cells(sums: Sums) -> dict[str, int]:
    names = sums.values.to_pylist() if sums.values is not None else [str(i) for i in range(len(sums.weights))]
    return dict(zip(names, sums.weights.tolist(), strict=True))


def same(one: dict[str, Sums], other: dict[str, Sums]) -> bool:
    return {name: as_cells(sums) for name, sums in one.items()} == {name: as_cells(s) for name, s in other.items()}


def streamed(table: pa.Table, asked: Sequence[Asked], unit: Unit) -> dict[str, Sums]:
    return tally_table(Streamed(ArrowSource(table)), asked, unit, KEY)


def in_pieces(table: pa.Table, asked: Sequence[Asked], unit: Unit) -> dict[str, Sums]:
    return tally_table(InPieces(table), asked, unit, KEY)


def by_tasks(table: pa.Table, asked: Sequence[Asked], unit: Unit) -> dict[str, Sums]:
    """What Dask's workers would do, one after the other: entities in two shards, sums in a tree."""
    from understudy.tasks.engines.dask_counting import Sealed, merge_candidates, take_range
    from understudy.tasks.engines.dask_discovery import (
        DiscoveryJob,
        find_texts,
        merge_tallied,
        tally_bounded,
        tally_part,
    )

    job, parts = DiscoveryJob(tuple(asked), unit, Sealed(KEY)), InPieces(table).parts()
    if unit.entity is None:
        done = [tally_part(part, job) for part in parts]
    else:
        found = [find_texts(part, job, 0, WHOLE) for part in parts]
        shards = [(0, WHOLE // 2), (WHOLE // 2, WHOLE)]
        merged = [merge_candidates([take_range(each, *ends) for each in found], job) for ends in shards]
        done = [tally_bounded(each, job) for each in merged]
    return merge_tallied([merge_tallied(done[:1], job), *done[1:]], job).value


def duckdb_source(table: pa.Table, path: Path) -> DuckDBSource:
    with duckdb.connect(path) as connection:
        connection.register("given", table)
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM given")
    return DuckDBSource(path, "t")
