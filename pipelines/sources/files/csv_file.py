"""A CSV file, plain or gzipped, with a header. Every field is read as text, so no inferred type can fail on
a row.

An empty field is null; other spellings ("NA", "null") are text, which number and date columns cannot read and
therefore treat as null where the column has one. A line with too few or too many fields is dropped. Each line is read
by itself (see `csv_lines`): a stray quote costs its own row at most, and no line can make a read fail.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.files.csv_lines import CR, LF, LONGEST, line_blocks, record_blocks, screened
from understudy.pipelines.sources.pinning import FilePin, state_of

MOST_HEADER_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_PARSERS = 2
"""Blocks that are parsed at one time, so many more waiting."""


@dataclass(frozen=True)
class CsvSource(SourceBase):
    path: Path
    quoted_newlines: bool = False

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._header])

    def row_estimate(self) -> int | None:
        return None

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with self._opened() as stream:
            yield from csv_batches(stream, str(self.path), columns, batch_rows, self.quoted_newlines)

    def snapshot_id(self) -> str:
        return state_of([self._pin])

    @cached_property
    def _pin(self) -> FilePin:
        return FilePin.of(self.path)

    @cached_property
    def _header(self) -> list[str]:
        with self._opened() as stream:
            return csv_header(stream, str(self.path), self.quoted_newlines)[0]

    @contextmanager
    def _opened(self) -> Iterator[pa.NativeFile]:
        """The file's bytes, unpacked; what is wrong with the file is told without anything in it."""
        try:
            with (
                self._pin.unchanged(),
                pa.OSFile(str(self.path)) as file,
                unpacked(file, self.path.name) as stream,
            ):
                yield stream
        except (pa.ArrowException, OSError) as error:
            reason = getattr(error, "strerror", None) or "it is not a readable CSV file"
            raise SourceError(f"cannot read {self.path}: {reason}", "check source.uri and the file") from None


def unpacked(file: pa.NativeFile, name: str) -> pa.NativeFile:
    return pa.CompressedInputStream(file, "gzip") if name.lower().endswith(".gz") else file


def csv_header(stream: pa.NativeFile, name: str, quoted_newlines: bool) -> tuple[list[str], bytes]:
    """The column names, and what was read of the stream after them.

    They are in the first line, or in the first record where one may have several. Nothing beyond it is looked at, so
    that no name, which people are shown, can hold what stands in a row.
    """
    start = stream.read(MOST_HEADER_BYTES).removeprefix(_BOM)
    header = b""
    for line in start.splitlines(keepends=True):
        header += line
        if not quoted_newlines or header.count(b'"') % 2 == 0:
            break
    text = header.decode("utf-8", "replace").rstrip("\r\n")
    names = None
    if len(header) < MOST_HEADER_BYTES and not (quoted_newlines and header.count(b'"') % 2):
        with suppress(csv.Error):
            names = next(csv.reader(io.StringIO(text, newline="")), [])
    if names is None:
        raise SourceError(f"cannot read {name}: its first line is no CSV header", "check source.uri and the file")
    if not names:
        raise SourceError(f"{name} is empty", "a CSV file starts with a line of column names")
    return names, start[len(header) :]


def csv_batches(
    stream: pa.NativeFile, name: str, columns: Sequence[str], batch_rows: int, quoted_newlines: bool
) -> Iterator[pa.RecordBatch]:
    """These columns of a CSV stream as text, in the order of its lines."""
    header, front = csv_header(stream, name, quoted_newlines)
    absent = [column for column in columns if column not in header]
    if absent:
        raise SpecError(f"{name} has no column(s) {', '.join(absent)}", "correct the names in the spec")
    wanted, fields = [header.index(column) for column in columns], len(header)
    parse = _parsed if quoted_newlines else _parsed_lines
    blocks = record_blocks(stream, front, fields) if quoted_newlines else line_blocks(stream, front)
    with ThreadPoolExecutor(_PARSERS) as pool:
        waiting: deque[Future[pa.Table | None]] = deque()
        while True:
            while len(waiting) <= _PARSERS and (block := next(blocks, None)) is not None:
                waiting.append(pool.submit(parse, block, fields, wanted))
            if not waiting:
                return
            if (found := waiting.popleft().result()) is not None:
                yield from found.rename_columns(list(columns)).to_batches(batch_rows)


def _parsed_lines(lines: np.ndarray, fields: int, wanted: Sequence[int]) -> pa.Table | None:
    """The same as screening the lines and parsing what passes, in one pass where nothing is amiss.

    Where line breaks are all LF or all CR LF, Arrow finds a row for each only if each ended a row of so many fields, in
    no quotes. At the end of the bytes Arrow closes a quote as screening does, so the last break is left out.
    """
    feeds, returns = lines == LF, lines == CR
    breaks, two_bytes = np.count_nonzero(feeds), returns.any()
    alike = not two_bytes or breaks == np.count_nonzero(returns) == np.count_nonzero(returns[:-1] & feeds[1:])
    if alike and len(lines) <= LONGEST:
        with suppress(pa.ArrowInvalid):
            found = _parsed(lines[: -2 if two_bytes else -1], fields, wanted)
            if found is not None and found.num_rows == breaks:
                return found
    return _parsed(screened(lines, fields), fields, wanted)


def _parsed(records: np.ndarray, fields: int, wanted: Sequence[int]) -> pa.Table | None:
    """Some columns of proper records. They are numbered, since names may be given twice."""
    if not len(records):
        return None
    names = [f"c{i}" for i in range(fields)]
    if records[0] == _BOM[0]:  # which Arrow would take off the start of any block; an empty line is no row
        records = np.append(np.frombuffer(b"\n", np.uint8), records)
    return pyarrow.csv.read_csv(
        pa.BufferReader(pa.py_buffer(records)),
        pyarrow.csv.ReadOptions(column_names=names, block_size=len(records) + 1, use_threads=False),
        pyarrow.csv.ParseOptions(newlines_in_values=True),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            include_columns=[names[position] for position in wanted],
        ),
    )
