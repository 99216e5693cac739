"""`rolling.column` reads the rows of the period and no other, from every source, before bounding, row by row."""

from __future__ import annotations

import datetime as dt
import pickle
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import SPEC
from tests.sources.bounded import declared
from tests.table.coding.strategies import domain_of
from tests.warehouse import Warehouse
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.sources.period import PeriodSource, of_period, rows_within
from understudy.pipelines.spec.periods import period_named
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.domain import TableDomain

OCTOBER = period_named("month", "2026-10")
DAYS = ["2026-09-30", "2026-10-01", "2026-10-31", "2026-11-01", None, "2026-10-15", "2026-10-15", "2025-10-15"]
ROWS = pa.table(
    {
        "who": ["ann", "ann", "ann", "ann", "ann", "bob", "ann", "bob"],
        "ward": list("ABABABAB"),
        "seen": pa.array([day and dt.date.fromisoformat(day) for day in DAYS], pa.date32()),
    }
)
IN_OCTOBER = Counter({("ann", "B"): 1, ("ann", "A"): 2, ("bob", "B"): 1})
PEOPLE = domain_of(
    {
        "who": {"type": "category", "values": ["ann", "bob"]},
        "ward": {"type": "category", "values": ["A", "B"]},
        "seen": {"type": "date", "min": "2025-01-01", "max": "2026-12-31", "bins": "day"},
    }
)
KINDS = ["memory", "parquet", "directory", "csv", "duckdb", "duckdb view", "sqlite"]


