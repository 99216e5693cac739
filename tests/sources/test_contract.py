"""Every built-in source keeps the contract that other packages' sources are held to."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from PIL import Image

from tests.lakehouse import TABLE, catalogue_in, write_iceberg
from tests.mariadb import MariaDB
from tests.warehouse import Warehouse
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.databases import postgresql
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.period import PeriodSource
from understudy.pipelines.spec.periods import period_named
from understudy.pipelines.spec.source import SourceSpec
from understudy.testing.sources import SourceContract
from understudy.testing.tables import ODD_TEXTS


class TestCsv(SourceContract):
    name = "t.csv"

    def write(self, table: pa.Table, place: Path) -> None:
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(table, sink)
        (place / self.name).write_bytes(sink.getvalue().to_pybytes())

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=self.name, snapshot="s")


class TestCsvWithQuotedNewlines(TestCsv):
    odd_texts: ClassVar = (*ODD_TEXTS, "two\nlines", "\r\n")

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=self.name, snapshot="s", quoted_newlines=True)


class TestGzippedCsv(TestCsv):
    name = "t.csv.gz"

    def write(self, table: pa.Table, place: Path) -> None:
        super().write(table, place)
        (place / self.name).write_bytes(gzip.compress((place / self.name).read_bytes()))

    def damage(self, place: Path) -> None:
        (place / self.name).write_bytes((place / self.name).read_bytes()[:-20])


class TestZstandardCsv(TestCsv):
    name = "t.csv.zst"

    def write(self, table: pa.Table, place: Path) -> None:
        super().write(table, place)
        (place / self.name).write_bytes(pa.compress((place / self.name).read_bytes(), "zstd", asbytes=True))

    def damage(self, place: Path) -> None:
        (place / self.name).write_bytes((place / self.name).read_bytes()[:-20])


class TestCsvFolder(SourceContract):
    """Three files of three kinds, of which one has its columns in another order."""

    def write(self, table: pa.Table, place: Path) -> None:
        shutil.rmtree(place / "t", ignore_errors=True)
        (place / "t" / "more").mkdir(parents=True)
        third = table.num_rows // 3
        turned = table.select(table.column_names[::-1]).slice(third, third)
        (place / "t" / "a.csv").write_bytes(as_csv(table.slice(0, third)))
        (place / "t" / "b.csv.gz").write_bytes(gzip.compress(as_csv(turned)))
        (place / "t" / "more" / "c.csv.zst").write_bytes(
            pa.compress(as_csv(table.slice(2 * third)), "zstd", asbytes=True)
        )
        (place / "t" / "_skipped.csv").write_bytes(b"no,such\n1,2\n")

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t/", snapshot="s")

    def damage(self, place: Path) -> None:
        (place / "t" / "b.csv.gz").write_bytes(b"not packed")


class TestCsvFolderByWard(TestCsvFolder):
    """Partitioned by a column that is then in the folders' names only."""

    odd_texts: ClassVar = tuple(text for text in ODD_TEXTS if len(text) < 100 and text)

    def write(self, table: pa.Table, place: Path) -> None:
        shutil.rmtree(place / "t", ignore_errors=True)
        wards = table["ward"].to_pylist()
        for number, ward in enumerate(sorted(set(wards), key=str) or [None]):
            folder = place / "t" / f"ward={'__HIVE_DEFAULT_PARTITION__' if ward is None else quote(ward, safe='')}"
            folder.mkdir(parents=True)
            rows = table.filter(pa.array([other == ward for other in wards], pa.bool_())).drop_columns(["ward"])
            (folder / f"{number}.csv").write_bytes(as_csv(rows))

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t/*.csv", snapshot="s")

    def damage(self, place: Path) -> None:
        for path in (place / "t").glob("*/*.csv"):
            path.write_bytes(b"")


def as_csv(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink)
    return bytes(sink.getvalue().to_pybytes())


class TestParquet(SourceContract):
    odd_texts: ClassVar = (*ODD_TEXTS, "two\nlines", "nothing\0")

    def write(self, table: pa.Table, place: Path) -> None:
        pq.write_table(table, place / "t.parquet", row_group_size=13)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t.parquet", snapshot="s")

    def damage(self, place: Path) -> None:
        path = place / "t.parquet"
        path.write_bytes(path.read_bytes()[:-40])


