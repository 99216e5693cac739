"""Both ways of reading PostgreSQL, binary by ADBC and CSV without it, send the same values, and neither tells one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pyarrow as pa
import pytest

from tests.warehouse import Warehouse
from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases import postgresql, postgresql_stream
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
    monkeypatch.setattr(postgresql_stream, "is_installed", lambda: False)
    text = whole(odd)
    assert binary.schema == text.schema
    assert repr(binary.to_pylist()) == repr(text.to_pylist())  # NaN equals no NaN, and -0.0 equals 0.0
    assert binary["f"].to_pylist()[0] == 0.1


@pytest.mark.parametrize("installed", [True, False])
def test_parts_are_the_table_either_way(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setattr(postgresql_stream, "is_installed", lambda: installed)
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


@pytest.mark.parametrize("installed", [True, False])
def test_a_failing_query_tells_its_state_and_no_value(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(postgresql_stream, "is_installed", lambda: installed)
    warehouse.execute("CREATE TABLE told (t text)", "INSERT INTO told VALUES ('hunter2')")
    warehouse.execute("CREATE VIEW telling AS SELECT t::int AS n FROM told")
    source = PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.telling")
    with closing(source), pytest.raises(SourceError) as caught:
        list(source.read(["n"]))
    assert "hunter2" not in str(caught.value)
    assert "SQLSTATE 22P02" in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("installed", [True, False])
def test_an_error_in_the_middle_of_a_stream_tells_its_state_too(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    monkeypatch.setattr(postgresql_stream, "is_installed", lambda: installed)
    warehouse.execute("CREATE VIEW far AS SELECT 1 / (100000 - i) AS n FROM generate_series(1, 100000) AS i")
    source = PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.far")
    with closing(source), pytest.raises(SourceError, match="SQLSTATE 22012") as caught:
        list(source.read(["n"], 1000))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_connections_of_one_address_read_the_catalogue_of_types_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    import adbc_driver_postgresql

    opened, connect = [], adbc_driver_postgresql.connect
    monkeypatch.setattr(adbc_driver_postgresql, "connect", lambda uri: opened.append(uri) or connect(uri))
    monkeypatch.setattr(postgresql, "PAGES_A_PART", 1)
    monkeypatch.setattr("understudy.pipelines.sources.databases.postgresql_binary._databases", {})
    warehouse.execute("CREATE TABLE many AS SELECT i FROM generate_series(1, 2000) AS i")
    for _ in range(2):
        with closing(PostgresSource(Address.of(warehouse.uri), f"{warehouse.schema}.many")) as source:
            assert sum(batch.num_rows for part in source.parts() or [] for batch in part.read(["i"])) == 2000
    assert len(opened) == 1


def test_connections_of_one_address_are_opened_and_closed_one_at_a_time(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver counts them without a lock: a count that is lost makes every later close of the process fail."""
    import adbc_driver_manager

    alone, crowds = threading.Lock(), []

    class Watched(adbc_driver_manager.AdbcConnection):
        def __init__(self, database: object) -> None:
            with watched():
                super().__init__(database)

        def close(self) -> None:
            with watched():
                super().close()

    @contextmanager
    def watched() -> Iterator[None]:
        crowds.append(not alone.acquire(blocking=False))
        time.sleep(0.002)
        yield
        if alone.locked():
            alone.release()

    monkeypatch.setattr(adbc_driver_manager, "AdbcConnection", Watched)
    monkeypatch.setattr(postgresql, "PAGES_A_PART", 1)
    warehouse.execute("CREATE TABLE many AS SELECT i FROM generate_series(1, 2000) AS i")
    address = Address.of(warehouse.uri)
    with closing(PostgresSource(address, f"{warehouse.schema}.many")) as source, ThreadPoolExecutor(4) as threads:
        read = threads.map(lambda part: sum(batch.num_rows for batch in part.read(["i"])), source.parts() or [])
        assert sum(read) == 2000
    assert len(crowds) > 6
    assert not any(crowds)
