"""Both ways of reading PostgreSQL, binary through libpq and CSV through psycopg, give the same values and tell none.

Parts that are read at one time are the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tests.table.coding.strategies import domain_of
from tests.warehouse import Warehouse
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases import postgresql, postgresql_binary, postgresql_stream
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.spec.address import Address

ODD = (
    "CREATE TABLE odd (a int2, b int8, f float4, g float8, n numeric, m money, t text, d date, ts timestamp,"
    " tz timestamptz, bo bool, v varchar(5), ch char(5), i interval, j json, ar int[], u uuid, by bytea)",
    """INSERT INTO odd VALUES
    (1, 2, 0.1, 0.1, 1.10, '$1,000.50', 'x', '2026-01-01', '2026-01-01 01:02:03.5', '2026-01-01 01:02:03+05', true,
     'ab', 'ab ', '1 day', '{}', '{1,2}', '00000000-0000-0000-0000-000000000001', 'x'),
    (null, null, 'nan', 'nan', 'nan', null, '', 'infinity', 'infinity', '-infinity', null, '  ', '', '-1 mon', '[]',
     null, null, null),
    (-32768, -9223372036854775808, '-inf', 'inf', '1e100', null, E'a\\nb,"q" \\\\N', '4000-01-01 BC', '4000-01-01 BC',
     '29400-01-01', false, 'ü', 'ü', null, null, '{}', null, null),
    (null, 9007199254740993, 1e-45, '-0', '-0.000', '-$5', 'NULL', null, null, null, null, E'\\ufeff', null, null, null,
     null, null, null)""",
)
Read = Callable[[PostgresSource], pa.Table]


def whole(source: PostgresSource) -> pa.Table:
    return pa.Table.from_batches(list(source.read(source.schema().names, 2)))


@pytest.fixture
def odd(warehouse: Warehouse) -> Iterator[PostgresSource]:
    warehouse.execute(*ODD)
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.odd")) as source:
        yield source


def test_both_ways_send_the_same_values_to_the_bit(odd: PostgresSource, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = whole(odd)
    monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: False)
    text = whole(odd)
    assert binary.schema == text.schema
    assert repr(binary.to_pylist()) == repr(text.to_pylist())  # NaN equals no NaN, and -0.0 equals 0.0
    assert binary["f"].to_pylist()[0] == 0.1


@pytest.mark.parametrize("reachable", [True, False])
def test_parts_are_the_table_either_way(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, reachable: bool) -> None:
    monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: reachable)
    monkeypatch.setattr(postgresql, "PAGES_A_PART", 1)
    warehouse.execute("CREATE TABLE many AS SELECT i, 'text ' || i AS t FROM generate_series(1, 2000) AS i")
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.many")) as source:
        parts = source.parts()
        assert parts is not None
        assert len(parts) > 3
        batches = [batch for part in parts for batch in part.read(["t", "i"], 100)]
    assert max(batch.num_rows for batch in batches) <= 100
    found = pa.Table.from_batches(batches).sort_by("i")
    assert found["i"].to_pylist() == list(range(1, 2001))
    assert found["t"].to_pylist() == [f"text {i}" for i in range(1, 2001)]


@pytest.mark.parametrize("reachable", [True, False])
def test_a_failing_query_tells_its_state_and_no_value(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, reachable: bool
) -> None:
    monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: reachable)
    warehouse.execute("CREATE TABLE told (t text)", "INSERT INTO told VALUES ('hunter2')")
    warehouse.execute("CREATE VIEW telling AS SELECT t::int AS n FROM told")
    source = PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.telling")
    with closing(source), pytest.raises(SourceError) as caught:
        list(source.read(["n"]))
    assert "hunter2" not in str(caught.value)
    assert "SQLSTATE 22P02" in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("reachable", [True, False])
def test_an_error_in_the_middle_of_a_stream_tells_its_state_too(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, reachable: bool
) -> None:
    monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: reachable)
    warehouse.execute("CREATE VIEW far AS SELECT 1 / (100000 - i) AS n FROM generate_series(1, 100000) AS i")
    source = PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.far")
    with closing(source), pytest.raises(SourceError, match="SQLSTATE 22012") as caught:
        list(source.read(["n"], 1000))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("block", [64, 1000])
def test_rows_may_lie_across_blocks_and_be_longer_than_one(
    odd: PostgresSource, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    whole_rows = whole(odd)
    monkeypatch.setattr(postgresql_binary, "BLOCK_BYTES", block)
    monkeypatch.setattr(postgresql_binary, "MOST_ROWS", 3)
    assert repr(whole(odd).to_pylist()) == repr(whole_rows.to_pylist())


def test_blocks_of_long_rows_are_the_table(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql_binary, "BLOCK_BYTES", 4096)
    warehouse.execute(
        "CREATE TABLE long AS SELECT i, repeat(i::text, i % 7 * 3000) AS t, i * 0.01 AS n,"
        " CASE WHEN i % 3 > 0 THEN date '2026-01-01' + i END AS d FROM generate_series(1, 500) AS i"
    )
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.long")) as source:
        binary = whole(source).to_pylist()
        monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: False)
        assert binary == whole(source).to_pylist()
    assert len(binary) == 500


def test_a_type_of_somebody_s_own_is_text_whatever_it_is_called(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only PostgreSQL's own `date` is sent as a number of days."""
    warehouse.execute(
        "CREATE TYPE date AS ENUM ('long ago')",
        "CREATE DOMAIN day AS pg_catalog.date",
        "CREATE DOMAIN workday AS day",
        f"CREATE TABLE named (a {warehouse.schema}.date, b day, c workday)",
        "INSERT INTO named VALUES ('long ago', '2026-01-01', '2026-01-02'), (null, null, 'infinity')",
    )
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.named")) as source:
        binary = whole(source).to_pylist()
        monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: False)
        assert binary == whole(source).to_pylist()
    assert binary == [
        {"a": "long ago", "b": "2026-01-01", "c": "2026-01-02"},
        {"a": None, "b": None, "c": "infinity"},
    ]


