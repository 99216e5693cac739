"""A CSV file, plain or packed (gzip, Zstandard), with a header. Every field is read as text, so no inferred type can
fail on a row.

`source.csv` says how it is written where that is not commas, double quotes and UTF-8. An empty field is null, and so
are the words that it lists; other spellings ("NA", "null") are text, which number and date columns cannot read. A line
with too few or too many fields is dropped. Each line is read by itself (see `csv_lines`): a stray quote costs its own
row at most, and no line can make a read fail.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.files.csv_lines import (
    BLOCK_BYTES,
    CR,
    LF,
    LONGEST,
    Marks,
    line_blocks,
    record_blocks,
    screened,
)
from understudy.pipelines.sources.pinning import FilePin, state_of
from understudy.pipelines.spec.dialect import COMMAS, CsvDialect

MOST_HEADER_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_PARSERS = 2
"""Blocks that are parsed at one time, so many more waiting."""


@dataclass(frozen=True)
class CsvSource(SourceBase):
    path: Path
    quoted_newlines: bool = False
    dialect: CsvDialect = COMMAS

    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.string()) for name in self._header])

    def row_estimate(self) -> int | None:
        return None

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with self._opened() as stream:
            yield from csv_batches(stream, str(self.path), columns, batch_rows, self.quoted_newlines, self.dialect)

    def snapshot_id(self) -> str:
        return state_of([self.pin])

    @cached_property
    def pin(self) -> FilePin:
        return FilePin.of(self.path)

    @cached_property
    def _header(self) -> list[str]:
        with self._opened() as stream:
            return csv_header(stream, str(self.path), self.quoted_newlines, self.dialect)[0]

    @contextmanager
    def _opened(self) -> Iterator[pa.NativeFile]:
        """The file's bytes, unpacked; what is wrong with the file is told without anything in it."""
        try:
            with (
                self.pin.unchanged(),
                pa.OSFile(str(self.path)) as file,
                unpacked(file, self.path.name) as stream,
            ):
                yield in_utf8(stream, self.dialect.encoding)
        except (pa.ArrowException, OSError) as error:
            reason = getattr(error, "strerror", None) or "it is not a readable CSV file"
            raise SourceError(f"cannot read {self.path}: {reason}", "check source.uri and the file") from None


def in_utf8(stream: pa.NativeFile, encoding: str) -> pa.NativeFile:
    """The stream's text as UTF-8; bytes that the encoding lacks are replaced, each by itself."""
    return stream if encoding == "utf-8" else pa.PythonFile(_Transcoded(stream, encoding), mode="r")


class _Transcoded(io.RawIOBase):
    def __init__(self, stream: pa.NativeFile, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._waiting = b""
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        while not self._waiting and not self._ended:
            block = self._stream.read(BLOCK_BYTES)
            self._ended = not block
            self._waiting = self._decoder.decode(block, final=self._ended).encode(errors="replace")
        count = min(len(room), len(self._waiting))
        room[:count], self._waiting = self._waiting[:count], self._waiting[count:]
        return count


def unpacked(file: pa.NativeFile, name: str) -> pa.NativeFile:
    packed = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix.lower())
    return file if packed is None else pa.CompressedInputStream(file, packed)


def csv_header(
    stream: pa.NativeFile, name: str, quoted_newlines: bool, dialect: CsvDialect = COMMAS
) -> tuple[list[str], bytes]:
    """The column names, and what was read of the stream after them, as UTF-8 if the dialect has another encoding.

    They are in the first line that is no comment, or in the first record where one may have several, unless the dialect
    names them or says that there are none. Nothing beyond it is looked at, so that no name, which people are shown, can
    hold what stands in a row.
    """
    start = stream.read(MOST_HEADER_BYTES).removeprefix(_BOM)
    if isinstance(dialect.header, tuple):
        return list(dialect.header), start
    comments, header = b"", b""
    for line in start.splitlines(keepends=True):
        if not header and dialect.comment is not None and line.startswith(dialect.comment.encode()):
            comments += line
            continue
        header += line
        if not quoted_newlines or _is_closed(header, dialect):
            break
    text = header.decode("utf-8", "replace").rstrip("\r\n")
    names = None
    if len(comments) + len(header) < MOST_HEADER_BYTES and not (quoted_newlines and not _is_closed(header, dialect)):
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE
        with suppress(csv.Error):
            lines = io.StringIO(text, newline="")
            names = next(csv.reader(lines, delimiter=dialect.delimiter, quotechar=dialect.quote, quoting=quoting), [])
    if names is None:
        raise SourceError(f"cannot read {name}: its first line is no CSV header", "check source.uri and the file")
    if not names:
        raise SourceError(f"{name} is empty", "a CSV file starts with a line of column names")
    if dialect.header is False:
        return [f"column_{number}" for number in range(1, len(names) + 1)], start
    return names, start[len(comments) + len(header) :]


