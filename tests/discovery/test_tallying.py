"""Whoever tallies a table, the sums are the same to the last integer: one stream, threads, DuckDB, PostgreSQL, Dask."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.discovery.tallied import KEY, Streamed, by_tasks, duckdb_source, in_pieces, same, streamed
from tests.table.coding.strategies import arrays
from tests.warehouse import Warehouse
from understudy.pipelines.discovery import tallying
from understudy.pipelines.discovery.engine import grouped_places
from understudy.pipelines.discovery.observing import Looking
from understudy.pipelines.discovery.tally import COARSE, FINE, UNITS, VALUES, Asked, Tally, merge_sums
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec

EVERYTHING = (VALUES, COARSE, FINE)
UNITS_ = (Unit(), Unit("who", 1), Unit("who", 3))
words = st.sampled_from(["a", " a", "A", "7", "07", "2.5", "1e3", "2014-05-01", "", " ", "ñ", "\x00", "c" * 200, None])
rows = st.lists(st.tuples(st.sampled_from("abcd"), words, st.integers(-3, 3) | st.none()), max_size=24)


def asked(*names: str, kind: Any = None) -> list[Asked]:
    return [Asked(Looking(name, kind), EVERYTHING) for name in names]


def table_of(found: list[tuple[str, str | None, int | None]]) -> pa.Table:
    who, x, y = zip(*found, strict=True) if found else ((), (), ())
    return pa.table({"who": pa.array(who, pa.string()), "x": pa.array(x, pa.string()), "y": pa.array(y, pa.int64())})


@settings(max_examples=40, deadline=None)
@given(rows, st.sampled_from(UNITS_))
def test_pieces_threads_and_tasks_add_up_to_what_one_stream_gives(found: list, unit: Unit) -> None:
    table, questions = table_of(found), asked("x", "y")
    expected = streamed(table, questions, unit)
    assert same(in_pieces(table, questions, unit), expected)
    assert same(by_tasks(table, questions, unit), expected)


@settings(max_examples=30, deadline=None)
@given(rows)
def test_row_by_row_is_the_whole(found: list) -> None:
    table, questions = table_of(found), asked("x", "y")
    empty = Tally(questions, Unit()).sums()
    single = [streamed(table.slice(place, 1), questions, Unit()) for place in range(len(table))]
    assert same(merge_sums([empty, *single]), streamed(table, questions, Unit()))


@settings(max_examples=25, deadline=None)
@given(arrays)
def test_any_arrow_type_is_merged_alike(values: pa.Array) -> None:
    table = pa.table({"x": values, "who": pa.array([str(i // 2) for i in range(len(values))], pa.string())})
    for unit in (Unit(), Unit("who", 1)):
        assert same(by_tasks(table, asked("x"), unit), streamed(table, asked("x"), unit))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("database") / "t.duckdb"


@settings(max_examples=8, deadline=None)
@given(rows)
def test_duckdb_groups_to_the_same_sums(path: Path, found: list) -> None:
    source = duckdb_source(table_of(found), path)
    expected = tally_table(Streamed(source), asked("x", "y", "who"), Unit(), KEY)
    assert same(tally_table(source, asked("x", "y", "who"), Unit(), KEY), expected)
    for unit in UNITS_[1:]:
        bounded = tally_table(Streamed(source), asked("x", "y"), unit, KEY)
        assert same(tally_table(source, asked("x", "y"), unit, KEY), bounded)


ODD = """
CREATE TYPE mood AS ENUM ('sad', ' ok', 'happy');
CREATE TABLE odd AS SELECT
  i, (i % 3)::utinyint AS tiny, (i * 10000000000)::hugeint AS huge, (i % 4 = 0) AS truth,
  (CASE i % 5 WHEN 0 THEN '-0.0' WHEN 1 THEN '0.0' WHEN 2 THEN 'nan' WHEN 3 THEN '1.5' END)::double AS real,
  (CASE i % 4 WHEN 0 THEN 'Str ' WHEN 1 THEN 'str' WHEN 2 THEN 'STR' END) COLLATE NOCASE AS word,
  (i % 7 / 10)::decimal(9, 3) AS money, date '2020-01-01' + (i % 9)::int AS day,
  timestamp '2020-01-01' + interval (i % 9) hour AS moment, timestamptz '2020-01-01 00:00+00' AS zoned,
  (CASE i % 2 WHEN 0 THEN interval 30 day ELSE interval 1 month END) AS long, ['sad', 'happy', NULL][i % 3 + 1]::mood AS mood,
  [i % 2] AS list, {'a': i % 2} AS pair, ('\\xAA' || (i % 3))::blob AS bytes, time '10:00' AS time, uuid() AS id
