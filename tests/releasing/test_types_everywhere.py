"""From every kind of source into every kind of target: a number comes back as a number, a whole one with nulls stays
whole, and a column has the type that the source's catalogue gives it."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.publishing.test_targets import prepared
from tests.warehouse import Warehouse
from understudy.pipelines.publishing.targets.base import PreparedRelease, open_target
from understudy.pipelines.releasing.measuring import named_source
from understudy.pipelines.sources.catalogue import catalogue_types
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.checks import breaches, checks_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.finishing import finished
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.keeping import enum_labels

ROWS = 60
COLUMNS: dict[str, Any] = {
    "amount": {"type": "number", "min": 0, "max": 10, "bins": 4},
    "count": {"type": "integer", "min": 0, "max": 9, "nullable": True},
    "late": {"type": "integer", "min": 0, "max": 9, "nullable": True},
    "price": {"type": "number", "min": 0, "max": 9, "decimals": 2},
    "small": {"type": "integer", "min": 0, "max": 9},
    "word": {"type": "category", "values": ["x", "y"]},
    "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-02-01", "bins": "day"},
    "grade": {"type": "category", "values": ["high", "low", "mid"]},
}
ENUM = pa.dictionary(pa.int32(), pa.string())
TYPED: dict[str, pa.DataType] = {
    "amount": pa.float64(), "count": pa.int32(), "late": pa.int64(), "price": pa.decimal128(10, 2),
    "small": pa.int16(), "word": pa.string(), "seen": pa.timestamp("us", tz="UTC"), "grade": ENUM,
}  # fmt: skip
PLAIN = {"count": pa.int64(), "price": pa.float64(), "small": pa.int64(), "seen": pa.timestamp("us")}
KEPT: dict[str, dict[str, pa.DataType]] = {
    "parquet": TYPED,
    "csv": {**TYPED, **PLAIN, "grade": pa.string()},
    "postgresql": TYPED,
    "duckdb": TYPED,
    "sqlite": {**TYPED, **PLAIN, "price": pa.decimal128(10, 2), "grade": pa.string()},
    "sql+postgresql": TYPED,
}
LOW_TO_HIGH = ["low", "mid", "high"]
SOURCES, TARGETS = list(KEPT), ["parquet", "duckdb", "postgresql"]


def real() -> pa.Table:
    """Of whole numbers with nulls `late` is what many programs make: doubles."""
    each = np.arange(ROWS)
    whole = pa.array(each % 10, mask=each % 7 == 0)
    return pa.table(
        {
            "amount": each % 10 + 0.25,
            "count": whole.cast(pa.int32()),
            "late": whole.cast(pa.float64()),
            "price": pa.array([Decimal(int(row % 9)) + Decimal("0.25") for row in each], pa.decimal128(10, 2)),
            "small": (each % 10).astype(np.int16),
            "word": ["xy"[row % 2] for row in each],
            "seen": pa.array([dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(days=int(row % 30))
                              for row in each], pa.timestamp("us", tz="UTC")),
            "grade": [LOW_TO_HIGH[row % 3] for row in each],
        }
    )  # fmt: skip


_SQL = (
    "amount double precision, count integer, late double precision, price numeric(10,2), small smallint,"
    " word varchar(5), seen timestamp with time zone, grade {grade}"
)


def _sql_rows() -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in real().to_pylist()]


def write(kind: str, folder: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The table where that kind of source has it, and the spec's `source`."""
    table = real()
    match kind:
        case "parquet":
            table = table.set_column(7, "grade", table["grade"].dictionary_encode())
            pq.write_table(table, folder / "real.parquet")
            return {"uri": "real.parquet"}
        case "csv":
            seen = table["seen"].cast(pa.timestamp("us")).cast(pa.string())
            pa.csv.write_csv(table.set_column(6, "seen", seen), folder / "real.csv")
            return {"uri": "real.csv"}
        case "duckdb":
            with duckdb.connect(str(folder / "real.duckdb")) as connection:
                connection.execute("CREATE TYPE grades AS ENUM ('low', 'mid', 'high')")
                connection.execute(f"CREATE TABLE real ({_SQL.format(grade='grades')})")
                connection.register("given", table)
                connection.execute("INSERT INTO real SELECT * FROM given")
            return {"uri": "duckdb:///real.duckdb", "table": "real"}
        case "sqlite":
            with closing(sqlite3.connect(folder / "real.db")) as lite:
                lite.execute(f"CREATE TABLE real ({_SQL.format(grade='text')})".replace(" with time zone", ""))
                texts = [tuple(str(v) if isinstance(v, Decimal) else v for v in row) for row in _sql_rows()]
                texts = [(*row[:6], row[6].replace(tzinfo=None).isoformat(" "), row[7]) for row in texts]
                lite.executemany("INSERT INTO real VALUES (?, ?, ?, ?, ?, ?, ?, ?)", texts)
                lite.commit()
            monkeypatch.setenv("REAL_URL", f"sqlite:///{folder}/real.db")
            return {"uri": "sql+env://REAL_URL", "table": "real"}
    warehouse.execute(
        "CREATE TYPE grades AS ENUM ('low', 'mid', 'high')", f"CREATE TABLE real ({_SQL.format(grade='grades')})"
    )
    with warehouse.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO real VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", _sql_rows())
    if kind == "postgresql":
        return {"uri": warehouse.uri, "table": f"{warehouse.schema}.real"}
    monkeypatch.setenv("REAL_URL", warehouse.url)
    return {"uri": "sql+env://REAL_URL", "table": "real"}


