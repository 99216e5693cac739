"""PostgreSQL as a source: the same rows as any other source, bounded, under one snapshot, and no way to inject SQL."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import psycopg
import pytest

from tests.sources.bounded import ODD, kept
from tests.sources.bounded import rows_of as rows
from tests.warehouse import Warehouse
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases import postgresql as module
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec

QUOTED = ODD.replace('"', '""')


def opened(warehouse: Warehouse, table: str) -> PostgresSource:
    source = open_source(SourceSpec(uri=warehouse.uri, table=table, snapshot="s"), Path())
    assert isinstance(source, PostgresSource)
    return source


@pytest.fixture(params=["table", "view", "partitioned", "inherited"])
def source(request: pytest.FixtureRequest, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> PostgresSource:
    monkeypatch.setattr(module, "PAGES_A_PART", 1)
    values = (
        "('ann',1,'a'),('bob',2,'b'),('ann',3,'c'),(NULL,4,'d'),"
        "('cy',5,'e'),('ann',6,'f'),('bob',NULL,'g'),('ann',6,'h')"
    )
    columns = f'who text, n integer, "{QUOTED}" text'
    name = f"{warehouse.schema}.people"
    match request.param:
        case "table":
            warehouse.execute(f"CREATE TABLE people ({columns}) WITH (fillfactor = 10)")
        case "view":
            warehouse.execute(f"CREATE TABLE base ({columns})", "CREATE VIEW people AS SELECT * FROM base")
        case "partitioned":
            warehouse.execute(f"CREATE TABLE people ({columns}) PARTITION BY HASH (n)")
            for i in range(2):
                values_of = f"FOR VALUES WITH (MODULUS 2, REMAINDER {i})"
                warehouse.execute(f"CREATE TABLE p{i} PARTITION OF people {values_of}")
        case "inherited":
            warehouse.execute(f"CREATE TABLE people ({columns})", "CREATE TABLE child () INHERITS (people)")
    into = {"view": "base", "inherited": "child"}.get(request.param, "people")
    warehouse.execute(f"INSERT INTO {into} VALUES {values}")
    return opened(warehouse, name)


def test_the_same_rows_as_from_any_other_source(source: PostgresSource) -> None:
    assert source.schema().names == ["who", "n", ODD]
    assert [str(field.type) for field in source.schema()] == ["string", "int64", "string"]
    assert rows(source, [ODD, "n"]) == [
        ("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5"), ("f", "6"), ("g", "None"), ("h", "6")
    ]  # fmt: skip
    assert len(rows(source, ["n"])) == 8  # a null alone on its line is a row too
    assert source.row_estimate() is None or source.row_estimate() >= 0


@pytest.mark.parametrize("cap", [1, 2, 3, 9])
def test_at_most_k_rows_an_entity_and_none_without_one(source: PostgresSource, cap: int) -> None:
    found = Counter(who for who, *_ in kept(source, ["who", "n", ODD], Unit("who", cap)))
    assert found == {"ann": min(4, cap), "bob": min(2, cap), "cy": 1}
    assert len(kept(source, [ODD], Unit("who", cap))) == found.total()


def test_the_choice_follows_the_key(source: PostgresSource) -> None:
    choices = {tuple(kept(source, ["n", ODD], Unit("who", 2), bytes([key]))) for key in range(12)}
    assert len(choices) > 2
    assert kept(source, ["n"], Unit("who", 2)) == kept(source, ["n"], Unit("who", 2))


def test_equal_rows_of_one_entity_are_capped_too(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE t AS SELECT 'ann' AS who, 1 AS n FROM generate_series(1, 500)")
    assert len(kept(opened(warehouse, f"{warehouse.schema}.t"), ["n"], Unit("who", 7))) == 7


def test_one_number_is_one_entity_however_it_is_written(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE t AS SELECT * FROM (VALUES (1.0, 1), (1.00, 2), (1, 3), (0.0, 4), (0, 5)) v(w, n)")
    warehouse.execute("CREATE VIEW v AS SELECT * FROM t")
    for name in ("t", "v"):
        assert len(kept(opened(warehouse, f"{warehouse.schema}.{name}"), ["n"], Unit("w", 1))) == 2


def test_every_pass_sees_the_snapshot_of_the_first(warehouse: Warehouse) -> None:
    warehouse.execute(
        "CREATE TABLE t AS SELECT g AS n FROM generate_series(1, 10) g", "CREATE VIEW v AS SELECT * FROM t"
    )
    for name in ("t", "v"):
        source = opened(warehouse, f"{warehouse.schema}.{name}")
        before = rows(source, ["n"])
        warehouse.execute("INSERT INTO t VALUES (99)", "DELETE FROM t WHERE n < 5")
        assert rows(source, ["n"]) == before
        assert rows(opened(warehouse, f"{warehouse.schema}.{name}"), ["n"]) != before


def test_parts_travel_to_other_processes_without_a_secret(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE t AS SELECT g AS n FROM generate_series(1, 10) g")
    source = opened(warehouse, f"{warehouse.schema}.t")
    [part] = source.parts() or []
    copy = pickle.loads(pickle.dumps(part))
    assert sum(batch.num_rows for batch in copy.read(["n"], 100)) == 10
    assert rows(pickle.loads(pickle.dumps(source)), ["n"]) == rows(source, ["n"])


def test_no_value_however_odd_can_stop_a_read(warehouse: Warehouse) -> None:
    warehouse.execute(
        "CREATE TYPE mood AS ENUM ('good'); CREATE TABLE t (d date, ts timestamptz, f float8, x numeric, b boolean,"
        " m mood, j jsonb, u uuid, c char(5), i interval, y bytea, t text, a integer[], w money)",
        "INSERT INTO t VALUES ('infinity', '0044-03-15 BC', 'NaN', 'NaN', NULL, 'good', '{\"a\":1}', gen_random_uuid(),"
        " 'ab', '1 day', '\\x00ff', E'two\nlines \"quoted\", with commas', '{1,2}', 12.5)",
        "INSERT INTO t (f, x, t, b) VALUES ('-Infinity', 1e300, '', true)",
        "SET timezone = 'Asia/Tokyo'; INSERT INTO t (ts, d) VALUES ('2026-10-01 01:00', '2026-10-01')",
    )
    source = opened(warehouse, f"{warehouse.schema}.t")
    names = [name for name in source.schema().names if name != "a"]
    batches = list(source.read(names))
    found = [row for batch in batches for row in batch.to_pylist()]
    assert len(found) == 3
    assert found[0]["d"] == "infinity"
    assert found[0]["t"] == 'two\nlines "quoted", with commas'
    assert found[0]["w"] == "12.50"
    assert found[1]["t"] == ""
    assert found[1]["f"] == -float("inf")
    assert found[2]["ts"] == "2026-09-30 16:00:00"
    assert str(source.schema().field("a").type) == "list<item: string>"


def test_names_reach_sql_only_if_the_catalogue_lists_them(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE t AS SELECT 1 AS a")
    for name in (
        "t; DROP TABLE t",
        't" WHERE false --',
        f"{warehouse.schema}.T",
        "pg_catalog.nothing",
        "t\\",
        "%s",
        "%(table)s",
    ):
        with pytest.raises(SpecError, match="no table or view"):
            opened(warehouse, name).schema()
    source = opened(warehouse, f"{warehouse.schema}.t")
    for name in ('a" FROM t; --', "1 OR 1", "*", "a, a"):
        with pytest.raises(SpecError, match="no column"):
            list(source.read([name]))
        with pytest.raises(SpecError, match="no column"):
            list(source.read(["a", name]))
    assert rows(source, ["a"]) == [("1",)]


def test_the_source_cannot_be_written_to(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE t (a integer)", "CREATE SEQUENCE s",
                      "CREATE VIEW v AS SELECT nextval('s')::int AS a")  # fmt: skip
    with pytest.raises(SourceError, match="withheld"):
        list(opened(warehouse, f"{warehouse.schema}.v").read(["a"]))
    assert warehouse.rows("SELECT last_value, is_called FROM s") == [(1, False)]  # the transaction is read-only


def test_errors_name_neither_values_nor_secrets(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.execute("CREATE TABLE t AS SELECT 'canary-7f3a' AS a", "CREATE VIEW v AS SELECT a::integer AS a FROM t")
    with pytest.raises(SourceError) as caught:
        list(opened(warehouse, f"{warehouse.schema}.v").read(["a"]))
    assert "canary" not in str(caught.value)
    monkeypatch.setenv("WAREHOUSE_URL", "postgresql://me:hunter2@127.0.0.1:1/db")
    source = open_source(SourceSpec(uri="postgresql+env://WAREHOUSE_URL", table="t", snapshot="s"), Path())
    with pytest.raises(SourceError, match="cannot connect") as caught:
        source.schema()
    assert "hunter2" not in str(caught.value) + repr(caught.value.__context__) + repr(source)


def test_an_address_from_the_environment(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.execute("CREATE TABLE t AS SELECT 1 AS a")
    monkeypatch.setenv("WAREHOUSE_URL", warehouse.url)
    source = open_source(SourceSpec(uri="postgresql+env://WAREHOUSE_URL", table="t", snapshot="s"), Path())
    assert source.schema().names == ["a"]  # found on the search path that the address itself sets


@pytest.mark.parametrize(
    "uri",
    ["postgresql://me:secret@host/db", "postgresql://host/db?password=secret", "postgresql://host/db?options=-cx%3Dy",
     "postgresql://host/db?passfile=/etc/shadow", "postgresql+env://not a name", "postgresql+block://../x",
     "postgresql+psycopg://host/db"],
)  # fmt: skip
def test_addresses_that_a_spec_may_not_have(uri: str) -> None:
    with pytest.raises(SpecError) as caught:
        open_source(SourceSpec(uri=uri, table="t", snapshot="s"), Path())
    assert "secret" not in str(caught.value).replace("another secret", "")


def test_a_closed_source_holds_no_lock_and_is_not_read_again(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE visits AS SELECT g AS x FROM generate_series(1, 10) g")
    source = opened(warehouse, f"{warehouse.schema}.visits")
    parts = source.parts()
    assert parts is not None
    with pytest.raises(psycopg.errors.LockNotAvailable):
        warehouse.execute("SET lock_timeout = '50ms'", "DROP TABLE visits")
    source.close()
    source.close()
    with pytest.raises(SourceError, match="was closed"):
        list(source.read(["x"]))
    with pytest.raises(SourceError):
        list(parts[0].read(["x"]))
    warehouse.execute("SET lock_timeout = '1s'", "DROP TABLE visits")


def test_a_source_that_is_closed_before_it_is_read_connects_to_nothing(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE visits AS SELECT 1 AS x")
    source = opened(warehouse, f"{warehouse.schema}.visits")
    source.close()
    with pytest.raises(SourceError, match="was closed"):
        list(source.read(["x"]))
