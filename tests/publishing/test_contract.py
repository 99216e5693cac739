"""Every built-in target keeps the contract that other packages' targets are held to."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.lakehouse import catalogue, catalogue_in
from tests.mariadb import MariaDB
from tests.warehouse import Warehouse
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published
from understudy.pipelines.spec.handling import PublishSpec
from understudy.testing.targets import TargetContract


class TestDirectory(TargetContract):
    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="releases")

    def read(self, place: Path, name: str) -> pa.Table | None:
        latest = place / "releases" / name / "latest"
        return pq.read_table(latest / "data") if latest.exists() else None

    def address(self, place: Path, published: Published) -> str:
        return published.location

    def tamper(self, place: Path, published: Published) -> None:
        [path] = (Path(published.location) / "data").iterdir()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        path = place / "releases" / release.manifest.name / release.manifest.release_id / "notes.txt"
        path.parent.mkdir(parents=True)
        path.write_text("mine")
        return path.read_text


class TestObjectStore(TargetContract):
    kills = 5  # a client of S3 takes a second to make

    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: str) -> None:
        import s3fs

        self.bucket, self.store = bucket, s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to=f"s3://{self.bucket}/{place.name}")

    def read(self, place: Path, name: str) -> pa.Table | None:
        root = f"{self.bucket}/{place.name}/{name}"
        if not self.store.exists(f"{root}/latest.json"):
            return None
        at = f"{root}/{json.loads(self.store.cat_file(f'{root}/latest.json'))['manifest']}"
        manifest = json.loads(self.store.cat_file(at))
        data = [file["path"] for file in manifest["files"] if file["path"].endswith(".parquet")]
        folder = at.rpartition("/")[0]
        parts = [pq.read_table(pa.BufferReader(self.store.cat_file(f"{folder}/{path}"))) for path in data]
        return pa.concat_tables(parts)

    def address(self, place: Path, published: Published) -> str:
        return published.location

    def tamper(self, place: Path, published: Published) -> None:
        [path] = [file.path for file in published.manifest.files if file.path.endswith(".parquet")]
        at = f"{published.location.removeprefix('s3://')}/{path}"
        content = bytearray(self.store.cat_file(at))
        content[len(content) // 2] ^= 1
        self.store.pipe_file(at, bytes(content))

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        folder = f"{self.bucket}/{place.name}/{release.manifest.name}/{release.manifest.release_id}"
        self.store.pipe_file(f"{folder}/manifest.json", b"mine")
        return lambda: self.store.cat_file(f"{folder}/manifest.json")


class TestDuckDB(TargetContract):
    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="duckdb:///out.duckdb", table="copies")

    def read(self, place: Path, name: str) -> pa.Table | None:
        if not (place / "out.duckdb").exists():
            return None
        with duckdb.connect(place / "out.duckdb", read_only=True) as connection:
            held = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'copies'").fetchall()
            return connection.sql("SELECT * FROM copies").to_arrow_table() if held else None

    def address(self, place: Path, published: Published) -> str:
        return f"duckdb:///{place / 'out.duckdb'}#copies"

    def tamper(self, place: Path, published: Published) -> None:
        with duckdb.connect(place / "out.duckdb") as connection:
            connection.execute("UPDATE copies SET age = age + 1 WHERE rowid = (SELECT min(rowid) FROM copies"
                               " WHERE age IS NOT NULL)")  # fmt: skip

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        with duckdb.connect(place / "out.duckdb") as connection:
            connection.execute("CREATE TABLE copies AS SELECT 'mine' AS x")
        return lambda: _rows(self.read(place, ""))


class TestPostgreSQL(TargetContract):
    @pytest.fixture(autouse=True)
    def _server(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def table(self, place: Path) -> str:
        return place.name.replace("-", "_")

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to=self.warehouse.uri, table=f"{self.warehouse.schema}.{self.table(place)}")

    def read(self, place: Path, name: str) -> pa.Table | None:
        with self.warehouse.connect() as connection, connection.cursor() as cursor:
            held = cursor.execute("SELECT to_regclass(%s)::text", [self.table(place)]).fetchone()
            if held is None or held[0] is None:
                return None
            rows = cursor.execute(f"SELECT * FROM {self.table(place)}".encode()).fetchall()
            names = [column.name for column in cursor.description or ()]
        return pa.table({name: [row[i] for row in rows] for i, name in enumerate(names)})

    def address(self, place: Path, published: Published) -> str:
        return f"{self.warehouse.uri}#{self.warehouse.schema}.{self.table(place)}"

    def tamper(self, place: Path, published: Published) -> None:
        table = self.table(place)
        self.warehouse.execute(f"UPDATE {table} SET age = age + 1 WHERE ctid = (SELECT min(ctid) FROM {table}"
                               " WHERE age IS NOT NULL)")  # fmt: skip

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        self.warehouse.execute(f"CREATE TABLE {self.table(place)} AS SELECT 'mine' AS x")
        return lambda: _rows(self.read(place, ""))


class TestSqlite(TargetContract):
    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="sqlite:///out.db", table="copies")

    def read(self, place: Path, name: str) -> pa.Table | None:
        with closing(sqlite3.connect(place / "out.db")) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'copies'").fetchall():
                return None
            found = connection.execute("SELECT * FROM copies")
            names = [column[0] for column in found.description]
            rows = [dict(zip(names, row, strict=True)) for row in found]
        for row in rows:
            if "seen" in row:
                row["seen"] = row["seen"] and dt.date.fromisoformat(row["seen"])
                row["flag"] = None if row["flag"] is None else bool(row["flag"])
        return pa.Table.from_pylist(rows)

    def address(self, place: Path, published: Published) -> str:
        return f"sqlite:///{place / 'out.db'}#copies"

    def tamper(self, place: Path, published: Published) -> None:
        with closing(sqlite3.connect(place / "out.db")) as connection, connection:
            connection.execute("UPDATE copies SET age = age + 1 WHERE rowid = (SELECT min(rowid) FROM copies"
                               " WHERE age IS NOT NULL)")  # fmt: skip

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        with closing(sqlite3.connect(place / "out.db")) as connection, connection:
            connection.execute("CREATE TABLE copies AS SELECT 'mine' AS x")
        return lambda: _rows(self.read(place, ""))


class TestMariaDB(TargetContract):
    kills = 7

    @pytest.fixture(autouse=True)
    def _server(self, mariadb: MariaDB) -> None:
        self.mariadb = mariadb

    def table(self, place: Path) -> str:
        return place.name.replace("-", "_")

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to=self.mariadb.uri, table=self.table(place))

    def read(self, place: Path, name: str) -> pa.Table | None:
        table = self.table(place)
        columns = [column for (column, *_) in self.mariadb.rows(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE()"
            f" AND table_name = '{table}' ORDER BY ordinal_position")]  # fmt: skip
        rows = (
            [dict(zip(columns, row, strict=True)) for row in self.mariadb.rows(f"SELECT * FROM {table}")]
            if columns
            else []
        )
        for row in rows:
            if "flag" in row:
                row["flag"] = None if row["flag"] is None else bool(row["flag"])
        return pa.Table.from_pylist(rows) if columns else None

    def address(self, place: Path, published: Published) -> str:
        return f"{self.mariadb.uri}#{self.table(place)}"

    def tamper(self, place: Path, published: Published) -> None:
        self.mariadb.execute(f"UPDATE {self.table(place)} SET age = age + 1 WHERE age IS NOT NULL LIMIT 1")

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        self.mariadb.execute(f"CREATE TABLE {self.table(place)} AS SELECT 'mine' AS x")
        return lambda: _rows(self.read(place, ""))


class TestDelta(TargetContract):
    can_fork = False  # its runtime does not survive a fork

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="delta:///out/copies")

    def at(self, place: Path) -> Any:
        return place / "out" / "copies"

    def read(self, place: Path, name: str) -> pa.Table | None:
        at = self.at(place)
        return pa.table(DeltaTable(at).to_pyarrow_table()) if DeltaTable.is_deltatable(str(at)) else None

    def address(self, place: Path, published: Published) -> str:
        return f"delta:///{self.at(place)}"

    def tamper(self, place: Path, published: Published) -> None:
        DeltaTable(self.at(place)).update(updates={"age": "age + 1"}, predicate="age IS NOT NULL")

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        write_deltalake(self.at(place), pa.table({"x": ["mine"]}))
        return lambda: _rows(self.read(place, ""))


class TestIceberg(TargetContract):
    @pytest.fixture(autouse=True)
    def _catalogue(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        catalogue_in(tmp_path, monkeypatch)

    def table(self, place: Path) -> str:
        return f"copies.{place.name.replace('-', '_')}"

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="iceberg://lake", table=self.table(place))

    def read(self, place: Path, name: str) -> pa.Table | None:
        lake = catalogue()
        return lake.load_table(self.table(place)).scan().to_arrow() if lake.table_exists(self.table(place)) else None

    def address(self, place: Path, published: Published) -> str:
        return f"iceberg://lake#{self.table(place)}"

    def tamper(self, place: Path, published: Published) -> None:
        table = catalogue().load_table(self.table(place))
        rows = table.scan().to_arrow()
        ages = pa.array([None if age is None else age + 1 for age in rows["age"].to_pylist()], pa.int64())
        table.overwrite(rows.set_column(rows.column_names.index("age"), "age", ages))

    def squat(self, place: Path, release: PreparedRelease) -> Callable[[], Any]:
        lake, mine = catalogue(), pa.table({"x": ["mine"]})
        lake.create_namespace_if_not_exists("copies")
        lake.create_table(self.table(place), mine.schema).append(mine)
        return lambda: _rows(self.read(place, ""))


def _rows(table: pa.Table | None) -> Any:
    return None if table is None else table.to_pylist()
