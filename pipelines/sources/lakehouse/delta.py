"""A Delta Lake table, in a folder of this machine or in an object store, read at one version.

The version is fixed when the source is first looked at, or was named before (`source.version`), and every read in
every process is of that version's files: a table that is written to meanwhile is read as it was. The log says which
files those are, what their partition columns hold and which rows were deleted since they were written; deleted rows are
left out. What the log says of the values in a file (its statistics) is never looked at.

A reader feature that is not understood here may change what a file means, so it is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.fs

from understudy.pipelines.errors import Bare, SourceError, SpecError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.files.object_paths import endpoint
from understudy.pipelines.sources.files.parquet import MOST_ROWS, read_footer, read_row_groups, understood
from understudy.pipelines.sources.lakehouse.versions import gone, needs, parsed, replaced
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec

_UNDERSTOOD = {"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", "variantType", "typeWidening"}
"""Reader features: rows left out, a type that Arrow has, how the log is kept, columns that are no values, casts."""


def delta_uri(address: Address, base: Path) -> str:
    """What the library calls the table: a path, or the address in the store."""
    path = address.path(base) if address.scheme == "delta" else None
    return f"{address.scheme.removeprefix('delta-')}://{address.place.rstrip('/')}" if path is None else str(path)


def delta_options(uri: str) -> dict[str, str]:
    """For the library beyond what it finds in the environment: a local store speaks plain HTTP."""
    return {"aws_allow_http": "true"} if uri.startswith("s3://") and endpoint().startswith("http://") else {}


def delta_table(uri: str, version: int | None = None) -> Any:
    """The table at a version, by default the newest; errors are the library's own."""
    with needs("delta://", "deltalake", "delta"):
        from deltalake import DeltaTable
    return DeltaTable(uri, version=version, storage_options=delta_options(uri))


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
        with Bare(), _reading(file.uri, file.path):
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


@dataclass(frozen=True)
class DeltaSource(InParts):
    """`pinned` names the version that is meant, as `snapshot_id` did; by default the newest."""

    uri: str
    pinned: str | None = None

    terms = Terms(local=True, versions=True)

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> DeltaSource:
        return cls(delta_uri(source.address, base), source.version)

    def schema(self) -> pa.Schema:
        self._files  # noqa: B018  files that are gone are found before anything is paid for
        return self._schema

    def parts(self) -> Sequence[DeltaPart]:
        found = []
        for file, group_rows in self._files:
            run: list[int] = []
            first = 0
            for group, rows in enumerate(group_rows):
                if run and sum(group_rows[i] for i in run) + rows > MOST_ROWS:
                    found.append(_part(file, run, first, group_rows))
                    first, run = first + sum(group_rows[i] for i in run), []
                run.append(group)
            if run:
                found.append(_part(file, run, first, group_rows))
        return found

    def row_estimate(self) -> int | None:
        """By the files' footers; rows deleted since are counted in."""
        return sum(sum(group_rows) for _, group_rows in self._files)

    def snapshot_id(self) -> str:
        return _label(self._table)

    def __getstate__(self) -> dict[str, Any]:
        known = self.snapshot_id() if "_table" in self.__dict__ else self.pinned
        return {"uri": self.uri, "pinned": known}

    @cached_property
    def _table(self) -> Any:
        number = None if self.pinned is None else parsed(self.pinned)[0]
        with Bare(), _reading(self.uri, self.uri):
            if number is not None and not _is_there(self.uri, number):
                raise gone(self.uri, f"version {number}")
            table = delta_table(self.uri, number)
        if self.pinned is not None and _label(table) != self.pinned:
            raise replaced(self.uri, f"version {number}")
        _check_features(table, self.uri)
        return table

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema(self._table.schema())

    @cached_property
    def _files(self) -> list[tuple[DeltaFile, list[int]]]:
        """Each data file of the version, and the rows of its row groups."""
        found = []
        with Bare(), _reading(self.uri, self.uri):
            adds = pa.table(self._table.get_add_actions()).sort_by("path")
            kept = _kept(self._table)
        parted = adds.column("partition").combine_chunks() if "partition" in adds.column_names else pa.array([{}])
        names = [parted.type.field(i).name for i in range(parted.type.num_fields)]
        for row, (raw, size) in enumerate(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True)):
            path = _relative(raw, self.uri)
            constants = {name: parted.field(name)[row].cast(self._schema.field(name).type) for name in names}
            bare = DeltaFile(self.uri, path, size, self._schema, frozenset(), constants)
            with Bare(), _reading(self.uri, path), bare.open() as stream, understood(path):
                schema, group_rows = read_footer(stream)
            held = frozenset(name for name in schema.names if name in self._schema.names and name not in constants)
            for name in sorted(held):
                _check_type(schema.field(name).type, self._schema.field(name).type, name, path)
            keep = _bits(kept.pop(path, None), sum(group_rows), path)
            file = DeltaFile(self.uri, path, size, self._schema, held, constants, keep)
            found.append((file, group_rows))
        if kept:
            raise SourceError(f"{self.uri} lists deleted rows of files it does not have", "repair the table's log")
        return found

    @classmethod
    def version(cls, source: SourceSpec, base: Path) -> str:
        return cls.opened(source, base, None).snapshot_id()