class TestParquetFolder(TestParquet):
    def write(self, table: pa.Table, place: Path) -> None:
        shutil.rmtree(place / "t", ignore_errors=True)
        (place / "t").mkdir()
        half = table.num_rows // 2
        for name, part in (("a", table.slice(0, half)), ("b", table.slice(half))):
            pq.write_table(part, place / "t" / f"{name}.parquet", row_group_size=7)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t/", snapshot="s")

    def damage(self, place: Path) -> None:
        (place / "t" / "b.parquet").write_bytes(b"PAR1")


class TestHiveDirectory(SourceContract):
    """Partitioned by a column that is then in the folders' names only."""

    odd_texts: ClassVar = tuple(text for text in ODD_TEXTS if len(text) < 100 and text)

    def write(self, table: pa.Table, place: Path) -> None:
        shutil.rmtree(place / "t", ignore_errors=True)
        wards = table["ward"].to_pylist()
        for number, ward in enumerate(sorted(set(wards), key=str) or [None]):
            folder = "__HIVE_DEFAULT_PARTITION__" if ward is None else quote(ward, safe="")
            (place / "t" / f"ward={folder}").mkdir(parents=True)
            rows = table.filter(pa.array([other == ward for other in wards], pa.bool_())).drop_columns(["ward"])
            pq.write_table(rows, place / "t" / f"ward={folder}" / f"{number}.parquet", row_group_size=7)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t/", snapshot="s")

    def damage(self, place: Path) -> None:
        for path in (place / "t").glob("*/*.parquet"):
            path.write_bytes(b"PAR1")


class TestHiveInAnObjectStore(TestHiveDirectory):
    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: str) -> None:
        import s3fs

        self.bucket, self.store = bucket, s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)

    def write(self, table: pa.Table, place: Path) -> None:
        super().write(table, place)
        if self.store.exists(f"{self.bucket}/t"):
            self.store.rm(f"{self.bucket}/t", recursive=True)
        for path in (place / "t").glob("*/*.parquet"):
            self.store.pipe_file(f"{self.bucket}/{path.relative_to(place)}", path.read_bytes())

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=f"s3://{self.bucket}/t", snapshot="s")

    def damage(self, place: Path) -> None:
        for path in self.store.find(f"{self.bucket}/t"):
            self.store.pipe_file(path, b"PAR1 and nothing more")


class TestDuckDB(SourceContract):
    def write(self, table: pa.Table, place: Path) -> None:
        with duckdb.connect(place / "t.duckdb") as connection:
            connection.register("written", table)
            connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM written")

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="duckdb:///t.duckdb", table="t", snapshot="s")

    def damage(self, place: Path) -> None:
        (place / "t.duckdb").write_bytes((place / "t.duckdb").read_bytes()[:5000])


class TestSqlite(SourceContract):
    """By SQLAlchemy."""

    @pytest.fixture(autouse=True)
    def _address(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONTRACT_URL", f"sqlite:///{place / 't.db'}")

    def write(self, table: pa.Table, place: Path) -> None:
        types = dict(zip(table.column_names, ("bigint", "text", "bigint", "float", "date", "boolean"), strict=True))
        with sqlite3.connect(place / "t.db", timeout=0.1) as connection:
            connection.execute("DROP TABLE IF EXISTS t")
            connection.execute(f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in types.items())})")
            rows = [tuple(str(v) if hasattr(v, "isoformat") else v for v in row.values()) for row in table.to_pylist()]
            connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.close()

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="sql+env://CONTRACT_URL", table="t", snapshot="s")

    def damage(self, place: Path) -> None:
        (place / "t.db").write_bytes(b"no database " * 1000)


class TestSqliteFile(TestSqlite):
    """By its own address."""

    odd_texts: ClassVar = (*ODD_TEXTS, "two\nlines", "nothing\0")

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="sqlite:///t.db", table="t", snapshot="s")


class TestMariaDB(SourceContract):
    """In a collation for which a, A and A with a blank after it are one."""

    odd_texts: ClassVar = (*ODD_TEXTS, "two\nlines", "nothing\0")

    @pytest.fixture(autouse=True)
    def _server(self, mariadb: MariaDB) -> None:
        self.mariadb = mariadb

    def write(self, table: pa.Table, place: Path) -> None:
        types = ("bigint", "longtext", "bigint", "double", "date", "boolean")
        columns = ", ".join(f"{name} {type_}" for name, type_ in zip(table.column_names, types, strict=True))
        self.mariadb.execute(
            "SET GLOBAL lock_wait_timeout = 1", "DROP TABLE IF EXISTS t", f"CREATE TABLE t ({columns})"
        )
        self.mariadb.insert("t", [tuple(row.values()) for row in table.to_pylist()])

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=self.mariadb.uri, table="t", snapshot="s")

    def damage(self, place: Path) -> None:
        self.mariadb.execute("ALTER TABLE t DROP COLUMN score")


