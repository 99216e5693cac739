"""Counting in PostgreSQL gives the numbers of streaming the rows, whatever the values and their types."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.table.coding.strategies import DOMAIN as EVERY_KIND
from tests.table.coding.strategies import domain_of
from tests.warehouse import Warehouse
from understudy.pipelines.counting import counting
from understudy.pipelines.counting.counting import LocalTable, count_marginals
from understudy.pipelines.counting.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.databases.postgresql_counting import _coded
from understudy.pipelines.sources.opening import check_columns, open_source
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

ROWS = 600
ODD_DAYS = ["infinity", "-infinity", "0044-03-15 BC", "11000-01-01", "0001-01-01", "9999-12-31", None]
ODD_MOMENTS = [*ODD_DAYS[:-1], "2026-01-01 06:30:00.000001", "2026-01-01 23:59:59.999999", "1969-12-31 23:59:59", None]
ODD_NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7e308, None]
TYPES = {
    "age": "smallint", "small": "integer", "income": "bigint", "charge": "double precision", "ratio": "bigint",
    "price": "double precision", "visited": "date", "weekly": "timestamp", "seen": "timestamptz", "hourly": "date",
    "sex": "char(12)", "ward": "text", "rank": "numeric", "coin": "real", "flag": "boolean", "yes": "text",
}  # fmt: skip


def values_of(name: str, rng: np.random.Generator) -> list[Any]:
    """Values on, next to and far from the edges, and those that have no place among them."""
    column = EVERY_KIND.columns[EVERY_KIND.index(name)]
    match TYPES[name]:
        case "smallint" | "integer" | "bigint":
            pool: list[Any] = [None, -1, 0, 1, 2, 3, -30_000, 30_000, 110, 109]
            if TYPES[name] == "bigint":
                pool += [-(2**63), 2**63 - 1, 2**53 + 1, *(int(edge) for edge in column.edges)]
        case "double precision":
            near = [np.nextafter(edge, side) for edge in column.edges for side in (-np.inf, np.inf)]
            pool = [*map(float, (*column.edges, *near)), *ODD_NUMBERS]
        case "date":
            pool = [*ODD_DAYS, "2024-02-27", "2024-02-29", "2024-03-01", "2026-01-02", "2027-06-01"]
        case "timestamp" | "timestamptz":
            pool = [*ODD_MOMENTS, "1970-01-01", "1969-12-10 12:00", "2026-01-05 00:00:00", "2026-02-28 23:59"]
        case "boolean":
            pool = [True, False, None]
        case "numeric" | "real":
            pool = [0, 1, 2, 3, 1.5, -7, "NaN", None]
        case _:
            pool = ["F", "M", "A", "B", "a", "yes", "No", "true", "2026-01-01", "", " ", "ñ", None]
    return [pool[i] for i in rng.integers(0, len(pool), ROWS)]


def fill(warehouse: Warehouse, kind: str = "table") -> PostgresSource:
    rng = np.random.default_rng(0)
    columns = [values_of(name, rng) for name in TYPES]
    declared = ", ".join(f'"{name}" {type_}' for name, type_ in TYPES.items())
    warehouse.execute(f"CREATE TABLE base ({declared})")
    with warehouse.connect() as connection, connection.cursor() as cursor:
        holes = ", ".join(["%s"] * len(TYPES))
        cursor.executemany(f"INSERT INTO base VALUES ({holes})".encode(), list(zip(*columns, strict=True)))
    if kind == "view":
        warehouse.execute("CREATE VIEW people AS SELECT * FROM base")
    return opened(warehouse, "people" if kind == "view" else "base")


def opened(warehouse: Warehouse, table: str) -> PostgresSource:
    source = open_source(SourceSpec(uri=warehouse.uri, table=f"{warehouse.schema}.{table}", snapshot="s"), Path())
    assert isinstance(source, PostgresSource)
    return source


def part_of(*names: str) -> TableDomain:
    return TableDomain(tuple(column for column in EVERY_KIND.columns if column.name in names))


def streamed(source: PostgresSource, domain: TableDomain, cliques: list[tuple[int, ...]]) -> list[np.ndarray]:
    batches = source.read(domain.names)
    return count_marginals((encode(batch, domain) for batch in batches), domain.sizes, cliques)


@pytest.mark.parametrize("kind", ["table", "view"])
def test_the_engine_gives_the_numbers_of_streaming(warehouse: Warehouse, kind: str) -> None:
    source = fill(warehouse, kind)
    width = len(EVERY_KIND.columns)
    for cliques in (
        [(), *((i,) for i in range(width))],
        list(combinations(range(width), 2)),
        [(0, 6, 15), (8, 3), (5, 14, 2)],
    ):
        found = count_in_engine(source.counter(), EVERY_KIND, cliques)
        expected = streamed(source, EVERY_KIND, cliques)
        for clique, a, b in zip(cliques, found, expected, strict=True):
            assert a.dtype == np.int64
            assert (a == b).all(), [EVERY_KIND.names[column] for column in clique]


def test_it_is_used_where_it_is_cheaper_and_only_there(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    source = fill(warehouse)
    used: list[Any] = []
    monkeypatch.setattr(
        counting,
        "count_in_engine",
        lambda *arguments: used.append(arguments) or count_in_engine(*arguments),
    )
    domain = part_of("age", "ward", "charge", "visited", "seen")
    cliques: list[tuple[int, ...]] = [(1,), (4,)]
    for unit, times in ((Unit(), 1), (Unit("sex", 2), 1)):
        LocalTable(source, domain, unit, b"k").counts(cliques)
        assert len(used) == times
    pairs = [*combinations(range(len(EVERY_KIND.columns)), 2)]
    assert not is_cheaper(source.counter(), EVERY_KIND, pairs)
    assert not is_cheaper(source.counter(), EVERY_KIND, [])


def test_many_groups_of_few_columns_are_streamed(warehouse: Warehouse) -> None:
    """A column is streamed in a third of the time that one more GROUP BY takes."""
    source = fill(warehouse)
    six = TableDomain(
        tuple(DomainColumn(f"c{i}", "category", tuple("abcdefgh"), (), False, False, False) for i in range(6))
    )
    assert is_cheaper(source.counter(), six, [(i,) for i in range(6)])
    assert not is_cheaper(source.counter(), six, [*combinations(range(6), 2)])


@pytest.mark.parametrize("type_", ["numeric", "real", "text"])
def test_types_that_the_engine_would_compare_otherwise_are_streamed(warehouse: Warehouse, type_: str) -> None:
    warehouse.execute(f"CREATE TABLE t (x {type_})", "INSERT INTO t VALUES ('0.1'), ('3.5'), (NULL)")
    source = opened(warehouse, "t")
    domain = domain_of({"x": {"type": "number", "min": 0, "max": 4, "bins": 40, "nullable": True}})
    assert not is_cheaper(source.counter(), domain, [(0,)])
    assert LocalTable(source, domain, Unit(), b"k").counts([(0,)])[0].sum() == 3


def test_text_is_grouped_by_its_bytes(warehouse: Warehouse) -> None:
    """The server of these tests has no collation that takes different texts for equal; the query must rule it out."""
    domain = domain_of({"ward": {"type": "category", "values": ["A", "B"], "other": True, "nullable": True}})
    warehouse.execute("CREATE TABLE t (ward text)", "INSERT INTO t VALUES ('A'), ('a'), ('a'), ('B'), (NULL)")
    source = opened(warehouse, "t")
    (counts,) = count_in_engine(source.counter(), domain, [(0,)])
    assert counts.tolist() == [1, 1, 2, 1]
    assert 'COLLATE "C"' in _coded(source.column("ward"), domain.columns[0]).as_string()


def test_both_ways_see_one_snapshot(warehouse: Warehouse) -> None:
    source = fill(warehouse)
    domain = part_of("flag")
    before = streamed(source, domain, [(0,)])
    warehouse.execute("DELETE FROM base")
    assert (count_in_engine(source.counter(), domain, [(0,)])[0] == before[0]).all()


def test_a_column_with_a_format_is_streamed_unless_its_values_are_listed(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE people (day text, stamp timestamptz, epoch bigint, word text)")
    warehouse.execute(
        "INSERT INTO people VALUES ('01/04/2014', now(), 1396375560, ' NYC'), ('13/04/2014', now(), 0, 'x'),"
        " ('04/13/2014', now(), null, 'nyc')"
    )
    bounds = {"min": "2014-01-01", "max": "2014-12-31", "bins": "month", "nullable": True}
    word = {"type": "category", "values": ["NYC"], "trim": True, "case": "ignore", "other": True}
    domain = domain_of({
        "day": {"type": "date", "day_first": True, **bounds},
        "epoch": {"type": "datetime", "format": "epoch", **bounds},
        "word": word,
    })  # fmt: skip
    source = opened(warehouse, "people")
    assert not is_cheaper(source.counter(), domain, [(0,)])
    assert not is_cheaper(source.counter(), domain, [(1,)])
    assert is_cheaper(source.counter(), domain, [(2,)])
    days, epochs, words = LocalTable(source, domain, Unit(), b"k").counts([(0,), (1,), (2,)])
    assert days[[3, -1]].tolist() == [2, 1]
    assert epochs[[0, 3, -1]].tolist() == [1, 1, 1]
    assert words.tolist() == count_in_engine(source.counter(), domain, [(2,)])[0].tolist() == [2, 1]


def test_a_clock_is_refused_for_moments_that_come_in_utc(warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE people (stamp timestamptz, plain timestamp)")
    column = {"type": "datetime", "min": "2014-01-01", "max": "2014-12-31", "zone": "Europe/Berlin"}
    tree = {
        "name": "t", "source": {"uri": "x", "snapshot": "s"}, "publish": {"to": "out"},
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
    }  # fmt: skip
    schema = opened(warehouse, "people").schema()
    check_columns(schema, spec_of({**tree, "columns": {"plain": column}}))
    with pytest.raises(SpecError, match="AT TIME ZONE 'Europe/Berlin'"):
        check_columns(schema, spec_of({**tree, "columns": {"stamp": column}}))
