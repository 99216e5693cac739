"""An Apache Iceberg table of a catalogue, read at one snapshot.

`iceberg://CATALOGUE` names a catalogue of PyIceberg's own configuration (`PYICEBERG_CATALOG__CATALOGUE__URI` and its
kin, or `~/.pyiceberg.yaml`): SQL, REST, Glue, Hive, whatever it supports; addresses and secrets are there and never in
a spec. `source.table` is `namespace.name`.

The snapshot is fixed when the source is first looked at, or was named before (`source.version`), and every read in
every process is of that snapshot. Rows that position deletes or deletion vectors take away are left out; equality
deletes are refused. What manifests say of the values in a file (its statistics) is never looked at, neither to leave
out a data file nor to find the files that a delete file is about: that is read from the delete file itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import Bare, SourceError, SpecError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.lakehouse.versions import gone, needs, parsed, replaced
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.keeping import type_names

_CATALOGUE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_EMPTY = 0
"""Stands for the snapshot of a table that has none yet."""


def catalogue_of(address: Address) -> str:
    if not _CATALOGUE.fullmatch(address.place):
        raise SpecError(
            f"{address.key} is not of the form iceberg://CATALOGUE",
            "name a catalogue of PyIceberg's configuration: letters, digits, dashes and underscores",
        )
    return address.place


def iceberg_catalogue(name: str) -> Any:
    """The catalogue, connected. Errors are the library's own."""
    with needs("iceberg://", "pyiceberg", "iceberg"):
        from pyiceberg.catalog import load_catalog
    return load_catalog(name, **_configured(name))


def catalogue_identity(name: str) -> str:
    """Which catalogue this process means by a name, in public words; it is not connected to."""
    try:
        found = _configured(name)
    except Exception:  # told when it is connected to, if it ever is
        return ""
    place = re.sub(r"//[^@/]*@", "//", str(found.get("uri", ""))), str(found.get("warehouse", ""))
    return f"iceberg {name} {fingerprint(' '.join(place))}" if any(place) else ""


def _configured(name: str) -> dict[str, Any]:
    """What environment and file say now; the library itself looks once, when it is imported."""
    from pyiceberg.utils.config import Config

    return Config().get_catalog_config(name) or {}


@dataclass(frozen=True)
class IcebergPart:
    """One data file and the delete files that may be about it."""

    catalogue: str
    table: str
    version: str
    task: Any

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        where = f"{self.catalogue} {self.table}"
        with Bare(), _reading(where):
            for batch in _batches(_at(self.catalogue, self.table, self.version), self.task, columns):
                for start in range(0, batch.num_rows, batch_rows):
                    yield batch.slice(start, batch_rows)


@dataclass(frozen=True)
class IcebergSource(InParts):
    """`pinned` names the snapshot that is meant, as `snapshot_id` did; by default the newest."""

    catalogue: str
    table: str
    pinned: str | None = None

    terms = Terms(table=True, versions=True)

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> IcebergSource:
        assert source.table is not None
        if "." not in source.table:
            raise SpecError("source.table names no namespace", "use source.table: namespace.name")
        return cls(catalogue_of(source.address), source.table, source.version)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        return catalogue_identity(catalogue_of(address))

    @classmethod
    def version(cls, source: SourceSpec, base: Path) -> str:
        return cls.opened(source, base, None).snapshot_id()

    def schema(self) -> pa.Schema:
        with Bare(), _reading(self._where):
            for task in self._tasks:  # files that are gone are found before anything is paid for
                for file in (task.file, *task.delete_files):
                    if not self._snapshot.table.io.new_input(file.file_path).exists():
                        raise FileNotFoundError
        return self._schema

    def declared_types(self) -> dict[str, str]:
        """Types that published columns may keep, by the catalogue: a plan opens no file."""
        return type_names(self._schema)

    @property
    def _schema(self) -> pa.Schema:
        with Bare(), _reading(self._where):
            from pyiceberg.io.pyarrow import schema_to_pyarrow

            return schema_to_pyarrow(self._snapshot.schema, include_field_ids=False).remove_metadata()

    def parts(self) -> Sequence[IcebergPart]:
        return [IcebergPart(self.catalogue, self.table, self.snapshot_id(), task) for task in self._tasks]

    def row_estimate(self) -> int | None:
        """By the snapshot's own summary; rows deleted since are counted in."""
        snapshot = self._snapshot
        if snapshot.id == _EMPTY:
            return 0
        found = snapshot.table.snapshot_by_id(snapshot.id).summary
        total = None if found is None else found["total-records"]
        return None if total is None else int(total)

    def snapshot_id(self) -> str:
        return self._snapshot.label

    def __getstate__(self) -> dict[str, Any]:
        known = self.snapshot_id() if "_snapshot" in self.__dict__ else self.pinned
        return {"catalogue": self.catalogue, "table": self.table, "pinned": known}

    @property
    def _where(self) -> str:
        return f"{self.catalogue} {self.table}"

    @cached_property
    def _snapshot(self) -> _Snapshot:
        with Bare(), _reading(self._where):
            if self.pinned is not None:
                return _found(self.catalogue, self.table, self.pinned)
            table = iceberg_catalogue(self.catalogue).load_table(self.table)
            current = table.current_snapshot()
            return _Snapshot(table, _EMPTY if current is None else current.snapshot_id)

    @cached_property
    def _tasks(self) -> list[Any]:
        with Bare(), _reading(self._where):
            return _planned(self._snapshot, self._where)


