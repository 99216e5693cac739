"""Publishing into an Apache Iceberg table: `iceberg://CATALOGUE` with `publish.table: namespace.name`.

A release is one commit: one snapshot that replaces every file, with the release and its guarantee in its summary, and
the same names in the table's properties. The records of all tables of a namespace are its `understudy_releases`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.lakehouse import LakehouseTarget
from understudy.pipelines.publishing.targets.lakehouse_records import (
    ATTEMPT,
    NAME,
    RECORDS,
    RELEASE_ID,
    Shown,
    shown_by,
)
from understudy.pipelines.publishing.targets.published_tables import RELEASES
from understudy.pipelines.sources.lakehouse.iceberg import (
    IcebergSource,
    catalogue_of,
    iceberg_catalogue,
    iceberg_files,
)
from understudy.pipelines.sources.lakehouse.versions import parsed
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

_OF = "table_name"


class IcebergTarget(LakehouseTarget):
    terms = Terms(table=True)

    def __init__(self, catalogue: str, table: str) -> None:
        self.catalogue, self.table = catalogue, table
        self.namespace, _, self.name = table.rpartition(".")
        self.where = f"{catalogue}/{table}"
        self.address = f"iceberg://{catalogue}#{table}"
        self.records = f"{self.namespace}.{RELEASES}"
        self.records_at = f"the Iceberg table {catalogue}/{self.records}"

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> IcebergTarget:
        if publish.table is None or "." not in publish.table or publish.table.endswith(f".{RELEASES}"):
            raise SpecError("publish.table names no table of a namespace", "use publish.table: namespace.name")
        return cls(catalogue_of(publish.address), publish.table)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        held = None if address.table is None else cls(catalogue_of(address), address.table).held()
        return None if held is None else held.release

    def _exists(self) -> bool:
        return bool(self._lake.table_exists(self.table))

    def _last_commit(self) -> Shown | None:
        table = self._lake.load_table(self.table)
        shown = shown_by(table.properties, "")
        if shown is None:
            return None
        label = IcebergSource(self.catalogue, self.table).snapshot_id().partition("-")[2]
        for snapshot in reversed(table.snapshots()):
            if snapshot.summary is not None and snapshot.summary[ATTEMPT] == shown.attempt:
                return Shown(shown.name, shown.release_id, shown.attempt, f"{snapshot.snapshot_id}-{label}")
        return shown

    def _is_same_table(self, version: str) -> bool:
        return False  # its properties say it, or it is another

    def _read_records(self) -> pa.Table | None:
        if not self._lake.table_exists(self.records):
            return None
        names = [*RECORDS.names, _OF]
        rows = pa.Table.from_batches(
            [batch.cast(_KEPT) for batch in IcebergSource(self.catalogue, self.records).read(names)], _KEPT
        )
        return rows.filter(pc.equal(rows[_OF], self.name)).select(RECORDS.names)

    def _append_records(self, records: pa.Table) -> None:
        self._lake.create_namespace_if_not_exists(self.namespace)
        kept = self._lake.create_table_if_not_exists(self.records, _KEPT)
        of = pa.array([self.name] * records.num_rows, pa.string())
        if records.num_rows:
            kept.append(records.append_column(_OF, of))

    def _replace(self, rows: Parts, properties: Mapping[str, str]) -> str:
        named = {key: properties[key] for key in (NAME, RELEASE_ID, ATTEMPT)}
        if not self._exists():
            transaction = self._lake.create_table_transaction(self.table, rows.schema, properties=named)
            transaction.append(rows.arrow(), snapshot_properties=dict(properties))
        else:
            table = self._lake.load_table(self.table)
            transaction = table.transaction()
            _fit_schema(transaction, rows.schema)
            _replace_files(transaction, table, rows, properties)
            transaction.set_properties(named)
        transaction.commit_transaction()
        found = self._last_commit()
        assert found is not None
        return found.version

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source = IcebergSource(self.catalogue, self.table)
        if set(source.schema().names) != set(columns):
            raise PublishError(f"{self.where} has other columns than were published", "restore it")
        yield from source.read(columns)

    def _expire(self, gone: Sequence[str], kept: Sequence[str]) -> None:
        """The library forgets snapshots and leaves their files: those that no snapshot has any more are deleted."""
        table = self._lake.load_table(self.table)
        old = {parsed(version)[0] for version in gone} & {snapshot.snapshot_id for snapshot in table.snapshots()}
        if not old:
            return
        files = {
            snapshot.snapshot_id: {str(file.file_path) for file in iceberg_files(table, snapshot.snapshot_id)}
            for snapshot in table.snapshots()
        }
        table.maintenance.expire_snapshots().by_ids(sorted(old)).commit()
        still = {path for number, paths in files.items() if number not in old for path in paths}
        for path in sorted({path for number in old for path in files[number]} - still):
            table.io.delete(path)

    def _probe(self) -> None:
        self._append_records(RECORDS.empty_table())

    @property
    def _lake(self) -> Any:
        return iceberg_catalogue(self.catalogue)


_KEPT = RECORDS.append(pa.field(_OF, pa.string()))


def _fit_schema(transaction: Any, wanted: pa.Schema) -> None:
    """The columns of the release: one whose type changed is another column of the same name."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    def types(schema: pa.Schema) -> dict[str, pa.DataType]:
        return {field.name: pa.string() if pa.types.is_large_string(field.type) else field.type for field in schema}

    held = types(schema_to_pyarrow(transaction.table_metadata.schema(), include_field_ids=False))
    asked = types(wanted)
    gone = [name for name in held if asked.get(name) != held[name]]
    new = [name for name in asked if asked[name] != held.get(name)]
    if gone:
        with transaction.update_schema(allow_incompatible_changes=True) as update:
            for name in gone:
                update.delete_column((name,))
    if new:
        with transaction.update_schema() as update:
            update.union_by_name(pa.schema([wanted.field(name) for name in new]))


def _replace_files(transaction: Any, table: Any, rows: Parts, properties: Mapping[str, str]) -> None:
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    current = table.current_snapshot()
    with transaction.update_snapshot(snapshot_properties=dict(properties)).overwrite() as producer:
        for file in () if current is None else iceberg_files(table, current.snapshot_id):
            producer.delete_data_file(file)
        metadata, commit = transaction.table_metadata, producer.commit_uuid
        for file in _dataframe_to_data_files(metadata, rows.arrow(), table.io, write_uuid=commit):
            producer.append_data_file(file)
