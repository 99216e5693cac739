"""A source whose rows are counted as they are read, by whoever is told of them: for sources whose size is public alone.

How many rows a private table has is private unless its owner declares `source.rows_are_public`; only then may this wrap
a source. It is a source like any other, in the process that opened it: who is told does not travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from understudy.pipelines.sources.base import BATCH_ROWS, GroupCounter, Part, Source


@dataclass(frozen=True)
class WatchedPart:
    part: Part
    seen: Callable[[int], None]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        for batch in self.part.read(columns, batch_rows):
            self.seen(batch.num_rows)
            yield batch


@dataclass(frozen=True)
class WatchedSource:
    """What is read of `source` is told to `seen`, a number of rows at a time, by any thread."""

    source: Source
    seen: Callable[[int], None]

    def schema(self) -> pa.Schema:
        return self.source.schema()

    def parts(self) -> Sequence[WatchedPart] | None:
        parts = self.source.parts()
        return None if parts is None else [WatchedPart(part, self.seen) for part in parts]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        return WatchedPart(self.source, self.seen).read(columns, batch_rows)

    def counter(self) -> GroupCounter | None:
        return self.source.counter()

    def snapshot_id(self) -> str | None:
        return self.source.snapshot_id()

    def row_estimate(self) -> int | None:
        return self.source.row_estimate()

    def close(self) -> None:
        self.source.close()
