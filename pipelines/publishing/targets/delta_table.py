"""Publishing into a Delta Lake table: `delta:///folder`, or `delta-s3://bucket/path`. A release is one commit, and its
records are a Delta table in `_understudy` inside the folder, which readers and vacuum leave alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.lakehouse import LakehouseTarget
from understudy.pipelines.publishing.targets.lakehouse_records import RECORDS, Shown, shown_by
from understudy.pipelines.sources.lakehouse.delta import DeltaSource, delta_table, delta_uri
from understudy.pipelines.sources.lakehouse.delta_files import delta_options
from understudy.pipelines.sources.lakehouse.versions import needs, parsed
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts


class DeltaTarget(LakehouseTarget):
    terms = Terms(local=True)

    def __init__(self, uri: str) -> None:
        self.uri = self.where = uri.rstrip("/") if "://" in uri else str(Path(uri).absolute())
        self.address = f"delta-{self.uri}" if "://" in self.uri else f"delta:///{self.uri}"
        self.records = f"{self.uri}/_understudy"
        self.records_at = f"the Delta table _understudy inside {self.uri.rpartition('/')[2]}"

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> DeltaTarget:
        return cls(delta_uri(publish.address, base))

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        held = cls(delta_uri(address, Path())).held()
        return None if held is None else held.release

    def _exists(self) -> bool:
        if _is_table(self.uri):
            return True
        folder = Path(self.uri)
        if "://" in self.uri or not folder.is_dir() or _is_table(self.records):
            return False  # what a killed publication left has no log
        if any(folder.iterdir()):
            raise PublishError(f"{folder} holds what is no Delta table", "choose another folder to publish to")
        return False

    def _last_commit(self) -> Shown | None:
        table = delta_table(self.uri)
        identity = DeltaSource(self.uri).snapshot_id().partition("-")[2]
        for commit in table.history():
            if (found := shown_by(commit, f"{commit['version']}-{identity}")) is not None:
                return found
        return None

    def _is_same_table(self, version: str) -> bool:
        return DeltaSource(self.uri).snapshot_id().partition("-")[2] == version.partition("-")[2]

    def _read_records(self) -> pa.Table | None:
        if not _is_table(self.records):
            return None
        return pa.Table.from_batches(list(DeltaSource(self.records).read(RECORDS.names)), RECORDS)

    def _append_records(self, records: pa.Table) -> None:
        self._write(self.records, records, "append", {})

    def _replace(self, rows: Parts, properties: Mapping[str, str]) -> str:
        self._write(self.uri, rows.arrow(), "overwrite", properties)
        found = self._last_commit()
        assert found is not None
        return found.version

    def _write(self, uri: str, rows: pa.Table | pa.RecordBatchReader, mode: Any, properties: Mapping[str, str]) -> None:
        with needs("delta://", "deltalake", "delta"):
            from deltalake import CommitProperties, write_deltalake
        write_deltalake(
            uri,
            rows,
            mode=mode,
            schema_mode="overwrite" if mode == "overwrite" else None,
            storage_options=delta_options(uri),
            commit_properties=CommitProperties(custom_metadata=dict(properties)),
        )

    def _batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source = DeltaSource(self.uri)
        if set(source.schema().names) != set(columns):
            raise PublishError(f"{self.uri} has other columns than were published", "restore it")
        yield from source.read(columns)

    def _expire(self, gone: Sequence[str], kept: Sequence[str]) -> None:
        versions = [parsed(version)[0] for version in kept]
        delta_table(self.uri).vacuum(0, dry_run=False, enforce_retention_duration=False, keep_versions=versions)

    def _probe(self) -> None:
        if "://" not in self.uri:
            Path(self.uri).mkdir(parents=True, exist_ok=True)
        if self._read_records() is None:
            self._append_records(RECORDS.empty_table())


class StoredDeltaTarget(DeltaTarget):
    terms = Terms()


def _is_table(uri: str) -> bool:
    with needs("delta://", "deltalake", "delta"):
        from deltalake import DeltaTable
    return bool(DeltaTable.is_deltatable(uri, storage_options=delta_options(uri)))
