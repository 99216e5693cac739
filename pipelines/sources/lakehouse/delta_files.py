"""The data files of a version of a Delta table: read as the table declares its columns, without rows deleted since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs

from understudy.pipelines.errors import Bare, SourceError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS
from understudy.pipelines.sources.files.object_paths import endpoint
from understudy.pipelines.sources.files.parquet import read_row_groups, understood
from understudy.pipelines.sources.lakehouse.versions import needs


@dataclass(frozen=True)
class DeltaFile:
    """A data file of a version: where, how long, the columns in it, those that are one value, and the rows kept."""

    uri: str
    path: str
    size: int
    schema: pa.Schema
    """Of the table."""
    held: frozenset[str]
    constants: Mapping[str, pa.Scalar] = field(repr=False)
    keep: bytes | None = field(default=None, repr=False)
    """A bit for each row of the file; None: all of them."""

    @contextmanager
    def open(self) -> Iterator[Any]:
        store = _store(self.uri)
        with store.open_input_file(self.path) as stream:
            if stream.size() != self.size:
                raise SourceError(f"{self.path} is not as long as the table's log says", "restore the file")
            yield stream


@dataclass(frozen=True)
class DeltaPart:
    """A run of row groups of one file."""

    file: DeltaFile
    row_groups: tuple[int, ...]
    first: int
    rows: int

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        file = self.file
        held = [name for name in columns if name in file.held]
        keep = None if file.keep is None else np.unpackbits(np.frombuffer(file.keep, np.uint8))[self.first :]
        row = 0
        with Bare(), reading_delta(file.uri, file.path):
            for batch in self._batches(held, batch_rows):
                found = batch
                if keep is not None:
                    found = batch.filter(pa.array(keep[row : row + batch.num_rows].astype(bool)))
                row += batch.num_rows
                yield _as_declared(found, columns, file)

    def _batches(self, held: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        if held:
            with self.file.open() as stream, understood(self.file.path):
                yield from read_row_groups(stream, self.row_groups, held, batch_rows, far=True)
            return
        for start in range(0, self.rows, batch_rows):  # none of the columns is in the file: only how many rows is
            rows = pa.nulls(min(batch_rows, self.rows - start))
            yield pa.RecordBatch.from_arrays([rows], names=[""])


def check_type(held: pa.DataType, declared: pa.DataType, name: str, path: str) -> None:
    """A file may have another type than the table where every value of it is one of the table's, so that no value makes
    a cast fail."""
    if held != declared and not _is_text(held, declared) and not _is_within(held, declared):
        raise SourceError(f"column {name!r} is {held} in {path} but {declared} in the table", "rewrite the file")


def _is_text(held: pa.DataType, declared: pa.DataType) -> bool:
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    blobs = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(any(kind(held) for kind in kinds) and any(kind(declared) for kind in kinds) for kinds in (texts, blobs))


def _is_within(held: pa.DataType, declared: pa.DataType) -> bool:
    if pa.types.is_timestamp(held) and pa.types.is_timestamp(declared):
        return True  # nanoseconds become microseconds; a zone is how moments are told
    if pa.types.is_floating(held) and pa.types.is_floating(declared):
        return bool(held.bit_width <= declared.bit_width)
    if pa.types.is_decimal(held) and pa.types.is_decimal(declared):
        whole = declared.precision - declared.scale >= held.precision - held.scale
        return bool(whole and declared.scale >= held.scale)
    if pa.types.is_signed_integer(held):
        if pa.types.is_signed_integer(declared):
            return bool(held.bit_width <= declared.bit_width)
        if pa.types.is_decimal(declared):
            return bool(declared.precision - declared.scale >= (20 if held.bit_width == 64 else 10))
        return bool(pa.types.is_floating(declared) and held.bit_width < declared.bit_width)
    return False


def _as_declared(batch: pa.RecordBatch, columns: Sequence[str], file: DeltaFile) -> pa.RecordBatch:
    """The asked columns in their order, with the table's types; text that comes as codes stays so."""
    arrays = []
    for name in columns:
        type_ = file.schema.field(name).type
        if name in file.held:
            values = batch.column(name)
            coded = pa.types.is_dictionary(values.type)
            arrays.append(values if coded or values.type == type_ else values.cast(type_, safe=False))
        elif name in file.constants:
            arrays.append(pa.repeat(file.constants[name], batch.num_rows))
        else:  # added to the table after the file was written
            arrays.append(pa.nulls(batch.num_rows, type_))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def delta_options(uri: str) -> dict[str, str]:
    """For the library beyond what it finds in the environment: a local store speaks plain HTTP."""
    return {"aws_allow_http": "true"} if uri.startswith("s3://") and endpoint().startswith("http://") else {}


def _store(uri: str) -> pa.fs.FileSystem:
    with needs("delta://", "deltalake", "delta"):
        from deltalake.fs import DeltaStorageHandler
    return pa.fs.PyFileSystem(DeltaStorageHandler(uri, delta_options(uri)))


@contextmanager
def reading_delta(uri: str, what: str) -> Iterator[None]:
    """Whatever the library says is an error that names the file or table and nothing in it."""
    try:
        yield
    except UnderstudyError:
        raise
    except Exception as error:
        name, text = type(error).__name__, str(error)
    else:
        return
    if name == "TableNotFoundError" or "no files in log segment" in text.lower():
        raise SourceError(f"there is no Delta table at {uri}", "check source.uri; relative paths start at the spec")
    if name == "FileNotFoundError":
        raise SourceError(
            f"{what} is gone: the version of {uri} that is read lost its files (vacuumed?)",
            "restore them; or release the table as it is now, which is another, charged release",
        )
    raise SourceError(
        f"cannot read {what} ({name})", "read the table with Delta Lake's own tools to see why; check the credentials"
    )