@dataclass(frozen=True)
class _Snapshot:
    table: Any
    id: int

    @property
    def label(self) -> str:
        """The snapshot and which table it is of, for those that have none yet."""
        return f"{self.id}-{_uuid(self.table)}"

    @property
    def schema(self) -> Any:
        return self.table.schema() if self.id == _EMPTY else self.table.scan(snapshot_id=self.id).projection()


def _uuid(table: Any) -> str:
    return str(table.metadata.table_uuid).replace("-", "")[:12]


def _found(catalogue: str, name: str, label: str) -> _Snapshot:
    """The snapshot of that name, if the table still has it."""
    where = f"{catalogue} {name}"
    table = iceberg_catalogue(catalogue).load_table(name)
    number, uuid = parsed(label)
    if _uuid(table) != uuid:
        raise replaced(where, f"snapshot {number}")
    if number != _EMPTY and table.snapshot_by_id(number) is None:
        raise gone(where, f"snapshot {number}")
    return _Snapshot(table, number)


_at = lru_cache(maxsize=8)(_found)
"""For the parts of one run: a snapshot never changes, so what was found of it may be kept."""


def iceberg_files(table: Any, snapshot_id: int) -> list[Any]:
    """The data and delete files of a snapshot, as its manifests list them."""
    manifests = table.snapshot_by_id(snapshot_id).manifests(table.io)
    return [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]


def _planned(snapshot: _Snapshot, where: str) -> list[Any]:
    """A task for each data file. By the format, a delete file is about rows of its own partition that are not younger
    than itself; which of them it says itself, row by row."""
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table import FileScanTask

    if snapshot.id == _EMPTY:
        return []
    data, deletes = [], []
    io = snapshot.table.io
    for manifest in snapshot.table.snapshot_by_id(snapshot.id).manifests(io):
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            kind = entry.data_file.content
            if kind == DataFileContent.DATA:
                data.append(entry)
            elif kind == DataFileContent.POSITION_DELETES:
                deletes.append(entry)
            else:
                raise SpecError(
                    f"{where} has equality deletes, which this version does not read",
                    "compact the table (rewrite_data_files), which applies them, or read a copy of it",
                )
    return [
        FileScanTask(entry.data_file, {other.data_file for other in deletes if _may_be_about(other, entry)})
        for entry in sorted(data, key=lambda entry: str(entry.data_file.file_path))
    ]


def _may_be_about(delete: Any, data: Any) -> bool:
    one, other = delete.data_file, data.data_file
    same = (one.spec_id or 0) == (other.spec_id or 0) and one.partition == other.partition
    return same and (delete.sequence_number or 0) >= (data.sequence_number or 0)


def _batches(snapshot: _Snapshot, task: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """As `ArrowScan.to_record_batches`, which would hold all of the file in memory."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
    from pyiceberg.schema import Schema

    table = snapshot.table
    wanted = Schema(*(field for field in snapshot.schema.fields if field.name in columns))
    scan = ArrowScan(table.metadata, table.io, wanted, AlwaysTrue())
    deleted = _read_all_delete_files(table.io, [task])
    for batch in scan._record_batches_from_scan_tasks_and_deletes([task], deleted):
        yield batch.select(list(columns))


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Whatever the library says is an error that names the table and nothing in it."""
    try:
        yield
    except UnderstudyError:
        raise
    except Exception as error:
        name = type(error).__name__
    else:
        return
    if name in ("NoSuchTableError", "NoSuchNamespaceError", "NoSuchIdentifierError", "NoSuchIcebergTableError"):
        raise SourceError(f"there is no Iceberg table {where}", "correct source.table: namespace.name")
    if name == "FileNotFoundError":
        raise SourceError(
            f"a file of {where} is gone: the snapshot that is read lost it",
            "restore it; or release the table as it is now, which is another, charged release",
        )
    raise SourceError(
        f"cannot read the Iceberg table {where} ({name})",
        "check PyIceberg's configuration of the catalogue (PYICEBERG_CATALOG__NAME__URI) and its credentials",
    )