class TestPostgreSQL(SourceContract):
    @pytest.fixture(autouse=True)
    def _server(self, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warehouse = warehouse
        monkeypatch.setattr(postgresql, "PAGES_A_PART", 1)

    def write(self, table: pa.Table, place: Path) -> None:
        types = ("bigint", "text", "bigint", "float8", "date", "boolean")
        columns = ", ".join(f"{name} {type_}" for name, type_ in zip(table.column_names, types, strict=True))
        with self.warehouse.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100ms'")
            cursor.execute("DROP TABLE IF EXISTS t")
            cursor.execute(f"CREATE TABLE t ({columns}) WITH (fillfactor = 10)".encode())
            rows = [tuple(row.values()) for row in table.to_pylist()]
            cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s, %s, %s)", rows)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=self.warehouse.uri, table=f"{self.warehouse.schema}.t", snapshot="s")

    def damage(self, place: Path) -> None:
        self.warehouse.execute(
            "ALTER TABLE t RENAME TO whole",
            "CREATE VIEW t AS SELECT who, ward, age / 0 AS age, score, seen, flag FROM whole",
        )


class TestSqlAlchemyOnPostgreSQL(TestPostgreSQL):
    @pytest.fixture(autouse=True)
    def _address(self, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CONTRACT_URL", warehouse.url)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="sql+env://CONTRACT_URL", table="t", snapshot="s")


class TestObjectStore(SourceContract):
    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: str) -> None:
        import s3fs

        self.bucket, self.store = bucket, s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)

    def write(self, table: pa.Table, place: Path) -> None:
        half = table.num_rows // 2
        for name, part in (("a", table.slice(0, half)), ("b", table.slice(half))):
            sink = pa.BufferOutputStream()
            pq.write_table(part, sink, row_group_size=7)
            self.store.pipe_file(f"{self.bucket}/t/{name}.parquet", sink.getvalue().to_pybytes())

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=f"s3://{self.bucket}/t", snapshot="s")

    def damage(self, place: Path) -> None:
        self.store.pipe_file(f"{self.bucket}/t/b.parquet", b"PAR1 and nothing more")


class TestMemory(SourceContract):
    odd_texts: ClassVar = (*ODD_TEXTS, "two\nlines", "nothing\0")

    @pytest.fixture(autouse=True)
    def _held(self) -> None:
        self.held: dict[Path, pa.Table] = {}

    def write(self, table: pa.Table, place: Path) -> None:
        self.held[place] = table

    def describe(self, place: Path) -> SourceSpec:
        raise NotImplementedError

    def open(self, place: Path) -> Source:
        return ArrowSource(self.held[place])

    def test_what_cannot_be_read_is_told_without_a_value(self, opened: Any, place: Path) -> None:
        pytest.skip("what is in memory can be read")

    def test_what_is_not_there_is_told(self, opened: Any) -> None:
        pytest.skip("what is in memory is there")


class TestPeriod(TestParquet):
    """Rows of one period are a source like any other: here all of them lie in it."""

    def table(self, rows: int, seed: int = 0) -> pa.Table:
        table = super().table(rows, seed)
        when = pa.array([None if v is None else v.replace(year=2026) for v in table["seen"].to_pylist()], pa.date32())
        return table.set_column(table.column_names.index("seen"), "seen", when.fill_null(when.drop_null()[0]))

    def open(self, place: Path) -> Source:
        return PeriodSource(super().open(place), "seen", period_named("year", "2026"))


class TestNpz(SourceContract):
    holds_nulls = False
    odd_texts: ClassVar = tuple(text for text in ODD_TEXTS if len(text) < 100)

    def write(self, table: pa.Table, place: Path) -> None:
        columns = {name: table[name].to_numpy() for name in table.column_names if name != "ward"}
        columns["ward"] = np.array(table["ward"].to_pylist(), dtype=np.str_)
        columns["seen"] = columns["seen"].astype("datetime64[D]")
        np.savez(place / "t.npz", **columns)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t.npz", snapshot="s")

    def damage(self, place: Path) -> None:
        path = place / "t.npz"
        path.write_bytes(path.read_bytes()[:-200])