FROM range(50) AS r(i)
"""  # noqa: E501


def test_every_type_of_duckdb_gives_the_sums_of_streaming(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "odd.duckdb") as connection:
        connection.execute(ODD)
        names = [str(row[0]) for row in connection.execute("DESCRIBE odd").fetchall()]
    from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource

    source = DuckDBSource(tmp_path / "odd.duckdb", "odd")
    expected = tally_table(Streamed(source), asked(*names), Unit(), KEY)
    assert same(tally_table(source, asked(*names), Unit(), KEY), expected)
    grouped = grouped_places(source.counter(), source.schema(), Tally(asked(*names), Unit()))
    assert not {"real", "long", "list", "pair"} & {names[place] for place in grouped}
    assert {"i", "truth", "word", "money", "day", "moment", "mood"} <= {names[place] for place in grouped}


ODD_ROWS = [
    ("A ", 1, True, -0.0, decimal.Decimal("1.00"), dt.date(2020, 1, 1), "infinity", "ok", "2020-01-01 10:00+02"),
    ("a", 2, False, 0.0, decimal.Decimal("1.0"), None, "0044-03-15 BC", "sad", "2020-01-01 08:00+00"),
    ("ñ", None, None, float("nan"), None, dt.date(1, 1, 1), "2020-02-29", None, None),
    (None, -(2**63), True, 1e308, decimal.Decimal("NaN"), dt.date(2020, 1, 1), None, " ok", "infinity"),
    ("", 7, True, None, decimal.Decimal("12.50"), dt.date(2020, 1, 1), "2020-02-29", "ok", "1900-01-01"),
    ('"quo,ted"\n', 7, True, None, decimal.Decimal(7), dt.date(2020, 1, 1), "2020-02-29", "ok", "1900-01-01"),
]


@pytest.fixture
def odd(warehouse: Warehouse) -> PostgresSource:
    warehouse.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', ' ok')",
        "CREATE TABLE odd (word char(12), whole bigint, truth boolean, real double precision, money numeric, day date,"
        " days date, mood mood, zoned timestamptz)",
    )
    with warehouse.connect() as connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO odd VALUES (%s, %s, %s, %s, %s, %s, %s::date, %s, %s::timestamptz)", ODD_ROWS * 4
        )
    source = open_source(SourceSpec(uri=warehouse.uri, table=f"{warehouse.schema}.odd", snapshot="s"), Path())
    assert isinstance(source, PostgresSource)
    return source


def test_postgresql_groups_to_the_same_sums(odd: PostgresSource, monkeypatch: pytest.MonkeyPatch) -> None:
    names = odd.schema().names
    expected = tally_table(Streamed(odd), asked(*names), Unit(), KEY)
    used: list[Any] = []
    real = tallying.tally_in_engine
    monkeypatch.setattr(tallying, "tally_in_engine", lambda *given: used.append(given[2]) or real(*given))
    assert same(tally_table(odd, asked(*names), Unit(), KEY), expected)
    assert [[names[place] for place in places] for places in used] == [[name for name in names if name != "real"]]
    assert expected[UNITS].weights.tolist() == [4 * len(ODD_ROWS)]
    bounded = Unit("whole", 2)
    assert same(tally_table(odd, asked(*names), bounded, KEY), tally_table(Streamed(odd), asked(*names), bounded, KEY))
    assert len(used) == 1  # which rows of an entity count is nothing that an engine could choose


def test_more_columns_than_an_engine_takes_at_once_are_asked_in_turn(
    odd: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = odd.schema().names
    expected = tally_table(odd, asked(*names), Unit(), KEY)
    monkeypatch.setattr(type(odd.counter()), "most_columns", 3)
    assert same(tally_table(odd, asked(*names), Unit(), KEY), expected)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, rng = tmp_path_factory.mktemp("visits"), np.random.default_rng(5)
    for i in range(5):
        count = 400
        table = pa.table({
            "who": rng.integers(0, 300, count),
            "x": [f"word {word}" if word % 4 else str(word) for word in rng.zipf(1.4, count) % 500],
            "y": pa.array(np.round(rng.normal(0, 100, count), 2), mask=rng.random(count) < 0.1),
        })  # fmt: skip
        pq.write_table(table, place / f"{i}.parquet", row_group_size=100)
    return place


@pytest.mark.parametrize("unit", UNITS_)
def test_dask_gives_the_sums_of_this_process(folder: Path, unit: Unit) -> None:
    pytest.importorskip("distributed")
    from understudy.tasks.engines.dask_discovery import DaskTallying

    source = ParquetSource(folder)
    expected = tally_table(Streamed(source), asked("x", "y"), unit, KEY)
    assert same(DaskTallying()(source, asked("x", "y"), unit, KEY), expected)


def test_workers_of_other_processes_give_them_too(folder: Path) -> None:
    distributed = pytest.importorskip("distributed")
    from understudy.tasks.engines.dask_discovery import DaskTallying

    source = ParquetSource(folder)
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(**local) as cluster:
        for unit in (Unit(), Unit("who", 3)):
            found = DaskTallying(cluster.scheduler_address)(source, asked("x", "y"), unit, KEY)
            assert same(found, tally_table(Streamed(source), asked("x", "y"), unit, KEY))


class QuotingPart:
    def read(self, columns: Any, batch_rows: int) -> Any:
        raise ValueError("secret")


def test_an_error_on_a_worker_quotes_nothing() -> None:
    pytest.importorskip("distributed")
    from understudy.tasks.engines.dask_counting import Sealed
    from understudy.tasks.engines.dask_discovery import DiscoveryJob, find_texts, tally_part

    job = DiscoveryJob(tuple(asked("x")), Unit("who", 2), Sealed(b"secret"))
    assert "secret" not in repr(job)
    for call in (lambda: tally_part(QuotingPart(), job), lambda: find_texts(QuotingPart(), job, 0, 9)):
        with pytest.raises(UnderstudyError, match="ValueError") as caught:
            call()
        assert "secret" not in str(caught.value)