def test_rows_without_a_column_are_still_rows(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE bare AS SELECT i FROM generate_series(1, 10) AS i", "CREATE TABLE none (i int)")
    for table, rows in (("bare", 10), ("none", 0)):
        with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.{table}")) as source:
            assert sum(batch.num_rows for batch in source.read([], 3)) == rows
            assert sum(batch.num_rows for batch in source.read(["i"], 3)) == rows


@pytest.mark.parametrize("reachable", [True, False])
def test_a_connection_that_is_lost_in_the_middle_is_an_error_without_a_value(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, reachable: bool
) -> None:
    monkeypatch.setattr(postgresql_stream, "is_reachable", lambda: reachable)
    monkeypatch.setattr(postgresql, "_LEAST_PAGES", 8192)
    warehouse.execute("CREATE TABLE lost AS SELECT 'hunter2 ' || i AS t FROM generate_series(1, 400000) AS i")
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.lost")) as source:
        rows = source.read(["t"])
        next(rows)
        warehouse.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COPY%'")
        with pytest.raises(SourceError, match="failed") as caught:
            list(rows)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_reader_that_stops_early_leaves_nothing_open(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE left_off AS SELECT i FROM generate_series(1, 400000) AS i")
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.left_off")) as source:
        for _ in range(3):
            rows = source.read(["i"], 10)
            next(rows)
            rows.close()  # type: ignore[attr-defined]
        assert sum(batch.num_rows for batch in source.read(["i"])) == 400000


def test_parts_read_at_a_time_see_one_state_whatever_is_written_meanwhile(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "PAGES_A_PART", 1)
    warehouse.execute("CREATE TABLE moving AS SELECT i, i % 7 AS m FROM generate_series(1, 20000) AS i")
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.moving")) as source:
        parts = source.parts() or []
        assert len(parts) > 20

        def read(numbered: tuple[int, postgresql.PostgresPart]) -> list[int]:
            number, part = numbered
            if number % 5 == 0:
                warehouse.execute(
                    f"UPDATE moving SET m = 100 WHERE i % 11 = {number}",
                    f"DELETE FROM moving WHERE i % 13 = {number}",
                    "INSERT INTO moving SELECT 20000 + i, 1 FROM generate_series(1, 500) AS i",
                )
            return [
                i * 1000 + m for batch in part.read(["i", "m"]) for i, m in batch.to_pandas().itertuples(index=False)
            ]

        with ThreadPoolExecutor(6) as threads:
            found = sorted(value for values in threads.map(read, enumerate(parts)) for value in values)
    assert found == [i * 1000 + i % 7 for i in range(1, 20001)]


DOMAIN = domain_of(
    {
        "sex": {"type": "category", "values": ["F", "M"], "nullable": True},
        "charge": {"type": "number", "min": 0, "max": 100, "bins": 7, "nullable": True},
        "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": 12, "nullable": True},
        "at": {"type": "datetime", "min": "2026-01-01T00:00", "max": "2026-12-31T00:00", "bins": 9, "nullable": True},
    }
)
CLIQUES = [(0,), (0, 1), (1, 2), (2, 3), (0, 3)]


@pytest.mark.parametrize("unit", [Unit(), Unit("who", 2)])
def test_one_stream_or_many_binary_or_text_give_the_same_counts(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, unit: Unit
) -> None:
    warehouse.execute(
        "SELECT setseed(0.5)",
        "CREATE TABLE visits AS SELECT (random() * 900)::numeric(8, 3) AS who,"
        " (ARRAY['F', 'M', 'X', NULL])[1 + floor(random() * 4)::int] AS sex,"
        " CASE WHEN random() > 0.1 THEN (random() * 120 - 10)::numeric(10, 2) END AS charge,"
        " CASE WHEN random() > 0.1 THEN date '2025-12-01' + floor(random() * 500)::int END AS seen,"
        " timestamptz '2025-12-20' + random() * interval '400 days' AS at FROM generate_series(1, 9000)",
        "INSERT INTO visits VALUES (1.10, 'F', 'NaN', 'infinity', '-infinity'),"
        " (1.1, 'M', 0.00, '0044-03-15 BC', '29400-01-01')",
    )

    def counted(threads: int) -> list[list[int]]:
        with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.visits")) as source:
            table = LocalTable(source, DOMAIN, unit, b"key", 500, threads)
            counts = table.stream_counts(CLIQUES) if unit.entity is None else table.counts(CLIQUES)
        return [np.asarray(each).tolist() for each in counts]

    one = counted(1)
    assert sum(one[0]) > 1000
    with monkeypatch.context() as patch:
        patch.setattr(postgresql, "PAGES_A_PART", 1)
        assert counted(4) == one
        patch.setattr(postgresql_stream, "is_reachable", lambda: False)
        assert counted(4) == one


def test_a_table_is_cut_so_that_every_thread_has_work_to_the_end(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "_LEAST_PAGES", 2)
    warehouse.execute("CREATE TABLE many AS SELECT i FROM generate_series(1, 10000) AS i")
    with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.many")) as source:
        parts = source.parts() or []
        assert 8 <= len(parts) <= 9
        assert all(one.end == other.first for one, other in pairwise(parts))
        assert sum(batch.num_rows for part in parts for batch in part.read(["i"])) == 10000
