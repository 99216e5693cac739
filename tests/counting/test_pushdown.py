"""Counting in DuckDB gives the numbers of streaming the rows, whatever the values."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.strategies import DOMAIN as EVERY_KIND
from tests.table.coding.strategies import domain_of
from understudy.pipelines.counting.counting import LocalTable, count_marginals
from understudy.pipelines.counting.pushdown import count_in_engine, is_cheaper
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.table.coding.encode import encode

LISTED = domain_of(
    {
        "ward": {"type": "category", "values": ["A", "B"], "other": True, "nullable": True},
        'the "flag"': {"type": "boolean", "nullable": True},
        "n": {"type": "category", "values": [1, 2, 3]},
        "age": {"type": "integer", "min": 0, "max": 9},
    }
)
COUNTER = DuckDBSource(Path("t.duckdb"), "t").counter()
rows = st.tuples(
    st.sampled_from(["ann", "bob", "cy", None]),
    st.sampled_from(["A", "B", "C", "", None, "\x00", "NULL"]),
    st.sampled_from([True, False, None]),
    st.one_of(st.none(), st.floats(), st.integers(0, 4).map(float)),
    st.one_of(st.none(), st.integers(-5, 20)),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("database") / "t.duckdb"


@settings(max_examples=10, deadline=None)
@given(found=st.lists(rows, max_size=30), width=st.integers(1, 3))
def test_the_engine_gives_the_numbers_of_streaming(found, width, path):
    columns = list(zip(*found, strict=True)) or [()] * 5
    types = [pa.string(), pa.string(), pa.bool_(), pa.float64(), pa.int64()]
    names = ["who", *LISTED.names]
    table = pa.table([pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)], names=names)
    with duckdb.connect(path) as connection:
        connection.register("table_", table)
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM table_")
    source = DuckDBSource(path, "t")
    cliques = [(), *combinations(range(4), width), (2, 0)]
    streamed = (encode(batch, LISTED) for batch in source.read(LISTED.names))
    expected = count_marginals(streamed, LISTED.sizes, cliques)
    for counts in (
        count_in_engine(source.counter(), LISTED, cliques),
        LocalTable(source, LISTED, Unit(), b"k").counts(cliques),
    ):
        assert all((a == b).all() for a, b in zip(counts, expected, strict=True))


def test_a_collation_that_ignores_case_does_not_merge_values(tmp_path):
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t (ward VARCHAR COLLATE NOCASE)")
        connection.execute("INSERT INTO t VALUES ('A'), ('a'), ('a'), ('B'), (NULL)")
    domain = domain_of({"ward": {"type": "category", "values": ["A", "B"], "other": True, "nullable": True}})
    (counts,) = count_in_engine(DuckDBSource(tmp_path / "t.duckdb", "t").counter(), domain, [(0,)])
    assert counts.tolist() == [1, 1, 2, 1]


def test_few_marginals_of_listed_values_are_cheaper_in_the_engine():
    assert is_cheaper(COUNTER, LISTED, [(0,), (1,), (2,)])
    assert is_cheaper(COUNTER, LISTED, [(0, 1), (0, 2)])
    assert not is_cheaper(COUNTER, LISTED, [(3,)])
    assert not is_cheaper(COUNTER, LISTED, [()])
    assert not is_cheaper(COUNTER, EVERY_KIND, list(combinations(range(len(EVERY_KIND.columns)), 2)))
