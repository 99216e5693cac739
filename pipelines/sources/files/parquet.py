"""A Parquet file, or a directory of them, as one table; folders named `column=value` are columns too (`hive`). Arrow
reads; nothing here looks into a page.

Files may be damaged or hostile: whatever is wrong with one is a SourceError that names the file and nothing in it.
Bytes are read, never mapped: a file that is cut while it is mapped takes the process with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.pipelines.errors import Bare, SourceError
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.files.hive import Constants, constants_of, shared, with_constants, with_names
from understudy.pipelines.sources.pinning import FilePin, state_of
from understudy.pipelines.table.keeping import type_names

PARTS, LEAST_ROWS, MOST_ROWS = 16, 65_536, 1_000_000
"""A table is cut into so many parts, so that threads share it evenly, or into parts of so few or so many rows."""

BUFFER_BYTES = 1 << 20
"""Read at a time of a column, however long its chunks are, or say that they are."""

CODE_BYTES = 2.25
"""Most bytes that a value takes in pages of dictionary codes (18 bits: a megabyte of the shortest texts)."""


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of one file."""

    pin: FilePin
    row_groups: tuple[int, ...]
    rows: int
    constants: Constants = ()

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        path = self.pin.path

        def held(names: list[str]) -> Iterator[pa.RecordBatch]:
            return read_row_groups(path, self.row_groups, names, batch_rows)

        with Bare(), _reading(path), self.pin.unchanged():
            yield from with_constants(held, columns, self.constants, self.rows, batch_rows)


def read_footer(file: Any) -> tuple[pa.Schema, list[int]]:
    """The schema and the rows of each row group, of a path or an open file."""
    with pq.ParquetFile(file) as opened:
        metadata = opened.metadata
        group_rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if any(rows < 0 for rows in group_rows):
            raise pa.ArrowInvalid("row groups of less than no rows")
        return opened.schema_arrow, group_rows


def read_row_groups(
    file: Any, row_groups: Sequence[int], columns: Sequence[str], batch_rows: int, far: bool = False
) -> Iterator[pa.RecordBatch]:
    """Batches of these columns of a path or an open file. Texts that are dictionary codes in it stay so: each distinct
    one is then looked up once, not once a row. What is `far` is asked for in few, large pieces."""
    metadata = pq.read_metadata(file)
    with pq.ParquetFile(
        file,
        metadata=metadata,
        read_dictionary=_coded_columns(metadata, row_groups, columns),
        pre_buffer=far,
        buffer_size=BUFFER_BYTES,
        page_checksum_verification=True,
    ) as opened:
        for row_group in row_groups:
            missing = metadata.row_group(row_group).num_rows
            for batch in opened.iter_batches(batch_rows, [row_group], list(columns), use_threads=False):
                missing -= batch.num_rows
                yield _sound(batch.select(columns))
            if missing:
                raise pa.ArrowInvalid("rows are missing")