class StoredDeltaSource(DeltaSource):
    """In an object store: `delta-s3://bucket/path`, `delta-gs://...`, `delta-abfs://...`."""

    terms = Terms(versions=True)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        uri = delta_uri(address, base)
        at = f" at {fingerprint(endpoint())}" if uri.startswith("s3://") and endpoint() else ""
        return f"object store {uri}{at}"


def _part(file: DeltaFile, run: Sequence[int], first: int, group_rows: Sequence[int]) -> DeltaPart:
    return DeltaPart(file, tuple(run), first, sum(group_rows[i] for i in run))


def _label(table: Any) -> str:
    """The version and which table it is of: one that is made anew begins with version 0 again."""
    return f"{table.version()}-{str(table.metadata().id).replace('-', '')[:12]}"


def _is_there(uri: str, version: int) -> bool:
    """Whether the log still has the version; raises what the library says if there is no table at all."""
    if delta_table(uri).version() < version:
        return False
    try:
        delta_table(uri, version)
    except ImportError:
        raise
    except Exception:  # of many kinds: the log's files up to it were cleaned away
        return False
    return True


def _kept(table: Any) -> dict[str, np.ndarray]:
    """Of each file of which rows were deleted: for each row up to the last deleted one, whether it is still there."""
    root = urlsplit(table.table_uri).path.rstrip("/")
    found = {}
    for batch in table.deletion_vectors():
        rows = pa.record_batch(batch)
        for uri, mask in zip(rows["filepath"].to_pylist(), rows["selection_vector"], strict=True):
            path = unquote(urlsplit(uri).path).removeprefix(unquote(root)).lstrip("/")
            found[path] = mask.values.to_numpy(zero_copy_only=False)
    return found


def _bits(kept: np.ndarray | None, rows: int, path: str) -> bytes | None:
    if kept is None:
        return None
    if len(kept) > rows:
        raise SourceError(f"{path} has fewer rows than were deleted of it", "repair the table's log")
    return np.packbits(np.concatenate([kept, np.ones(rows - len(kept), bool)])).tobytes()


def _relative(raw: str, uri: str) -> str:
    path = unquote(raw)
    if "://" in path or path.startswith("/"):
        raise SpecError(f"{uri} is a shallow clone: its files lie with another table", "name that table instead")
    return path


def _check_features(table: Any, uri: str) -> None:
    features = set(table.protocol().reader_features or ()) - _UNDERSTOOD
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if mapped:
        features.add("columnMapping")
    else:
        features.discard("columnMapping")
    if features:
        raise SpecError(
            f"{uri} uses what this version does not read: {', '.join(sorted(features))}",
            "give the source a copy of the table without it (CREATE TABLE ... AS SELECT)",
        )


def _check_type(held: pa.DataType, declared: pa.DataType, name: str, path: str) -> None:
    """Types that a file may have instead of the table's: none of them makes a cast fail at a value."""
    alike = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_timestamp, pa.types.is_decimal, pa.types.is_date,
        lambda type_: pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_),
        lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_),
    )  # fmt: skip
    wider = pa.types.is_integer(held) and (pa.types.is_floating(declared) or pa.types.is_decimal(declared))
    wider = wider or (pa.types.is_date(held) and pa.types.is_timestamp(declared))
    if held != declared and not wider and not any(kind(held) and kind(declared) for kind in alike):
        raise SourceError(f"column {name!r} is {held} in {path} but {declared} in the table", "rewrite the file")


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


def _store(uri: str) -> pa.fs.FileSystem:
    with needs("delta://", "deltalake", "delta"):
        from deltalake.fs import DeltaStorageHandler
    return pa.fs.PyFileSystem(DeltaStorageHandler(uri, delta_options(uri)))


@contextmanager
def _reading(uri: str, what: str) -> Iterator[None]:
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