def opened(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    def named(uri: str, table: str | None = None) -> Source:
        return open_source(SourceSpec(uri=uri, table=table, snapshot="s"), folder)

    match kind:
        case "memory":
            return ArrowSource(ROWS)
        case "parquet":
            pq.write_table(ROWS, folder / "t.parquet", row_group_size=3)
            return named("t.parquet")
        case "directory":
            (folder / "t").mkdir()
            pq.write_table(ROWS.slice(0, 5), folder / "t" / "a.parquet", row_group_size=2)
            pq.write_table(ROWS.slice(5), folder / "t" / "b.parquet")
            return named("t/")
        case "csv":
            pa.csv.write_csv(ROWS, folder / "t.csv")
            return named("t.csv")
        case "sqlite":
            with sqlite3.connect(folder / "t.db") as connection:
                connection.execute("CREATE TABLE t (who text, ward text, seen date)")
                connection.executemany("INSERT INTO t VALUES (?, ?, ?)", _lines())
            connection.close()
            monkeypatch.setenv("T_URL", f"sqlite:///{folder}/t.db")
            return named("sql+env://T_URL", "t")
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.register("rows_", ROWS)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows_; CREATE VIEW v AS SELECT * FROM t")
    return named("duckdb:///t.duckdb", "t" if kind == "duckdb" else "v")


def _lines() -> list[tuple[Any, ...]]:
    return [tuple(None if value is None else str(value) for value in row.values()) for row in ROWS.to_pylist()]


def kept(source: Source, unit: Unit, columns: tuple[str, ...] = ("who", "ward")) -> Counter[tuple[str, ...]]:
    batches = LocalTable(source, declared(columns, PEOPLE), unit, b"key", 3).record_batches()
    return Counter(tuple(map(str, row.values())) for batch in batches for row in batch.to_pylist())


def check(source: Source) -> None:
    """The rows of October, whoever's; with a cap, at most so many of them, and as many as there are up to it."""
    october = PeriodSource(source, "seen", OCTOBER)
    assert october.schema().names == ["who", "ward", "seen"]
    assert kept(october, Unit()) == IN_OCTOBER
    assert kept(october, Unit("who", 9)) == IN_OCTOBER
    for most in (1, 2):
        capped = Counter(who for who, _ in kept(october, Unit("who", most)).elements())
        assert capped == {"ann": min(3, most), "bob": 1}  # rows of other months take nobody's place
    assert kept(october, Unit(), ("seen",)).total() == 4
    assert kept(PeriodSource(source, "seen", period_named("day", "2026-10-15")), Unit()) == {
        ("bob", "B"): 1,
        ("ann", "A"): 1,
    }
    months = ("2025-10", "2026-09", "2026-10", "2026-11")
    every = [kept(PeriodSource(source, "seen", period_named("month", month)), Unit()) for month in months]
    assert sum(every, Counter()).total() == 7  # each dated row in one month, the undated one in none


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_the_period_from_every_source(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(opened(kind, tmp_path, monkeypatch))


@pytest.mark.parametrize("type_", ["date", "timestamp", "timestamptz", "text"])
@pytest.mark.parametrize("relation", ["TABLE", "VIEW"])
def test_from_postgresql(type_: str, relation: str, tmp_path: Path, warehouse: Warehouse) -> None:
    values = ", ".join(
        "(" + ", ".join("NULL" if v is None else f"'{v}'" for v in line) + ")" for line in _lines()
    )  # fmt: skip
    warehouse.execute(
        f"CREATE TABLE rows_ (who text, ward text, seen {type_})",
        f"INSERT INTO rows_ VALUES {values}",
        *(
            []
            if type_ == "text"
            else ["INSERT INTO rows_ VALUES ('eve', 'A', 'infinity'), ('eve', 'A', '0044-03-15 BC')"]
        ),
        "CREATE VIEW v AS SELECT * FROM rows_",
    )
    table = f"{warehouse.schema}.{'rows_' if relation == 'TABLE' else 'v'}"
    source = open_source(SourceSpec(uri=warehouse.uri, table=table, snapshot="s"), tmp_path)
    check(source)
    counts_agree(source)


def test_from_an_object_store(bucket: str, tmp_path: Path) -> None:
    import io

    import boto3

    sink = io.BytesIO()
    pq.write_table(ROWS, sink, row_group_size=2)
    boto3.client("s3").put_object(Bucket=bucket, Key="t/a.parquet", Body=sink.getvalue())
    check(open_source(SourceSpec(uri=f"s3://{bucket}/t", snapshot="s"), tmp_path))


def counts_agree(source: Source) -> None:
    """Counting never asks the engine for other periods' rows, also where the engine could have counted."""
    domain = TableDomain.of(parse_spec(WARDS))
    table = LocalTable(PeriodSource(source, "seen", OCTOBER), domain, Unit(), b"key")
    [counts] = table.counts([(0,)])
    assert counts.tolist() == [2, 2]


WARDS = """\
name: wards
source: {uri: x.csv, snapshot: "2026-10"}
privacy: {account: clinic, epsilon: 1, delta: 1e-6}
columns: {ward: {type: category, values: [A, B]}}
rolling: {period: month, entities: disjoint, column: seen}
publish: {to: releases/}
"""


def test_an_engine_that_counts_by_itself_counts_the_period_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts_agree(opened("duckdb", tmp_path, monkeypatch))


def test_dask_counts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    from understudy.tasks.engines.dask_counting import DaskTable

    domain = TableDomain.of(parse_spec(WARDS))
    october = PeriodSource(opened("directory", tmp_path, monkeypatch), "seen", OCTOBER)
    assert october.parts() is not None
    for unit in (Unit(), Unit("who", 1)):
        [here] = LocalTable(october, domain, unit, b"key").counts([(0,)])
        [there] = DaskTable(october, domain, unit, b"key").counts([(0,)])
        assert here.tolist() == there.tolist()
        assert here.sum() == (4 if unit.entity is None else 2)
    assert [len(list(part.read(["who"], 9))) for part in pickle.loads(pickle.dumps(october.parts()))]


def test_the_column_must_be_there_and_hold_dates() -> None:
    for table, problem in (
        (ROWS.drop_columns("seen"), "no column 'seen'"),
        (ROWS.set_column(2, "seen", pa.array(range(8))), "holds no dates"),
    ):
        with pytest.raises(SpecError, match=problem):
            PeriodSource(ArrowSource(table), "seen", OCTOBER).schema()


def test_a_release_without_the_column_reads_every_row() -> None:
    source = ArrowSource(ROWS)
    assert of_period(source, parse_spec(SPEC)) is source
    assert isinstance(of_period(source, parse_spec(WARDS)), PeriodSource)


MOMENTS = st.one_of(
    st.none(),
    st.sampled_from(["2026-10-01", "2026-10-31T23:59:59.999999", "2026-11-01T00:30+01:00", "2026-10-01T00:30+01:00",
                     "2026-09-30 23:30-01:00", "2026-10-32", "October", "", "2026-10", "NaN", "2026-11-01"]),
    st.datetimes(dt.datetime(2026, 9, 29), dt.datetime(2026, 11, 2)).map(lambda moment: moment.isoformat()),
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(MOMENTS, min_size=1, max_size=20), st.data())
def test_a_row_belongs_to_a_period_by_its_own_value_alone(texts: list[str | None], data: st.DataObject) -> None:
    def chosen(values: list[str | None]) -> list[int]:
        batch = pa.record_batch({"n": range(len(values)), "seen": pa.array(values, pa.string())})
        return rows_within(batch, ["n"], "seen", OCTOBER).column(0).to_pylist()

    together = chosen(texts)
    assert together == [row for row, text in enumerate(texts) if chosen([text])]
    order = data.draw(st.permutations(range(len(texts))))
    assert sorted(order[row] for row in chosen([texts[i] for i in order])) == together
    for row, text in enumerate(texts):
        try:
            moment = dt.datetime.fromisoformat(text or "")
        except ValueError:
            assert row not in together
            continue
        utc = moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
        assert (row in together) == (OCTOBER.first <= utc.date() <= OCTOBER.last), text


@pytest.mark.parametrize(
    "type_", [pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")), pa.string(),
              pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.timestamp("us", "Asia/Tokyo")],
    ids=str,
)  # fmt: skip
def test_every_type_that_holds_dates(type_: pa.DataType) -> None:
    days = [day and dt.date.fromisoformat(day) for day in DAYS]
    plain = pa.array(days, pa.date32())
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_dictionary(type_):
        values = pa.array(DAYS, pa.string()).cast(type_)
    elif pa.types.is_timestamp(type_) and type_.tz:
        values = plain.cast(pa.timestamp("us", "UTC")).cast(type_)
    else:
        values = plain.cast(type_)
    batch = pa.record_batch({"n": np.arange(len(DAYS)), "seen": values})
    assert rows_within(batch, ["n"], "seen", OCTOBER).column(0).to_pylist() == [1, 2, 5, 6]
