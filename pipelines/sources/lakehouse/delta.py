"""A Delta Lake table, in a folder of this machine or in an object store, read at one version.

The version is fixed when the source is first looked at, or was named before (`source.version`), and every read in
every process is of that version's files: a table that is written to meanwhile is read as it was. The log says which
files those are, what their partition columns hold and which rows were deleted since they were written; deleted rows are
left out. What the log says of the values in a file (its statistics) is never looked at.

A reader feature that is not understood here may change what a file means, so it is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import Bare, SourceError, SpecError
from understudy.pipelines.sources.base import InParts
from understudy.pipelines.sources.files.object_paths import endpoint
from understudy.pipelines.sources.files.parquet import MOST_ROWS, read_footer, understood
from understudy.pipelines.sources.lakehouse.delta_files import (
    DeltaFile,
    DeltaPart,
    check_type,
    delta_options,
    reading_delta,
)
from understudy.pipelines.sources.lakehouse.versions import gone, needs, parsed, replaced
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.keeping import type_names

_UNDERSTOOD = {"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", "variantType", "typeWidening"}
"""Reader features: rows left out, a type that Arrow has, how the log is kept, columns that are no values, casts."""


def delta_uri(address: Address, base: Path) -> str:
    """What the library calls the table: a path, or the address in the store."""
    path = address.path(base) if address.scheme == "delta" else None
    return f"{address.scheme.removeprefix('delta-')}://{address.place.rstrip('/')}" if path is None else str(path)


def delta_table(uri: str, version: int | None = None) -> Any:
    """The table at a version, by default the newest; errors are the library's own."""
    with needs("delta://", "deltalake", "delta"):
        from deltalake import DeltaTable
    return DeltaTable(uri, version=version, storage_options=delta_options(uri))


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

    def declared_types(self) -> dict[str, str]:
        """Types that published columns may keep, by the log: a plan opens no file."""
        return type_names(self._schema)

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
        with Bare(), reading_delta(self.uri, self.uri):
            if number is not None and not _is_there(self.uri, number):
                raise gone(self.uri, f"version {number}")
            table = delta_table(self.uri, number)
        if self.pinned is not None and _label(table) != self.pinned:
            raise replaced(self.uri, f"version {number}")
        _check_features(table, self.uri)
        return table

    @cached_property
    def _schema(self) -> pa.Schema:
        with Bare(), reading_delta(self.uri, self.uri):
            return pa.schema(self._table.schema())

    @cached_property
    def _files(self) -> list[tuple[DeltaFile, list[int]]]:
        """Each data file of the version, and the rows of its row groups."""
        found = []
        with Bare(), reading_delta(self.uri, self.uri):
            adds = pa.table(self._table.get_add_actions()).sort_by("path")
            kept = _kept(self._table)
        parted = adds.column("partition").combine_chunks() if "partition" in adds.column_names else pa.array([{}])
        names = [parted.type.field(i).name for i in range(parted.type.num_fields)]
        for row, (raw, size) in enumerate(zip(adds["path"].to_pylist(), adds["size_bytes"].to_pylist(), strict=True)):
            path = _relative(raw, self.uri)
            constants = {name: parted.field(name)[row].cast(self._schema.field(name).type) for name in names}
            bare = DeltaFile(self.uri, path, size, self._schema, frozenset(), constants)
            with Bare(), reading_delta(self.uri, path), bare.open() as stream, understood(path):
                schema, group_rows = read_footer(stream)
            held = frozenset(name for name in schema.names if name in self._schema.names and name not in constants)
            for name in sorted(held):
                check_type(schema.field(name).type, self._schema.field(name).type, name, path)
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
