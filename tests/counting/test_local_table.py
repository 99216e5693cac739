"""The private table counted in this process: sources, bounding, encoding and counting together."""

from __future__ import annotations

from itertools import combinations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.strategies import domain_of
from understudy.pipelines.counting.counting import LocalTable, count_marginals
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.coding.encode import encode

DOMAIN = domain_of(
    {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        "ward": {"type": "category", "values": ["A", "B"], "other": True, "nullable": True},
        "cost": {"type": "number", "min": 0, "max": 1000, "bins": 5, "scale": "log", "nullable": True},
    }
)
CLIQUES = [(0,), *combinations(range(3), 2), (0, 1, 2)]


def visits(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "who": pa.array(rng.zipf(1.5, rows) % 50, mask=rng.random(rows) < 0.05),
            "age": rng.integers(-5, 130, rows),
            "ward": pa.array(rng.choice(["A", "B", "C"], rows), mask=rng.random(rows) < 0.1),
            "cost": pa.array(np.where(rng.random(rows) < 0.05, np.nan, rng.lognormal(3, 2, rows))),
        }
    )


def local(uri, base, unit=Unit(), table=None, **options) -> LocalTable:
    return LocalTable(
        open_source(SourceSpec(uri=str(uri), table=table, snapshot="s"), base),
        DOMAIN,
        unit,
        b"key",
        **options,
    )


def same(found, expected) -> bool:
    return all((a == b).all() for a, b in zip(found, expected, strict=True))


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_however_the_rows_are_split_the_counts_are_the_same(data, tmp_path_factory):
    table = visits(400)
    unit = data.draw(st.sampled_from([Unit(), Unit("who", 1), Unit("who", 5)]))
    whole = tmp_path_factory.mktemp("whole")
    pq.write_table(table, whole / "t.parquet")
    expected = local("t.parquet", whole, unit).counts(CLIQUES)
    split = tmp_path_factory.mktemp("split")
    shuffled = table.take(np.random.default_rng(data.draw(st.integers(0, 9))).permutation(len(table)))
    cuts = sorted(data.draw(st.lists(st.integers(0, 400), max_size=4)))
    for i, (start, end) in enumerate(zip([0, *cuts], [*cuts, 400], strict=True)):
        group = data.draw(st.sampled_from([10, 64, 1000]))
        pq.write_table(shuffled.slice(start, end - start), split / f"{i}.parquet", row_group_size=group)
    found = local(".", split, unit, batch_rows=data.draw(st.sampled_from([1, 7, 1000])))
    assert same(found.counts(CLIQUES), expected)


def test_counts_are_those_of_the_record_batches(tmp_path):
    pq.write_table(visits(1000), tmp_path / "t.parquet", row_group_size=100)
    table = local("t.parquet", tmp_path, Unit("who", 3))
    batches = list(table.record_batches())
    assert all(batch.schema.names == list(DOMAIN.names) for batch in batches)
    counted = count_marginals((encode(batch, DOMAIN) for batch in batches), DOMAIN.sizes, CLIQUES)
    assert same(table.counts(CLIQUES), counted)
    assert same(table.counts(CLIQUES), table.counts(CLIQUES))


def test_duckdb_parquet_and_csv_count_alike(tmp_path):
    table = visits(500)
    pq.write_table(table, tmp_path / "t.parquet")
    pa.csv.write_csv(table, tmp_path / "t.csv")
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("table_", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM table_")
    expected = local("t.parquet", tmp_path).counts(CLIQUES)
    assert same(local("t.csv", tmp_path).counts(CLIQUES), expected)
    assert same(local("duckdb:///t.duckdb", tmp_path, table="t").counts(CLIQUES), expected)
    assert sum(expected[0]) == 500


@pytest.mark.parametrize("cap", [1, 4])
def test_one_entity_moves_no_more_than_its_cap(tmp_path, cap):
    """Neighbours: the table with and without one entity differ by at most `cap` rows in every marginal."""
    table = visits(600)
    pq.write_table(table, tmp_path / "all.parquet")
    whole = local("all.parquet", tmp_path, Unit("who", cap)).counts(CLIQUES)
    for who in range(1, 12):
        without = table.filter(pa.compute.fill_null(pa.compute.not_equal(table.column("who"), who), True))
        pq.write_table(without, tmp_path / "less.parquet")
        less = local("less.parquet", tmp_path, Unit("who", cap)).counts(CLIQUES)
        for more, fewer in zip(whole, less, strict=True):
            assert (more >= fewer).all()
            assert (more - fewer).sum() <= cap


def test_an_empty_table_counts_zero(tmp_path):
    pq.write_table(visits(0), tmp_path / "t.parquet")
    for unit in (Unit(), Unit("who", 2)):
        assert all(not table.any() for table in local("t.parquet", tmp_path, unit).counts(CLIQUES))