def publish(kind: str, table: pa.Table, folder: Path, warehouse: Warehouse) -> None:
    to: dict[str, Any] = {"to": str(folder / "out")}
    if kind == "duckdb":
        to = {"to": "duckdb:///copy.duckdb", "table": "copy"}
    elif kind == "postgresql":
        to = {"to": warehouse.uri, "table": f"{warehouse.schema}.copy"}
    made = prepared()
    target = open_target(spec({"uri": "x.parquet"}, to), folder)
    target.ready(made.manifest.name)
    published = target.publish(PreparedRelease(made.manifest, Parts.of(table), made.card))
    assert target.recover(made.manifest.name, made.manifest.release_id) == published


def read_back(kind: str, folder: Path, warehouse: Warehouse) -> tuple[dict[str, str], list[tuple[Any, ...]]]:
    """The types of the published columns in the target's own words, and the rows."""
    match kind:
        case "parquet":
            [place] = (folder / "out").glob("*/latest/data")
            found = pq.read_table(place)
            return {field.name: str(field.type) for field in found.schema}, [
                tuple(r.values()) for r in found.to_pylist()
            ]
        case "duckdb":
            with duckdb.connect(str(folder / "copy.duckdb")) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                types = {row[0]: row[1] for row in connection.execute("DESCRIBE copy").fetchall()}
                return types, connection.execute("SELECT * FROM copy").fetchall()
    types = dict(
        warehouse.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = 'copy'::regclass AND attnum > 0"
        )
    )
    return types, warehouse.rows("SELECT * FROM copy")


def spec(source: dict[str, Any], to: dict[str, Any]) -> Any:
    return spec_of({
        "name": "clinic-visits", "source": {**source, "snapshot": "s"}, "publish": to, "columns": COLUMNS,
        "privacy": {"account": "t", "epsilon": 1, "delta": 1e-6},
    })  # fmt: skip