class PictureContract(SourceContract):
    columns: ClassVar[dict[str, dict[str, Any]]] = {
        "label": {"type": "category", "values": [0, 1, 2]},
        "image": {"type": "tensor", "shape": [4, 3], "min": 0, "max": 255},
    }
    entity = None
    odd_texts = ()

    def table(self, rows: int, seed: int = 0) -> pa.Table:
        rng = np.random.default_rng(seed)
        pixels = pa.array(rng.integers(0, 256, rows * 12, dtype=np.uint8))
        return pa.table(
            {
                "label": pa.array(rng.integers(0, 3, rows, dtype=np.uint8)),
                "image": pa.FixedSizeListArray.from_arrays(pixels, 12),
            }
        )


def pixels_of(table: pa.Table) -> np.ndarray:
    return np.array(table["image"].to_pylist(), dtype=np.uint8).reshape(table.num_rows, 4, 3)


class TestIdx(PictureContract):
    def write(self, table: pa.Table, place: Path) -> None:
        for name, array in (("images-idx3", pixels_of(table)), ("labels-idx1", table["label"].to_numpy())):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (place / f"t-{name}-ubyte").write_bytes(header + np.ascontiguousarray(array).tobytes())

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="t-images-idx3-ubyte", snapshot="s")


class TestImageFolder(PictureContract):
    def write(self, table: pa.Table, place: Path) -> None:
        shutil.rmtree(place / "p", ignore_errors=True)
        (place / "p" / "0").mkdir(parents=True)
        for row, (label, pixels) in enumerate(zip(table["label"].to_pylist(), pixels_of(table), strict=True)):
            (place / "p" / str(label)).mkdir(exist_ok=True)
            Image.fromarray(pixels).save(place / "p" / str(label) / f"{row}.png")

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="p/", snapshot="s")

    def test_a_table_without_rows_is_a_table(self, opened: Any) -> None:
        pytest.skip("a folder without pictures is no folder of pictures")


class TestDelta(SourceContract):
    def write(self, table: pa.Table, place: Path) -> None:
        half = table.num_rows // 2
        write_deltalake(place / "t", table.slice(0, half), mode="overwrite")
        write_deltalake(place / "t", table.slice(half), mode="append")

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="delta:///t", snapshot="s")

    def damage(self, place: Path) -> None:
        for path in (place / "t").glob("*.parquet"):
            path.write_bytes(path.read_bytes()[:100])


class TestDeltaByWard(TestDelta):
    """Partitioned by a column that is then in no file."""

    def write(self, table: pa.Table, place: Path) -> None:
        write_deltalake(place / "t", table, mode="overwrite", partition_by=["ward"])

    def test_no_value_makes_a_read_fail(self, opened: Any) -> None:
        self.odd_texts = tuple(text for text in ODD_TEXTS if len(text) < 100)  # they name folders
        super().test_no_value_makes_a_read_fail(opened)

    def damage(self, place: Path) -> None:
        for path in (place / "t").glob("*/*.parquet"):
            path.write_bytes(path.read_bytes()[:100])


class TestDeltaInAnObjectStore(TestDelta):
    @pytest.fixture(autouse=True)
    def _bucket(self, bucket: str) -> None:
        self.bucket = bucket

    def write(self, table: pa.Table, place: Path) -> None:
        uri = f"s3://{self.bucket}/t"
        write_deltalake(uri, table, mode="overwrite", storage_options={"aws_allow_http": "true"})

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri=f"delta-s3://{self.bucket}/t", snapshot="s")

    def damage(self, place: Path) -> None:
        import s3fs

        store = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
        for path in store.find(f"{self.bucket}/t"):
            if path.endswith(".parquet"):
                store.pipe_file(path, b"PAR1 and nothing more")


class TestIceberg(SourceContract):
    @pytest.fixture(autouse=True)
    def _catalogue(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        catalogue_in(place, monkeypatch)

    def write(self, table: pa.Table, place: Path) -> None:
        write_iceberg(table)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="iceberg://lake", table=TABLE, snapshot="s")

    def damage(self, place: Path) -> None:
        for path in (place / "warehouse").rglob("*.parquet"):
            path.write_bytes(path.read_bytes()[:100])
