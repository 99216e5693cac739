"""A table that is in memory already: what the Python interface is given, or what a database without COPY has sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from understudy.pipelines.sources.base import BATCH_ROWS, InParts

PART_ROWS = 1_000_000


@dataclass(frozen=True)
class ArrowPart:
    table: pa.Table = field(repr=False)

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(list(columns)).to_batches(batch_rows)


@dataclass(frozen=True)
class ArrowSource(InParts):
    """The rows are private: they are left out of the repr."""

    table: pa.Table = field(repr=False)

    def schema(self) -> pa.Schema:
        return self.table.schema

    def parts(self) -> Sequence[ArrowPart]:
        starts = range(0, max(1, self.table.num_rows), PART_ROWS)
        return [ArrowPart(self.table.slice(start, PART_ROWS)) for start in starts]

    def row_estimate(self) -> int | None:
        return int(self.table.num_rows)
