"""A CSV file, plain or gzipped, with a header. Every field is read as text, so no inferred type can fail on
a row.

An empty field is null; other spellings ("NA", "null") are text, which number and date columns cannot read and
therefore treat as null where the column has one. A line with too few or too many fields is dropped.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.base import OneStream

BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class CsvSource(OneStream):
    path: Path

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._header])

    def row_estimate(self) -> int | None:
        return None

    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        try:
            with open_csv(self.path, self._header, columns) as reader:
                for block in reader:
                    for start in range(0, block.num_rows, batch_rows):
                        yield block.slice(start, batch_rows)
        except (pa.ArrowException, OSError, EOFError) as error:
            if "Empty CSV" in str(error):  # what Arrow calls a header without a line after it
                return
            fix = f"restore the file; a record has at most {BLOCK_BYTES:,} bytes and closes its quotes"
            raise SourceError(f"cannot read {self.path}: it is not a readable CSV file", fix) from None

    @cached_property
    def _header(self) -> list[str]:
        """The names in the first line, the only one looked at."""
        opener = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opener(self.path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
                header = next(csv.reader(lines), [])
        except (OSError, EOFError, csv.Error) as error:
            reason = getattr(error, "strerror", None) or "its first line is no CSV header"
            raise SourceError(f"cannot read {self.path}: {reason}", "check source.uri and the file") from None
        if not header:
            raise SourceError(f"{self.path} is empty", "a CSV file starts with a line of column names")
        return header


def open_csv(
    file: Path | pa.NativeFile, header: Sequence[str], columns: Sequence[str]
) -> pyarrow.csv.CSVStreamingReader:
    """These columns as text; an empty field is null, a line with too few or too many fields is dropped."""
    return pyarrow.csv.open_csv(
        file,
        pyarrow.csv.ReadOptions(block_size=BLOCK_BYTES),
        pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types={name: pa.string() for name in header},
            null_values=[""],
            strings_can_be_null=True,
            include_columns=list(columns),
        ),
    )