@dataclass(frozen=True)
class ParquetSource(InParts):
    """Files in order of name. They must agree on columns and types; `schema` reads every footer to see."""

    path: Path

    def schema(self) -> pa.Schema:
        first_pin, first, _ = self._footers[0]
        for pin, schema, _ in self._footers[1:]:
            _check_agreement(first_pin.path, first, pin.path, schema)
        return with_names(first, shared([self._constants(pin, schema) for pin, schema, _ in self._footers]))

    def declared_types(self) -> dict[str, str]:
        """Types that published columns may keep, by the first file, which all others agree with: a plan opens no
        other."""
        if "_footers" in self.__dict__:
            return type_names(self._footers[0][1])
        path = _files(self.path)[0]
        with Bare(), _reading(path):
            return type_names(read_footer(path)[0])

    def parts(self) -> Sequence[ParquetPart]:
        """Runs of row groups, none across two files."""
        rows_in_all = sum(sum(group_rows) for *_, group_rows in self._footers)
        most = min(max(rows_in_all // PARTS, LEAST_ROWS), MOST_ROWS)
        self.schema()  # no part is read of files that disagree
        found = []
        for pin, schema, group_rows in self._footers:
            constants = self._constants(pin, schema)
            run: list[int] = []
            rows = 0
            for group, more in enumerate(group_rows):
                if run and rows + more > most:
                    found.append(ParquetPart(pin, tuple(run), rows, constants))
                    run, rows = [], 0
                run.append(group)
                rows += more
            if run:
                found.append(ParquetPart(pin, tuple(run), rows, constants))
        return found

    def _constants(self, pin: FilePin, schema: pa.Schema) -> Constants:
        return () if pin.path == self.path else constants_of(pin.path.relative_to(self.path).parts[:-1], schema)

    def row_estimate(self) -> int | None:
        return sum(sum(group_rows) for *_, group_rows in self._footers)

    def snapshot_id(self) -> str:
        return state_of(pin for pin, *_ in self._footers)

    @cached_property
    def _footers(self) -> list[tuple[FilePin, pa.Schema, list[int]]]:
        """Pin, schema and the rows of each row group of each file."""
        found = []
        for path in _files(self.path):
            pin = FilePin.of(path)
            with Bare(), _reading(path), pin.unchanged():
                found.append((pin, *read_footer(path)))
        return found


def _coded_columns(metadata: pq.FileMetaData, row_groups: Sequence[int], columns: Sequence[str]) -> list[str]:
    """Those of the columns that Arrow is to leave as dictionary codes, with which the same values come faster."""
    leaves = {metadata.schema.column(i).path: i for i in range(metadata.num_columns)}
    texts = [name for name in columns if "." not in name and name in leaves and _is_text(metadata, leaves[name])]
    return [name for name in texts if all(_is_coded(metadata, group, leaves[name]) for group in row_groups)]


def _is_text(metadata: pq.FileMetaData, leaf: int) -> bool:
    return str(metadata.schema.column(leaf).logical_type.type) == "STRING"


def _is_coded(metadata: pq.FileMetaData, row_group: int, leaf: int) -> bool:
    """Whether the chunk holds codes to the last page: a writer whose dictionary grew too long goes on with texts,
    of which Arrow would make a dictionary by hashing each, and that takes longer than it saves."""
    chunk = metadata.row_group(row_group).column(leaf)
    if not chunk.has_dictionary_page or chunk.dictionary_page_offset is None:
        return False
    dictionary_bytes = chunk.data_page_offset - chunk.dictionary_page_offset
    return bool(chunk.total_compressed_size - dictionary_bytes <= CODE_BYTES * chunk.num_values)


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, unless codes point outside their dictionary: Arrow hands out those of a damaged file unchecked."""
    for values in batch.columns:
        if pa.types.is_dictionary(values.type):
            ends = pc.min_max(values.indices)
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and not 0 <= low <= high < len(values.dictionary):
                raise pa.ArrowInvalid("codes are not of the dictionary")
    return batch


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
        here, there = _types(first, name), _types(schema, name)
        if here != there:
            raise SourceError(
                f"column {name!r} is {' and '.join(map(str, here))} in {first_path.name} but "
                f"{' and '.join(map(str, there))} in {path}",
                "rewrite the files with one type a column",
            )


def _types(schema: pa.Schema, name: str) -> list[pa.DataType]:
    """Of every column of that name: some files have two, which matters only if the spec names them."""
    return [schema.field(place).type for place in schema.get_all_field_indices(name)]


@contextmanager
def understood(path: str) -> Iterator[None]:
    """What Arrow cannot make sense of is a SourceError; what system or network say of the file is for the caller."""
    try:
        yield
    except _NO_SENSE as error:
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        problem = _damaged(path, error)
    else:
        return
    raise problem


_NO_SENSE = (pa.ArrowException, OSError, ValueError, LookupError, OverflowError, MemoryError)
"""Arrow's own, and Python's where its binding meets names that are no text, or numbers and sizes that cannot be."""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Any failure to read the file is a SourceError that names it and nothing in it."""
    try:
        with understood(str(path)):
            yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        problem = SourceError(f"cannot read {path}: {reason}", "restore or rewrite the file")
    else:
        return
    raise problem


def _damaged(path: str, error: Exception) -> SourceError:
    if "crypt" in str(error).lower():  # Arrow's words for keys it was not given; none of them is a value
        return SourceError(
            f"cannot read {path}: it is encrypted", "give the source a copy that is not, or a view of it"
        )
    if isinstance(error, MemoryError):
        return SourceError(
            f"cannot read {path}: it asks for more memory than there is",
            "restore the file, or rewrite it with smaller row groups",
        )
    return SourceError(f"cannot read {path}: it is not a complete Parquet file", "restore or rewrite the file")
