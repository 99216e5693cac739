"""A Parquet source whose parts take their time, so that a test can kill the worker that reads one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from understudy.pipelines.sources.files.parquet import ParquetPart, ParquetSource


@dataclass(frozen=True)
class SlowPart:
    part: ParquetPart
    seconds: float

    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        time.sleep(self.seconds)
        yield from self.part.read(columns, batch_rows)


class SlowSource(ParquetSource):
    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__(path)
        object.__setattr__(self, "seconds", seconds)

    def parts(self) -> Sequence[SlowPart]:  # type: ignore[override]
        return [SlowPart(part, self.seconds) for part in super().parts()]
