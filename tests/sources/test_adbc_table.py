"""Warehouses through ADBC: the class on a real driver, SQLite's, and what Snowflake and BigQuery are asked, as text."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

pytest.importorskip("adbc_driver_sqlite")

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import IN_UTC
from understudy.pipelines.sources.databases.adbc_table import AdbcTable, BigQuerySource, SnowflakeSource
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.source import SourceSpec

STORED = pa.schema(
    [
        ("age", pa.int32()), ("Ward name", pa.large_string()), ("stay", pa.float32()), ("again", pa.bool_()),
        ("charge", pa.decimal128(10, 2)), ("seen", pa.date32()), ("at", pa.timestamp("ns")),
        ("told", pa.timestamp("us", "UTC")), ("notes", pa.list_(pa.string())), ("scan", pa.binary()),
    ]
)  # fmt: skip


@dataclass(frozen=True)
class ByAdbc(AdbcTable):
    """The same class with the one driver that runs everywhere."""

    dialect = "sqlite"
    driver = "adbc_driver_sqlite"
    extra = "adbc"

    def now(self) -> exp.Expr | None:
        return None

    def as_of(self, table: exp.Table, moment: str) -> exp.Table:
        raise AssertionError("SQLite keeps no earlier states")

    def options(self, address: str) -> Mapping[str, str]:
        return {"uri": address}

    def database(self, options: dict[str, str]) -> Any:
        import adbc_driver_sqlite

        return adbc_driver_sqlite.connect(**options)  # which takes no others


@dataclass(frozen=True)
class WithStates(ByAdbc):
    """With a state of the table for each moment, which SQLite is given as a table of its own."""

    def now(self) -> exp.Expr:
        return sqlglot.parse_one("(SELECT max(moment) FROM moments)", read="sqlite")

    def as_of(self, table: exp.Table, moment: str) -> exp.Table:
        return exp.to_table(f"visits_{moment}")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ByAdbc:
    path = tmp_path / "w.db"
    with sqlite3.connect(path) as connection:
        connection.execute('CREATE TABLE visits (age INTEGER, "Ward ""name" TEXT, stay REAL, charge NUMERIC)')
        rows = [(i, None if i == 3 else f"ward {i % 3}", i / 4, i * 100) for i in range(2500)]
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
    connection.close()
    monkeypatch.setenv("WAREHOUSE", str(path))
    return ByAdbc("WAREHOUSE", "visits")


def test_rows_come_as_batches_of_the_promised_types(source: ByAdbc) -> None:
    names = ["stay", 'Ward "name', "age"]
    batches = list(source.read(names, 1000))
    assert max(batch.num_rows for batch in batches) <= 1000
    table = pa.Table.from_batches(batches)
    assert table.schema.names == names
    assert table.schema.types == [source.schema().field(name).type for name in names]
    assert table["age"].to_pylist() == list(range(2500))
    assert table['Ward "name'].to_pylist()[:5] == ["ward 0", "ward 1", "ward 2", None, "ward 1"]
    assert table["stay"].to_pylist()[5] == 1.25


def test_rows_without_columns_are_counted(source: ByAdbc) -> None:
    assert sum(batch.num_rows for batch in source.read([])) == 2500


def test_every_read_is_of_the_moment_of_the_first_one(source: ByAdbc, tmp_path: Path) -> None:
    def written(moment: str, rows: int) -> None:
        with sqlite3.connect(tmp_path / "w.db") as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS moments (moment TEXT)")
            connection.execute("INSERT INTO moments VALUES (?)", [moment])
            connection.execute(f"CREATE TABLE visits_{moment} AS SELECT * FROM visits LIMIT {rows}")
        connection.close()

    def rows(of: AdbcTable) -> int:
        return sum(batch.num_rows for batch in of.read(["age"]))

    written("a", 10)
    first = WithStates("WAREHOUSE", "visits")
    assert rows(first) == 10
    written("b", 20)
    assert (rows(first), first.snapshot_id()) == (10, "a")
    later = WithStates("WAREHOUSE", "visits")
    assert (later.snapshot_id(), rows(later)) == ("b", 20)
    assert rows(pickle.loads(pickle.dumps(first))) == 10  # wherever it is read
    assert source.snapshot_id() is None


def test_what_cannot_be_read_is_told_without_a_word_of_the_driver(
    source: ByAdbc, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError, match="no column"):
        list(source.read(["nothing"]))
    with pytest.raises(SourceError, match="WAREHOUSE failed") as caught:
        ByAdbc("WAREHOUSE", "hunter2").schema()
    assert caught.value.__context__ is None
    monkeypatch.delenv("WAREHOUSE")
    with pytest.raises(SourceError, match="WAREHOUSE is not set"):
        ByAdbc("WAREHOUSE", "visits").schema()


@pytest.mark.parametrize(("kind", "extra"), [(SnowflakeSource, "snowflake"), (BigQuerySource, "bigquery")])
def test_a_driver_that_is_not_installed_is_told(
    kind: type[AdbcTable], extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, kind.driver, None)
    monkeypatch.setenv("WAREHOUSE", "user:hunter2@account/db")
    with pytest.raises(SourceError, match="not installed") as caught:
        kind("WAREHOUSE", "t").schema()
    assert extra in caught.value.fix
    assert "hunter2" not in str(caught.value)


def asked(kind: type[AdbcTable], columns: list[str]) -> str:
    source = kind("WAREHOUSE", "sales.visits")
    source.__dict__["_catalogued"] = STORED
    source.__dict__["_moment"] = "2026-11-19 05:00:00.000001"
    return source.query(columns)


def test_what_snowflake_is_asked() -> None:
    sql = asked(SnowflakeSource, STORED.names)
    assert sql == (
        'SELECT "age" AS "c0", "Ward name" AS "c1", "stay" AS "c2", "again" AS "c3", TO_VARCHAR("charge") AS "c4", '
        'TO_VARCHAR("seen", \'YYYY-MM-DD\') AS "c5", TO_VARCHAR("at", \'YYYY-MM-DD HH24:MI:SS.FF6\') AS "c6", '
        "TO_VARCHAR(CONVERT_TIMEZONE('UTC', \"told\"), 'YYYY-MM-DD HH24:MI:SS.FF6') AS \"c7\", "
        'NULL AS "c8", NULL AS "c9" FROM "sales"."visits" '
        "AT (TIMESTAMP => CAST('2026-11-19 05:00:00.000001 +00:00' AS TIMESTAMPTZ))"
    )
    now = SnowflakeSource("WAREHOUSE", "visits").now().sql("snowflake")
    assert now == "TO_VARCHAR(CONVERT_TIMEZONE('UTC', CURRENT_TIMESTAMP()), 'YYYY-MM-DD HH24:MI:SS.FF6')"
    sqlglot.parse_one(sql, read="snowflake")


def test_what_bigquery_is_asked() -> None:
    sql = asked(BigQuerySource, ["age", "charge", "seen", "at", "told"])
    assert sql == (
        "SELECT `age` AS `c0`, CAST(`charge` AS STRING) AS `c1`, CAST(`seen` AS STRING) AS `c2`, "
        "FORMAT_DATETIME('%Y-%m-%d %H:%M:%E6S', `at`) AS `c3`, "
        "FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%E6S', `told`, 'UTC') AS `c4` FROM `sales`.`visits` "
        "FOR SYSTEM_TIME AS OF CAST('2026-11-19 05:00:00.000001 +00:00' AS TIMESTAMP)"
    )
    now = BigQuerySource("WAREHOUSE", "visits").now().sql("bigquery")
    assert now == "FORMAT_TIMESTAMP('%Y-%m-%d %H:%M:%E6S', CURRENT_TIMESTAMP(), 'UTC')"
    sqlglot.parse_one(sql, read="bigquery")


def test_types_are_those_that_no_value_can_break() -> None:
    source = SnowflakeSource("WAREHOUSE", "visits")
    source.__dict__["_catalogued"] = STORED
    schema = source.schema()
    assert [str(type_) for type_ in schema.types] == [
        "int64", "string", "double", "bool", "string", "string", "string", "string",
        "list<item: string>", "list<item: string>",
    ]  # fmt: skip
    assert schema.field("told").metadata == IN_UTC
    assert schema.field("at").metadata is None


def test_a_spec_names_the_variable_and_its_identity_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SourceSpec(uri="snowflake+env://WAREHOUSE", table="sales.visits", snapshot="s")
    found = SnowflakeSource.opened(spec, Path(), None)
    assert found == SnowflakeSource("WAREHOUSE", "sales.visits")
    monkeypatch.setenv("WAREHOUSE", "user:hunter2@account/db?warehouse=w")
    told = SnowflakeSource.identity(Address.of("snowflake+env://WAREHOUSE"), Path())
    monkeypatch.setenv("WAREHOUSE", "other:secret@ACCOUNT/db?warehouse=x")
    assert told == SnowflakeSource.identity(Address.of("snowflake+env://WAREHOUSE"), Path())
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("kind", "address"), [(SnowflakeSource, "user:hunter2@localhost:1/db?account=a"), (BigQuerySource, "project/data")]
)
def test_the_drivers_know_every_option(kind: type[AdbcTable], address: str) -> None:
    """Where they are installed: a database is made of options alone, and connects to nothing."""
    driver = pytest.importorskip(kind.driver)
    source = kind("WAREHOUSE", "visits")
    driver.connect(db_kwargs=dict(source.options(address))).close()
