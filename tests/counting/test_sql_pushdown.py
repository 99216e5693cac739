"""Counting in SQLite and MariaDB gives the numbers of streaming; the other engines' SQL is compared as text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mariadb import MariaDB
from tests.table.coding.strategies import domain_of
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.databases.group_sql import (
    BIGQUERY,
    DATABRICKS,
    DUCKDB,
    MARIADB,
    POSTGRESQL,
    SNOWFLAKE,
    SQLITE,
    Engine,
    bin_of,
    column_named,
    grouped_sql,
    named,
)
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.domain import TableDomain

DOMAIN = domain_of(
    {
        "ward": {"type": "category", "values": ["A", "a", "1", "x y"], "other": True, "nullable": True},
        "it's": {"type": "boolean", "nullable": True},
        "rank": {"type": "category", "values": [1, 2, 3], "other": True},
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11, "nullable": True},
        "dose": {"type": "number", "min": -1, "max": 1, "bins": 7, "nullable": True},
    }
)
PAIRS = [(), *((i,) for i in range(5)), *combinations(range(5), 2), (0, 1, 3)]
WORDS = ["A", "a", "A ", " A", "\u00c4", "1", "1.0", "x y", "", " ", "other", "a\0b", "A\0", "100%s", "'", "\\", None]
WHOLES = [-(2**63), 2**63 - 1, 2**53 + 1, -1, 0, 1, 2, 3, 9, 10, 109, 110, 111, None]
EDGES = [float(edge) for edge in DOMAIN.columns[4].edges]
DOUBLES = [*EDGES, *(float(np.nextafter(edge, side)) for edge in EDGES for side in (-9, 9)), 1e300, -0.0, 5e-324, None]


def same_counts(source: Source, domain: TableDomain = DOMAIN) -> list[str]:
    """Whatever the engine can count it counts as streaming does; the names of those columns."""
    counter = source.counter()
    assert counter is not None
    able = [i for i, column in enumerate(domain.columns) if counter.can_group(column)]
    cliques = [clique for clique in PAIRS if set(clique) <= set(able)]
    streamed = LocalTable(source, domain, Unit(), b"").stream_counts(cliques)
    for clique, one, other in zip(cliques, count_in_engine(counter, domain, cliques), streamed, strict=True):
        assert one.tolist() == other.tolist(), clique
    return [domain.names[i] for i in able]


ANYTHING = st.one_of(
    st.sampled_from(WORDS), st.sampled_from(WHOLES), st.floats(allow_nan=False), st.binary(max_size=3), st.booleans()
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(*[ANYTHING] * 5), min_size=1, max_size=20))
def test_sqlite_counts_whatever_its_columns_hold(rows: list[tuple[object, ...]], tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
        connection.execute("DROP TABLE IF EXISTS t")
        connection.execute('CREATE TABLE t (ward text COLLATE NOCASE, "it\'s" boolean, rank, age integer, dose real)')
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    with closing(open_source(SourceSpec(uri="sqlite:///t.db", table="t", snapshot="s"), tmp_path)) as source:
        assert same_counts(source) == ["ward", "it's", "rank", "age"]


@pytest.fixture
def people(mariadb: MariaDB) -> Iterator[Source]:
    rng = np.random.default_rng(1)
    mariadb.execute("CREATE TABLE t (who bigint, ward text, `it's` boolean, `rank` int, age bigint, dose double)")
    pools = ([1, 2, 3, 4, 5, 6, 7, None], WORDS, [True, False, None], [0, 1, 2, 3, None], WHOLES, DOUBLES)
    mariadb.insert("t", [tuple(pool[rng.integers(len(pool))] for pool in pools) for _ in range(400)])
    with closing(open_source(SourceSpec(uri=mariadb.uri, table="t", snapshot="s"), Path())) as source:
        yield source


def test_mariadb_counts_what_its_collation_takes_for_one(people: Source) -> None:
    assert same_counts(people) == list(DOMAIN.names)


def test_with_a_bound_mariadb_is_streamed_to_the_same_counts_and_ticks(people: Source) -> None:
    import pyarrow as pa

    held = ArrowSource(pa.Table.from_batches(list(people.read(["who", *DOMAIN.names]))))
    unit, weights = Unit("who", 3), EntityWeights.of(3)
    for given_weights in (None, weights):
        one, other = (
            LocalTable(each, DOMAIN, unit, b"key").counts([(0, 3), (2,)], given_weights) for each in (people, held)
        )
        assert [count.tolist() for count in one] == [count.tolist() for count in other]


def test_types_of_mariadb_that_cannot_be_binned_exactly_are_streamed(mariadb: MariaDB) -> None:
    mariadb.execute("CREATE TABLE t (age bigint unsigned, dose float, ward date)")
    mariadb.insert("t", [(2**64 - 1, 0.1, "2026-01-01"), (5, -0.3, None)])
    with closing(open_source(SourceSpec(uri=mariadb.uri, table="t", snapshot="s"), Path())) as source:
        counter = source.counter()
        assert counter is not None
        able = [name for name in ("age", "dose", "ward") if counter.can_group(DOMAIN.columns[DOMAIN.index(name)])]
        assert able == ["ward"]
        assert not is_cheaper(counter, DOMAIN, [(3,)])


def question(engine: Engine) -> str:
    values = [engine.exactly(column_named("a b")), bin_of(column_named("n"), DOMAIN.columns[4], as_doubles=True)]
    return grouped_sql(engine, named("s", "t"), values, [(0,), (0, 1), ()])


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (SNOWFLAKE, ["COLLATE(\"a b\", '')", "GROUPING SETS", '"s"."t"']),
        (BIGQUERY, ["COLLATE(`a b`, '')", "GROUPING SETS", "`s`.`t`"]),
        (DATABRICKS, ["`a b` COLLATE UTF8_BINARY", "GROUPING SETS", "`s`.`t`"]),
        (POSTGRESQL, ['"a b" COLLATE "C"', "GROUPING SETS", '"s"."t"']),
        (DUCKDB, ['"a b" COLLATE C', "GROUPING SETS", '"s"."t"']),
        (SQLITE, ['TYPEOF("a b")', "UNION ALL", '"s"."t"']),
        (MARIADB, ["AS BINARY", "UNION ALL", "`s`.`t`"]),
    ],
    ids=lambda value: value.dialect if isinstance(value, Engine) else "",
)
def test_each_engine_is_asked_in_its_own_words(engine: Engine, said: list[str]) -> None:
    asked = question(engine)
    assert all(words in asked for words in said), asked
    parsed = sqlglot.parse(asked, dialect=engine.dialect)
    assert len(parsed) == 1
    if engine in (SNOWFLAKE, BIGQUERY, DATABRICKS):  # never run: what SQLGlot reads of it is what was meant
        assert parsed[0].sql(engine.dialect) == asked
        assert asked.count("GROUPING(") == 2
        assert asked.count("COUNT(*)") == 1


@pytest.mark.parametrize("name", ['a"b', "a`b", "a'b", "a; DROP TABLE t; --", "a\\", "100%"])
def test_no_name_gets_out_of_its_quotes(name: str) -> None:
    for engine in (SNOWFLAKE, BIGQUERY, DATABRICKS, POSTGRESQL, DUCKDB, SQLITE, MARIADB):
        asked = grouped_sql(engine, named(name), [column_named(name)], [(0,)])
        [parsed] = sqlglot.parse(asked, dialect=engine.dialect)
        assert parsed is not None
        assert name in {each.name for each in parsed.find_all(sqlglot.exp.Column)}
