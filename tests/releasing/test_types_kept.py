"""A published column has its source's type, from the catalogue, whatever source and target are."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.reading.zones import from_the_wall

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
    assert types["grade"] == 'enum["a", "b", "c"]'
    assert types["small"] == "int16"
    assert types["seen"] == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize(
    ("declared", "kept"),
    [("numeric(10,2)", "decimal128(10, 2)"), ("character varying(20)", "varchar(20)"), ("smallint", "int16"),
     ("timestamp with time zone", "timestamp[us, tz=UTC]"), ("timestamp(3) without time zone", "timestamp[ms]"),
     ("timestamp(0) with time zone", "timestamp[s, tz=UTC]"),
     ("numeric", None), ("interval", None)],
)  # fmt: skip
def test_the_words_of_the_catalogue_are_understood(declared: str, kept: str | None) -> None:
    assert kept_name(declared) == kept


def test_postgresql_gives_and_takes_its_own_types(warehouse: Warehouse) -> None:
    warehouse.execute(
        "CREATE TYPE grades AS ENUM ('b', 'a')",
        "CREATE DOMAIN levels AS numeric(4,1) CHECK (value > 0)",
        "CREATE TABLE sold (price numeric(10,2), small smallint, seen timestamptz, word varchar(4), grade grades,"
        " level levels)",
    )
    address = Address.parse(warehouse.uri, "source.uri")
    source = PostgresSource(address, f"{warehouse.schema}.sold")
    assert source.declared_types() == {
        "price": "decimal128(10, 2)", "small": "int16", "seen": "timestamp[us, tz=UTC]", "word": "varchar(4)",
        "grade": 'enum["b", "a"]', "level": "decimal128(4, 1)",
    }  # fmt: skip
    source.close()
    columns = {
        "price": {"type": "number", "min": 0, "max": 9, "decimals": 2},
        "small": {"type": "integer", "min": 0, "max": 9},
        "seen": {"type": "datetime", "min": "2026-01-01", "max": "2026-02-01", "bins": "day"},
        "word": {"type": "category", "values": ["x", "y"]}, "grade": {"type": "category", "values": ["a", "b"]},
        "level": {"type": "number", "min": 1, "max": 9, "decimals": 1},
    }  # fmt: skip
    domain = TableDomain.of(spec_of({**spec(columns=columns), "source": {"uri": "x.parquet", "snapshot": "s"},
                                     "publish": {"to": "o"}}))  # fmt: skip
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, size, 30) for size in domain.sizes], axis=1)
    table = finished(decode(codes, domain, rng), domain, source.declared_types())
    staged = "copy_staged"
    with warehouse.connect() as connection:
        load(connection, warehouse.schema, staged, Parts.of(table))
    found = warehouse.rows(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        f" WHERE attrelid = '{warehouse.schema}.{staged}'::regclass AND attnum > 0"
    )
    rows = warehouse.rows(f"SELECT * FROM {warehouse.schema}.{staged}")
    types = dict(found)
    assert {name: type_ for name, type_ in types.items() if name != "grade"} == {
        "price": "numeric(10,2)", "small": "smallint", "seen": "timestamp with time zone",
        "word": "character varying(4)", "level": "numeric(4,1)",
    }  # fmt: skip
    ordered = warehouse.rows(f"SELECT unnest(enum_range(NULL::{warehouse.schema}.{types['grade']}))::text")
    assert [word for (word,) in ordered] == ["b", "a"]
    assert [row[0] for row in rows] == table["price"].to_pylist()
    assert all(row[2].astimezone(dt.UTC).replace(tzinfo=None).hour == 0 for row in rows)


BERLIN = {"type": "datetime", "min": "2026-01-01", "max": "2026-12-31T23:59:59", "zone": "Europe/Berlin",
          "bins": "week", "parts": ["date", "weekday", "hour"]}  # fmt: skip


def by_the_clock(rows: int = 6000) -> pa.Table:
    """Moments whose hour is 9 or 17 on the wall in Berlin, in winter and in summer."""
    rng = np.random.default_rng(3)
    clock = ZoneInfo("Europe/Berlin")
    days = [dt.datetime(2026, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 365, rows)]
    hours = rng.choice([9, 17], rows)
    moments = [day.replace(hour=int(hour), tzinfo=clock) for day, hour in zip(days, hours, strict=True)]
    ends = [moment + dt.timedelta(minutes=30) for moment in moments]
    seen = pa.array([moment.astimezone(dt.UTC) for moment in moments], pa.timestamp("us", tz="UTC"))
    return pa.table({"seen": seen, "day": seen, "left": pa.array([end.astimezone(dt.UTC) for end in ends],
                                                                 pa.timestamp("us", tz="UTC"))})  # fmt: skip


@pytest.mark.parametrize("tz", ["UTC", "Asia/Tokyo", None])
def test_a_zoned_type_with_a_zone_is_published_at_the_moments_its_clock_shows(tmp_path: Path, tz: str | None) -> None:
    """Wall-clock times were published as if they were in UTC: an hour or two off in the type's zone."""
    given = by_the_clock()
    if tz is None:  # times of the wall clock already
        given = pa.table({name: pc.local_timestamp(given[name].cast(pa.timestamp("us", "Europe/Berlin")))
                          for name in given.column_names})  # fmt: skip
    else:
        given = given.cast(pa.schema([(name, pa.timestamp("us", tz)) for name in given.column_names]))
    columns = {
        "seen": BERLIN,
        "day": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "zone": "Europe/Berlin"},
        "left": {"type": "datetime", "after": "seen", "up_to": "2h"},
        "hour": {"derive": "hour(seen)"},
    }
    release = synthesize(given, spec(snapshot="s", columns=columns), cap=(10, 1e-5), home=tmp_path)
    table = release.table
    assert table.schema.field("seen").type == pa.timestamp("us", tz)
    assert table.schema.field("day").type == pa.timestamp("us", tz)
    assert table.schema.field("left").type == pa.timestamp("us", tz)
    shown = [
        moment if tz is None else moment.astimezone(ZoneInfo("Europe/Berlin")) for moment in table["seen"].to_pylist()
    ]
    hours = np.bincount([moment.hour for moment in shown], minlength=24) / len(shown)
    assert hours[9] + hours[17] > 0.95
    summer = [moment.hour for moment in shown if moment.month == 7]
    assert np.isin(summer, [9, 17]).mean() > 0.9
    assert table["hour"].to_pylist() == [moment.hour for moment in shown]
    midnights = [day if tz is None else day.astimezone(ZoneInfo("Europe/Berlin")) for day in table["day"].to_pylist()]
    assert {(day.hour, day.minute) for day in midnights} == {(0, 0)}
    lasting = [end - start for start, end in zip(table["seen"].to_pylist(), table["left"].to_pylist(), strict=True)]
    assert abs(np.median([one.total_seconds() for one in lasting]) - 1800) < 400


def test_a_time_that_the_clock_shows_twice_or_never_has_one_moment() -> None:
    wall = np.array(["2026-03-29T01:59", "2026-03-29T02:30", "2026-03-29T03:00", "2026-10-25T02:30"], "datetime64[us]")
    moments = from_the_wall(wall.astype(np.int64), "Europe/Berlin").astype("datetime64[us]").astype("datetime64[m]")
    assert [str(moment) for moment in moments] == [
        "2026-03-29T00:59", "2026-03-29T01:00", "2026-03-29T01:00", "2026-10-25T00:30",
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
       st.lists(st.integers(0, 2**31), min_size=1, max_size=40))  # fmt: skip
def test_moments_by_the_clock_are_those_that_arrow_finds(zone: str, seconds: list[int]) -> None:
    times = np.sort(np.array(seconds, np.int64)) * 1_000_000
    found = from_the_wall(times, zone)
    theirs = pc.assume_timezone(
        pa.array(times).cast(pa.timestamp("us")), zone, ambiguous="earliest", nonexistent="latest"
    ).cast(pa.int64())
    assert found.tolist() == theirs.to_pylist()
    assert (np.diff(found) >= 0).all()