def _is_closed(record: bytes, dialect: CsvDialect) -> bool:
    return dialect.quote is None or record.count(dialect.quote.encode()) % 2 == 0


def csv_batches(
    stream: pa.NativeFile,
    name: str,
    columns: Sequence[str],
    batch_rows: int,
    quoted_newlines: bool,
    dialect: CsvDialect = COMMAS,
) -> Iterator[pa.RecordBatch]:
    """These columns of a CSV stream as text, in the order of its lines."""
    header, front = csv_header(stream, name, quoted_newlines, dialect)
    absent = [column for column in columns if column not in header]
    if absent:
        raise SpecError(f"{name} has no column(s) {', '.join(absent)}", "correct the names in the spec")
    wanted, fields = [header.index(column) for column in columns], len(header)
    marks = Marks.of(dialect)
    parse = partial(_parsed if quoted_newlines else _parsed_lines, fields=fields, wanted=wanted, dialect=dialect)
    blocks = record_blocks(stream, front, fields, marks) if quoted_newlines else line_blocks(stream, front)
    with ThreadPoolExecutor(_PARSERS) as pool:
        waiting: deque[Future[pa.Table | None]] = deque()
        while True:
            while len(waiting) <= _PARSERS and (block := next(blocks, None)) is not None:
                waiting.append(pool.submit(parse, block))
            if not waiting:
                return
            if (found := waiting.popleft().result()) is not None:
                yield from found.rename_columns(list(columns)).to_batches(batch_rows)


def _parsed_lines(
    lines: np.ndarray, fields: int, wanted: Sequence[int], dialect: CsvDialect = COMMAS
) -> pa.Table | None:
    """The same as screening the lines and parsing what passes, in one pass where nothing is amiss.

    Where line breaks are all LF or all CR LF, Arrow finds a row for each only if each ended a row of so many fields, in
    no quotes. At the end of the bytes Arrow closes a quote as screening does, so the last break is left out.
    """
    feeds, returns = lines == LF, lines == CR
    breaks, two_bytes = np.count_nonzero(feeds), returns.any()
    alike = not two_bytes or breaks == np.count_nonzero(returns) == np.count_nonzero(returns[:-1] & feeds[1:])
    if alike and len(lines) <= LONGEST and dialect.comment is None:
        with suppress(pa.ArrowInvalid):
            found = _parsed(lines[: -2 if two_bytes else -1], fields, wanted, dialect)
            if found is not None and found.num_rows == breaks:
                return found
    return _parsed(screened(lines, fields, Marks.of(dialect)), fields, wanted, dialect)


def _parsed(records: np.ndarray, fields: int, wanted: Sequence[int], dialect: CsvDialect = COMMAS) -> pa.Table | None:
    """Some columns of proper records. They are numbered, since names may be given twice."""
    if not len(records):
        return None
    names = [f"c{i}" for i in range(fields)]
    if records[0] == _BOM[0]:  # which Arrow would take off the start of any block; an empty line is no row
        records = np.append(np.frombuffer(b"\n", np.uint8), records)
    return pyarrow.csv.read_csv(
        pa.BufferReader(pa.py_buffer(records)),
        pyarrow.csv.ReadOptions(column_names=names, block_size=len(records) + 1, use_threads=False),
        pyarrow.csv.ParseOptions(
            newlines_in_values=True, delimiter=dialect.delimiter, quote_char=dialect.quote or False
        ),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(names, pa.string()),
            null_values=["", *dialect.nulls],
            strings_can_be_null=True,
            include_columns=[names[position] for position in wanted],
        ),
    )
