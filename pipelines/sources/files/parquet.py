"""A Parquet file, or a directory of them, as one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.files.parquet_codes import OpenFile, coded_column, encode_chunk
from understudy.pipelines.sources.pinning import FilePin
from understudy.pipelines.table.coding.encode import encode_into
from understudy.pipelines.table.domain import DomainColumn

PARTS, LEAST_ROWS, MOST_ROWS = 16, 65_536, 1_000_000
"""A table is cut into so many parts, so that threads share it evenly, or into parts of so few or so many rows."""

CODED_VALUES = 1 << 26
"""Most values of a row group that are held as codes at one time."""


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of one file."""

    pin: FilePin
    row_groups: tuple[int, ...]
    texts: tuple[str, ...]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with self._opened(columns) as opened:
            for row_group in self.row_groups:
                coded = _coded(opened, row_group, columns)
                rest = [name for name in columns if name not in coded]
                if not rest:
                    batch = pa.RecordBatch.from_pydict({name: coded[name] for name in columns})
                    yield from _slices(batch, batch_rows)
                    continue
                done = 0
                for batch in opened.file.iter_batches(batch_rows, [row_group], rest, use_threads=False):
                    by_name = {name: coded[name].slice(done, batch.num_rows) for name in coded}
                    by_name |= dict(zip(rest, batch.select(rest).columns, strict=True))
                    done += batch.num_rows
                    yield pa.RecordBatch.from_pydict({name: by_name[name] for name in columns})

    def encode(
        self, columns: Mapping[int, DomainColumn], room: Callable[[int], np.ndarray], batch_rows: int
    ) -> Iterator[np.ndarray]:
        """The codes of each column, in the row numbered so of the `room` for as many table rows as come at once."""
        with self._opened([column.name for column in columns.values()]) as opened:
            for row_group in self.row_groups:
                if not _may_be_held(opened.file, row_group, len(columns)):
                    for batch in _arrow_batches(opened.file, row_group, columns, batch_rows):
                        codes = room(batch.num_rows)
                        encode_into(batch, columns, codes)
                        yield codes
                    continue
                codes = room(opened.file.metadata.row_group(row_group).num_rows)
                rest = {
                    i: column for i, column in columns.items() if not encode_chunk(opened, row_group, column, codes[i])
                }
                done = 0
                for batch in _arrow_batches(opened.file, row_group, rest, batch_rows):
                    encode_into(batch, rest, codes[:, done : done + batch.num_rows])
                    done += batch.num_rows
                if rest and done != codes.shape[1]:
                    raise pa.ArrowInvalid("rows are missing")
                yield codes

    @contextmanager
    def _opened(self, columns: Sequence[str]) -> Iterator[OpenFile]:
        # What is stored as dictionary codes stays so: each distinct value is then looked up once, not once a row.
        texts = [name for name in self.texts if name in columns]
        with (
            _reading(self.pin.path),
            self.pin.unchanged(),
            pq.ParquetFile(self.pin.path, memory_map=True, read_dictionary=texts) as file,
            pa.memory_map(str(self.pin.path)) as bytes_,
        ):
            yield OpenFile(file, bytes_, file.schema_arrow)


@dataclass(frozen=True)
class ParquetSource(InParts):
    """Files in order of name. They must agree on columns and types; `schema` reads every footer to see."""

    path: Path

    def schema(self) -> pa.Schema:
        first_pin, first, _ = self._footers[0]
        for pin, schema, _ in self._footers[1:]:
            _check_agreement(first_pin.path, first, pin.path, schema)
        return first

    def parts(self) -> Sequence[ParquetPart]:
        """Runs of row groups, none across two files."""
        rows_in_all = sum(sum(group_rows) for *_, group_rows in self._footers)
        most = min(max(rows_in_all // PARTS, LEAST_ROWS), MOST_ROWS)
        texts = tuple(field.name for field in self.schema() if _is_text(field.type))
        found = []
        for pin, _, group_rows in self._footers:
            run: list[int] = []
            rows = 0
            for group, more in enumerate(group_rows):
                if run and rows + more > most:
                    found.append(ParquetPart(pin, tuple(run), texts))
                    run, rows = [], 0
                run.append(group)
                rows += more
            if run:
                found.append(ParquetPart(pin, tuple(run), texts))
        return found

    def row_estimate(self) -> int | None:
        return sum(sum(group_rows) for *_, group_rows in self._footers)

    @cached_property
    def _footers(self) -> list[tuple[FilePin, pa.Schema, list[int]]]:
        """Pin, schema and the rows of each row group of each file."""
        found = []
        for path in _files(self.path):
            pin = FilePin.of(path)
            with _reading(path), pin.unchanged(), pq.ParquetFile(path) as file:
                groups = range(file.metadata.num_row_groups)
                rows = [file.metadata.row_group(group).num_rows for group in groups]
                found.append((pin, file.schema_arrow, rows))
        return found


def _may_be_held(file: pq.ParquetFile, row_group: int, columns: int) -> bool:
    return bool(file.metadata.row_group(row_group).num_rows * columns <= CODED_VALUES)


def _coded(opened: OpenFile, row_group: int, columns: Sequence[str]) -> dict[str, pa.DictionaryArray]:
    """Those of the columns that are dictionary codes in the file."""
    if not _may_be_held(opened.file, row_group, len(columns)):
        return {}
    found = {name: coded_column(opened, row_group, name) for name in columns}
    return {name: array for name, array in found.items() if array is not None}


def _arrow_batches(
    file: pq.ParquetFile, row_group: int, columns: Mapping[int, DomainColumn], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    if columns:
        names = [column.name for column in columns.values()]
        yield from file.iter_batches(batch_rows, [row_group], names, use_threads=False)


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise SourceError(f"there is no file or directory {path}", "check source.uri; relative paths start at the spec")
    if path.is_file():
        return [path]
    hidden = (".", "_")
    files = sorted(
        file
        for file in path.rglob("*.parquet")
        if file.is_file() and not any(part.startswith(hidden) for part in file.relative_to(path).parts)
    )
    if not files:
        raise SourceError(f"the directory {path} holds no .parquet file", "check source.uri")
    return files


def _check_agreement(first_path: Path, first: pa.Schema, path: Path, schema: pa.Schema) -> None:
    for missing_from, here, there in ((path, schema, first), (first_path, first, schema)):
        absent = [name for name in there.names if name not in here.names]
        if absent:
            raise SourceError(
                f"{missing_from} lacks the column(s) {', '.join(absent)} of other files in the directory",
                "make every file of the directory hold the same columns",
            )
    for name in first.names:
        here, there = first.field(name).type, schema.field(name).type
        if here != there:
            raise SourceError(
                f"column {name!r} is {here} in {first_path.name} but {there} in {path}",
                "rewrite the files with one type a column",
            )


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Any failure to read the file is a SourceError that names it and nothing in it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        problem = unreadable(str(path), error)
    else:
        return
    raise problem  # outside the handler, so that nothing of the reader's own words travels on


def unreadable(path: str, error: Exception) -> SourceError:
    if "crypt" in str(error).lower():  # Arrow's words for keys it was not given; none of them is a value
        return SourceError(
            f"cannot read {path}: it is encrypted", "give the source a copy that is not, or a view of it"
        )
    reason = getattr(error, "strerror", None) or "it is not a complete Parquet file"
    return SourceError(f"cannot read {path}: {reason}", "restore or rewrite the file")
