"""A published column has its source's type, from the catalogue, whatever source and target are."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse import Warehouse
from understudy import Synthesizer, synthesize
from understudy.pipelines.publishing.targets.postgresql_loading import load
from understudy.pipelines.releasing.measuring import named_source
from understudy.pipelines.sources.catalogue import catalogue_types
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.databases.postgresql_columns import kept_name
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.table.checks import breaches, checks_of
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.finishing import finished

COLUMNS: dict[str, Any] = {
    "price": {"type": "number", "min": 0, "max": 500, "decimals": 2, "bins": 8},
    "small": {"type": "integer", "min": 0, "max": 200, "bins": 8, "nullable": True},
    "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-02-01", "bins": "day"},
    "grade": {"type": "category", "values": ["a", "b", "c"]},
    "kind": {"type": "category", "values": ["1.5", "2.5"]},
    "whole": {"type": "number", "min": 0, "max": 50, "bins": 5},
    "flag": {"type": "boolean"},
    "double": {"derive": "price + price"},
}
TYPES = {
    "price": pa.decimal128(10, 2), "small": pa.int16(), "seen": pa.timestamp("us", tz="UTC"),
    "grade": pa.dictionary(pa.int32(), pa.string()), "kind": pa.float64(), "whole": pa.int32(), "flag": pa.int8(),
    "double": pa.float64(),
}  # fmt: skip


def real(rows: int = 2000) -> pa.Table:
    rng = np.random.default_rng(7)
    small = rng.integers(0, 200, rows)
    moments = (
        pa.array(rng.integers(0, 31 * 86_400, rows) + 1_767_225_600).cast(pa.timestamp("s")).cast(pa.timestamp("us"))
    )
    price = [Decimal(int(cents)) / 100 for cents in rng.integers(0, 50_000, rows)]
    return pa.table(
        {
            "price": pa.array(price, pa.decimal128(10, 2)),
            "small": pa.array(small, pa.int16(), mask=small > 150),
            "seen": moments.cast(pa.timestamp("us", tz="UTC")),
            "grade": pa.array(rng.choice(["a", "b", "c"], rows)).dictionary_encode(),
            "kind": pa.array(rng.choice([1.5, 2.5], rows)),
            "whole": pa.array(rng.integers(0, 50, rows), pa.int32()),
            "flag": pa.array(rng.integers(0, 2, rows), pa.int8()),
        }
    )


def spec(**more: Any) -> dict[str, Any]:
    return {
        "name": "typed",
        "privacy": {"account": "t", "epsilon": 5, "delta": 1e-6},
        "columns": COLUMNS,
        "generate": {"epochs": 1, "device": "cpu"},
        **more,
    }


def test_every_column_has_its_sources_type_and_keeps_its_contract(tmp_path: Path) -> None:
    release = synthesize(real(), spec(snapshot="s"), cap=(10, 1e-5), home=tmp_path)
    assert {name: release.table.schema.field(name).type for name in TYPES} == TYPES
    rows = release.table.to_pylist()
    assert all(Decimal(str(row["double"])) == 2 * row["price"] for row in rows)
    assert {row["kind"] for row in rows} == {1.5, 2.5}
    frame = release.to_pandas()
    assert str(frame["small"].dtype) == "Int16"
    assert frame["small"].isna().any()


def test_further_rows_have_the_types_too(tmp_path: Path) -> None:
    first = Synthesizer(spec(snapshot="s"), cap=(10, 1e-5), home=tmp_path).fit(real())
    again = Synthesizer(spec(snapshot="s"), home=tmp_path).fit(real().slice(0, 10))
    assert again.reused
    assert again.sample(20).schema == first.sample(20).schema


def test_whole_numbers_stay_whole_where_nulls_made_them_doubles(tmp_path: Path) -> None:
    frame = pd.DataFrame({"small": [1.0, np.nan, 3.0] * 300})
    columns = {"small": {"type": "integer", "min": 0, "max": 9, "nullable": True}}
    release = synthesize(frame, spec(snapshot="s", columns=columns), cap=(10, 1e-5), home=tmp_path)
    assert release.table.schema.field("small").type == pa.int64()


def test_both_engines_of_checks_agree_on_kept_types() -> None:
    from understudy.tasks.engines.expectations import expectations_failed

    domain = TableDomain.of(
        spec_of({**spec(), "source": {"uri": "x.parquet", "snapshot": "s"}, "publish": {"to": "o"}})
    )
    types = {name: str(type_) for name, type_ in TYPES.items()} | {"grade": "enum"}
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 100) for size in domain.sizes], axis=1)
    table = finished(decode(codes, domain, rng), domain, types)
    checks = checks_of(contract_of(domain, None, types))
    assert breaches(table, checks) == expectations_failed(table, checks) == []
    low = pa.array([Decimal("-1.00")] * 100, pa.decimal128(10, 2))
    wrong = table.set_column(0, "price", low)
    assert [str(check) for check in breaches(wrong, checks)] == [str(one) for one in expectations_failed(wrong, checks)]


def test_a_duckdb_table_keeps_decimals_enums_and_zones(tmp_path: Path) -> None:
    pq.write_table(real(), tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "real.duckdb")) as connection:
        connection.execute("CREATE TYPE grades AS ENUM ('a', 'b', 'c')")
        connection.execute(
            "CREATE TABLE sold AS SELECT price, small, seen, grade::VARCHAR::grades AS grade, kind, whole, flag "
            f"FROM '{tmp_path}/rows.parquet'"
        )
    declared = spec_of({**spec(), "source": {"uri": "duckdb:///real.duckdb", "table": "sold", "snapshot": "s"},
                        "publish": {"to": "out"}})  # fmt: skip
    types = catalogue_types(named_source(declared, tmp_path), TableDomain.of(declared))
    assert types["price"] == "decimal128(10, 2)"
    assert types["grade"] == "enum"
    assert types["small"] == "int16"
    assert types["seen"].startswith("timestamp[us, tz=")


@pytest.mark.parametrize(
    ("declared", "kept"),
    [("numeric(10,2)", "decimal128(10, 2)"), ("character varying(20)", "varchar(20)"), ("smallint", "int16"),
     ("timestamp with time zone", "timestamp[us, tz=UTC]"), ("timestamp(3) without time zone", "timestamp[us]"),
     ("numeric", None), ("interval", None)],
)  # fmt: skip
def test_the_words_of_the_catalogue_are_understood(declared: str, kept: str | None) -> None:
    assert kept_name(declared) == kept


def test_postgresql_gives_and_takes_its_own_types(warehouse: Warehouse) -> None:
    warehouse.execute(
        "CREATE TYPE grades AS ENUM ('a', 'b')",
        "CREATE TABLE sold (price numeric(10,2), small smallint, seen timestamptz, word varchar(4), grade grades)",
    )
    address = Address.parse(warehouse.uri, "source.uri")
    source = PostgresSource(address, f"{warehouse.schema}.sold")
    assert source.declared_types() == {
        "price": "decimal128(10, 2)", "small": "int16", "seen": "timestamp[us, tz=UTC]", "word": "varchar(4)",
        "grade": "enum",
    }  # fmt: skip
    source.close()
    columns = {
        "price": {"type": "number", "min": 0, "max": 9, "decimals": 2},
        "small": {"type": "integer", "min": 0, "max": 9},
        "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-02-01", "bins": "day"},
        "word": {"type": "category", "values": ["x", "y"]}, "grade": {"type": "category", "values": ["a", "b"]},
    }  # fmt: skip
    domain = TableDomain.of(spec_of({**spec(columns=columns), "source": {"uri": "x.parquet", "snapshot": "s"},
                                     "publish": {"to": "o"}}))  # fmt: skip
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 30) for size in domain.sizes], axis=1)
    table = finished(decode(codes, domain, rng), domain, source.declared_types())
    staged = "copy_staged"
    with warehouse.connect() as connection:
        load(connection, warehouse.schema, staged, table)
    found = warehouse.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = '{warehouse.schema}.{staged}'::regclass AND attnum > 0"
    )
    rows = warehouse.rows(f"SELECT * FROM {warehouse.schema}.{staged}")
    assert dict(found) == {
        "price": "numeric(10,2)", "small": "smallint", "seen": "timestamp with time zone",
        "word": "character varying(4)", "grade": "text",
    }  # fmt: skip
    assert [row[0] for row in rows] == table["price"].to_pylist()
    assert all(row[2].astimezone(dt.UTC).replace(tzinfo=None).hour == 0 for row in rows)