def copied(kind: str, folder: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Read from the source, coded, decoded and given the source's types, as a release does it without noise."""
    declared = spec(write(kind, folder, warehouse, monkeypatch), {"to": "out"})
    domain = TableDomain.of(declared)
    with closing(named_source(declared, folder)) as source:
        types = catalogue_types(source, domain)
        rows = pa.Table.from_batches(source.read(domain.names)).combine_chunks()
    codes = np.stack([np.asarray(each, np.int64) for each in encode(rows, domain).columns], axis=1)
    table = finished(decode(codes, domain, np.random.default_rng(1)), domain, types)
    assert breaches(table, checks_of(contract_of(domain, ROWS, types))) == []
    return table


@pytest.mark.parametrize("kind", SOURCES)
def test_a_copy_has_the_types_of_its_source(
    kind: str, tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = copied(kind, tmp_path, warehouse, monkeypatch)
    assert {name: table.schema.field(name).type for name in COLUMNS} == KEPT[kind]
    before = real()
    for name in ("count", "late", "small", "word", "grade"):  # bins of one value each come back as they were
        assert table[name].cast(pa.string()).to_pylist() == [
            None if value is None else str(int(value) if isinstance(value, float) else value)
            for value in before[name].to_pylist()
        ]
    if KEPT[kind]["grade"] == ENUM:  # in the order of the source, where its catalogue tells one
        first = table["grade"].chunk(0).dictionary.to_pylist()
        assert first == (LOW_TO_HIGH if kind != "parquet" else COLUMNS["grade"]["values"])


@pytest.mark.parametrize("into", TARGETS)
@pytest.mark.parametrize("kind", SOURCES)
def test_a_target_holds_what_was_copied_in_its_own_types(
    kind: str, into: str, tmp_path: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = copied(kind, tmp_path, warehouse, monkeypatch)
    publish(into, table, tmp_path, warehouse)
    types, rows = read_back(into, tmp_path, warehouse)
    expected = {name: IN_WORDS[into](table.schema.field(name), warehouse) for name in COLUMNS}
    assert types == expected
    wanted = [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(map(repr, map(_plain, rows))) == sorted(map(repr, map(_plain, wanted)))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Moments in UTC, whichever zone a driver names."""
    return tuple(
        value.astimezone(dt.UTC).replace(tzinfo=None) if isinstance(value, dt.datetime) and value.tzinfo else value
        for value in row
    )


def _in_duckdb(field: pa.Field, _: Warehouse) -> str:
    if field.type == ENUM:
        labels = enum_labels(field.metadata[b"understudy.type"].decode()) or []
        return "ENUM(" + ", ".join(f"'{label}'" for label in labels) + ")"
    return {
        pa.float64(): "DOUBLE", pa.int64(): "BIGINT", pa.int32(): "INTEGER", pa.int16(): "SMALLINT",
        pa.decimal128(10, 2): "DECIMAL(10,2)", pa.string(): "VARCHAR", pa.timestamp("us"): "TIMESTAMP",
        pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
    }[field.type]  # fmt: skip


def _in_postgresql(field: pa.Field, warehouse: Warehouse) -> str:
    if field.type == ENUM:
        [(name,)] = warehouse.rows("SELECT t.typname FROM pg_type t JOIN pg_attribute a ON a.atttypid = t.oid"
                                   " WHERE a.attrelid = 'copy'::regclass AND a.attname = 'grade'")  # fmt: skip
        words = warehouse.rows(f"SELECT unnest(enum_range(NULL::{name}))::text")
        assert [word for (word,) in words] in (LOW_TO_HIGH, COLUMNS["grade"]["values"])
        assert name.startswith("understudy_")
        return str(name)
    sql = (field.metadata or {}).get(b"understudy.type", b"").decode()
    return sql.replace("varchar", "character varying") or {
        pa.float64(): "double precision", pa.int64(): "bigint", pa.int32(): "integer", pa.int16(): "smallint",
        pa.decimal128(10, 2): "numeric(10,2)", pa.string(): "text", pa.timestamp("us"): "timestamp without time zone",
        pa.timestamp("us", tz="UTC"): "timestamp with time zone",
    }[field.type]  # fmt: skip


IN_WORDS: dict[str, Callable[[pa.Field, Warehouse], str]] = {
    "parquet": lambda field, _: str(field.type), "duckdb": _in_duckdb, "postgresql": _in_postgresql,
}  # fmt: skip
