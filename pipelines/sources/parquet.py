"""A Parquet file, or a directory of them, as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS, read_parts

PART_ROWS = 1_000_000


@dataclass(frozen=True)
class ParquetPart:
    """Some row groups of one file."""

    path: Path
    row_groups: tuple[int, ...]
    texts: tuple[str, ...]

    def read(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Text is read as dictionary codes: each distinct value is then looked up once, not once a row.
        texts = [name for name in self.texts if name in columns]
        with _reading(self.path), pq.ParquetFile(self.path, memory_map=True, read_dictionary=texts) as file:
            yield from file.iter_batches(batch_rows, list(self.row_groups), list(columns), use_threads=False)


@dataclass(frozen=True)
class ParquetSource:
    """Files in order of name. They must agree on columns and types; `schema` reads every footer to see."""

    path: Path

    def schema(self) -> pa.Schema:
        first_path, first, _ = self._footers[0]
        for path, schema, _ in self._footers[1:]:
            _check_agreement(first_path, first, path, schema)
        return first

    def parts(self) -> Sequence[ParquetPart]:
        """Runs of row groups of about PART_ROWS rows, none across two files."""
        texts = tuple(field.name for field in self.schema() if _is_text(field.type))
        found = []
        for path, _, group_rows in self._footers:
            run: list[int] = []
            rows = 0
            for group, more in enumerate(group_rows):
                if run and rows + more > PART_ROWS:
                    found.append(ParquetPart(path, tuple(run), texts))
                    run, rows = [], 0
                run.append(group)
                rows += more
            if run:
                found.append(ParquetPart(path, tuple(run), texts))
        return found

    def batches(
        self, columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        return read_parts(self.parts(), columns, unit, key, batch_rows, self.row_estimate())

    def row_estimate(self) -> int | None:
        return sum(sum(group_rows) for *_, group_rows in self._footers)

    @cached_property
    def _footers(self) -> list[tuple[Path, pa.Schema, list[int]]]:
        """Path, schema and the rows of each row group of each file."""
        found = []
        for path in _files(self.path):
            with _reading(path), pq.ParquetFile(path) as file:
                groups = range(file.metadata.num_row_groups)
                rows = [file.metadata.row_group(group).num_rows for group in groups]
                found.append((path, file.schema_arrow, rows))
        return found


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
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Any failure to read the file is a SourceError that names it and nothing in it."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or "it is not a complete Parquet file"
        raise SourceError(f"cannot read {path}: {reason}", "restore or rewrite the file") from None
