"""Versions of Delta and Iceberg tables: fixed once, read again anywhere, and never another one by accident."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.dask_cluster import dask_cluster
from tests.lakehouse import (
    TABLE,
    append_as_if_empty,
    catalogue,
    catalogue_in,
    delete_in_delta,
    delete_in_iceberg,
    write_iceberg,
)
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.catalogue import source_types
from understudy.pipelines.sources.identity import source_identity
from understudy.pipelines.sources.lakehouse.delta_files import check_type
from understudy.pipelines.sources.opening import kind_of, open_source
from understudy.pipelines.spec.source import SourceSpec

OLD = pa.table({"n": pa.array(range(10), pa.int64()), "word": ["a", "b"] * 5})
NEW = pa.table({"n": pa.array(range(50, 57), pa.int64()), "word": ["c"] * 7})


@dataclass(frozen=True)
class Lake:
    """A kind of table: how rows get in, and how old versions get lost."""

    spec: SourceSpec
    place: Path
    write: Callable[[pa.Table], Any]
    lose_old: Callable[[], Any]
    drop: Callable[[], Any]

    def open(self, version: str | None = None) -> Any:
        spec = self.spec if version is None else self.spec.at_version(version)
        return open_source(spec, self.place)

    @property
    def version(self) -> str:
        kind = kind_of(self.spec.address)
        assert kind is not None
        return kind.version(self.spec, self.place)


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    if request.param == "delta":
        path = tmp_path / "t"
        return Lake(
            SourceSpec(uri="delta:///t", snapshot="s"),
            tmp_path,
            lambda table: write_deltalake(path, table, mode="overwrite"),
            lambda: DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False),
            lambda: shutil.rmtree(path),
        )
    catalogue_in(tmp_path, monkeypatch)
    return Lake(
        SourceSpec(uri="iceberg://lake", table=TABLE, snapshot="s"),
        tmp_path,
        write_iceberg,
        _expire,
        lambda: catalogue().drop_table(TABLE),
    )


def _expire() -> None:
    table = catalogue().load_table(TABLE)
    current = table.current_snapshot().snapshot_id
    old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id != current]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def numbers(source: Any) -> list[int]:
    return sorted(n for batch in source.read(["n"]) for n in batch.column("n").to_pylist())


def in_another_process(pickled: bytes) -> list[int]:
    found = pickle.loads(pickled)
    parts = found if isinstance(found, list) else [found]
    return sorted(n for part in parts for batch in part.read(["n"]) for n in batch.column("n").to_pylist())


def test_every_pass_reads_the_version_that_was_there_first(lake: Lake) -> None:
    lake.write(OLD)
    source = lake.open()
    known = source.snapshot_id()
    lake.write(NEW)
    assert numbers(source) == OLD["n"].to_pylist()
    assert source.snapshot_id() == known
    assert source.schema().names == ["n", "word"]
    assert numbers(lake.open()) == NEW["n"].to_pylist()
    assert lake.version != known


def test_workers_read_that_version_as_well(lake: Lake) -> None:
    lake.write(OLD)
    source = lake.open()
    sent = [pickle.dumps(list(source.parts())), pickle.dumps(source)]
    lake.write(NEW)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        assert list(other.map(in_another_process, sent)) == [OLD["n"].to_pylist()] * 2


@pytest.mark.slow
def test_dask_workers_read_that_version(lake: Lake, tmp_path: Path) -> None:
    lake.write(OLD)
    sent = [pickle.dumps([part]) for part in lake.open().parts()]
    lake.write(NEW)
    (tmp_path / "cluster").mkdir()
    with dask_cluster(tmp_path / "cluster") as cluster:
        found = cluster.client.gather(cluster.client.map(in_another_process, sent))
    assert sorted(n for numbers in found for n in numbers) == OLD["n"].to_pylist()


def test_a_version_that_was_named_is_read_again(lake: Lake) -> None:
    lake.write(OLD)
    named = lake.version
    lake.write(NEW)
    assert lake.open(named).snapshot_id() == named
    assert numbers(lake.open(named)) == OLD["n"].to_pylist()


def test_a_version_that_lost_its_files_is_told_before_a_row_is_read(lake: Lake) -> None:
    lake.write(OLD)
    named = lake.version
    lake.write(NEW)
    lake.lose_old()
    with pytest.raises(SourceError, match="is gone"):
        lake.open(named).schema()
    assert numbers(lake.open()) == NEW["n"].to_pylist()


def test_types_are_told_without_a_file(lake: Lake) -> None:
    lake.write(OLD)
    for path in lake.place.rglob("*.parquet"):
        path.unlink()
    assert source_types(lake.open())["n"] == "int64"
    with pytest.raises(SourceError, match="is gone"):
        lake.open().schema()


def test_a_version_that_never_was_is_told(lake: Lake) -> None:
    lake.write(OLD)
    number, _, table = lake.version.partition("-")
    with pytest.raises(SourceError, match="is gone"):
        lake.open(f"{int(number) + 5}-{table}").schema()
    with pytest.raises(SpecError, match="names no version"):
        lake.open("newest").schema()


def test_a_table_made_anew_is_another_table(lake: Lake) -> None:
    """A Delta table begins with version 0 again, whatever it holds."""
    lake.write(OLD)
    named = lake.version
    lake.drop()
    lake.write(NEW)
    assert lake.version != named
    with pytest.raises(SourceError, match="is another table"):
        lake.open(named).schema()


def test_its_identity_is_public_and_needs_no_connection(lake: Lake) -> None:
    found = source_identity(lake.spec, lake.place)
    assert found
    assert "sqlite" not in found


@pytest.mark.parametrize(
    ("package", "extra", "uri", "table"),
    [("deltalake", "delta", "delta:///t", None), ("pyiceberg.catalog", "iceberg", "iceberg://lake", TABLE)],
)
def test_a_missing_extra_is_told(
    package: str, extra: str, uri: str, table: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SpecError, match="not installed") as caught:
        open_source(SourceSpec(uri=uri, table=table, snapshot="s"), tmp_path).schema()
    assert f"understudy[{extra}]" in caught.value.fix


def test_rows_that_a_deletion_vector_takes_away_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t"
    features = {"delta.enableDeletionVectors": "true"}
    write_deltalake(path, OLD, configuration=features)
    delete_in_delta(path, [0, 3, 4])
    source = open_source(SourceSpec(uri="delta:///t", snapshot="s"), tmp_path)
    assert numbers(source) == [1, 2, 5, 6, 7, 8, 9]
    assert [batch.num_rows for batch in source.read(["n"], 4)] == [2, 3, 2]  # of batches of four
    before = open_source(source_spec_at(tmp_path, 0), tmp_path)
    assert numbers(before) == list(range(10))


def source_spec_at(place: Path, version: int) -> SourceSpec:
    table = str(DeltaTable(place / "t").metadata().id).replace("-", "")[:12]
    return SourceSpec(uri="delta:///t", snapshot="s").at_version(f"{version}-{table}")


def test_columns_under_other_names_in_the_files_are_refused(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", OLD)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in line:
            line["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
            fields = json.loads(line["metaData"]["schemaString"])
            for number, field in enumerate(fields["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": f"col-{number}",
                }
            line["metaData"]["schemaString"] = json.dumps(fields)
    log.write_text("\n".join(json.dumps(line) for line in lines))
    with pytest.raises(SpecError, match="columnMapping"):
        open_source(SourceSpec(uri="delta:///t", snapshot="s"), tmp_path).schema()


def test_columns_added_later_are_null_in_older_files_and_wider_types_are_cast(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"n": pa.array([1, 2], pa.int64())}))
    write_deltalake(tmp_path / "t", OLD.slice(5), mode="append", schema_mode="merge")
    source = open_source(SourceSpec(uri="delta:///t", snapshot="s"), tmp_path)
    rows = sorted((n, w) for b in source.read(["word", "n"]) for w, n in zip(*(c.to_pylist() for c in b), strict=True))
    assert rows[:3] == [(1, None), (2, None), (5, "b")]


@pytest.mark.parametrize(
    ("held", "declared", "fits"),
    [
        (pa.int32(), pa.int64(), True), (pa.int64(), pa.int32(), False), (pa.int32(), pa.float64(), True),
        (pa.int64(), pa.decimal128(20), True), (pa.int64(), pa.decimal128(10), False),
        (pa.float64(), pa.float32(), False), (pa.date32(), pa.timestamp("us"), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 2), True), (pa.decimal128(10, 2), pa.decimal128(10, 4), False),
        (pa.large_string(), pa.string(), True), (pa.string(), pa.int64(), False),
        (pa.timestamp("ns"), pa.timestamp("us", "UTC"), True),
    ],
)  # fmt: skip
def test_a_file_has_the_tables_type_or_one_within_it(held: pa.DataType, declared: pa.DataType, fits: bool) -> None:
    if fits:
        return check_type(held, declared, "n", "a.parquet")
    with pytest.raises(SourceError, match="in the table"):
        check_type(held, declared, "n", "a.parquet")
    return None


def test_what_the_log_says_of_the_values_is_never_believed(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", OLD)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    lies = {"numRecords": 0, "minValues": {"n": 77}, "maxValues": {"n": 77}, "nullCount": {"n": 0}}
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = json.dumps(lies)
    log.write_text("\n".join(json.dumps(line) for line in lines))
    source = open_source(SourceSpec(uri="delta:///t", snapshot="s"), tmp_path)
    assert numbers(source) == list(range(10))
    assert source.row_estimate() == 10


@pytest.fixture
def iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceSpec:
    catalogue_in(tmp_path, monkeypatch)
    return SourceSpec(uri="iceberg://lake", table=TABLE, snapshot="s")


def test_what_manifests_say_of_the_values_is_never_believed(iceberg: SourceSpec, tmp_path: Path) -> None:
    """A scan of PyIceberg leaves out a file that is said to have no rows."""
    table = write_iceberg(OLD)
    append_as_if_empty(table, NEW)
    assert table.scan().to_arrow().num_rows == OLD.num_rows
    assert numbers(open_source(iceberg, tmp_path)) == OLD["n"].to_pylist() + NEW["n"].to_pylist()


def test_rows_that_position_deletes_take_away_are_left_out(iceberg: SourceSpec, tmp_path: Path) -> None:
    table = write_iceberg(OLD)
    before = open_source(iceberg, tmp_path)
    before.schema()
    [first, _] = sorted(task.file.file_path for task in table.scan().plan_files())
    delete_in_iceberg(table, first, [0, 2])
    found = numbers(open_source(iceberg, tmp_path))
    assert len(found) == 8
    assert sorted(catalogue().load_table(TABLE).scan().to_arrow()["n"].to_pylist()) == found
    assert numbers(before) == list(range(10))


def test_equality_deletes_are_refused(iceberg: SourceSpec, tmp_path: Path) -> None:
    table = write_iceberg(OLD)
    delete_in_iceberg(table, "any", [1], equality=True)
    with pytest.raises(SpecError, match="equality deletes"):
        open_source(iceberg, tmp_path).schema()


def test_a_catalogue_that_is_not_configured_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    with pytest.raises(SourceError, match="cannot read the Iceberg table nowhere") as caught:
        open_source(SourceSpec(uri="iceberg://nowhere", table=TABLE, snapshot="s"), tmp_path).schema()
    assert "PYICEBERG_CATALOG__" in caught.value.fix
    with pytest.raises(SpecError, match="names no namespace"):
        open_source(SourceSpec(uri="iceberg://nowhere", table="visits", snapshot="s"), tmp_path)
    with pytest.raises(SpecError, match="iceberg://CATALOGUE"):
        open_source(SourceSpec(uri="iceberg://a/b", table=TABLE, snapshot="s"), tmp_path)
