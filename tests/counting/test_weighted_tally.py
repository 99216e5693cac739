"""Ticks of entities: the same whole numbers from every engine, and those that counting each entity by itself gives."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.counting.test_local_table import DOMAIN, local, same, visits
from tests.warehouse import Warehouse
from understudy.pipelines.counting import weighted_tally
from understudy.pipelines.counting.counting import LocalTable, add_counts
from understudy.pipelines.counting.weighted_tally import WeightedTally, level_column, read_columns, rows_column
from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.rows import CodeView

CAP = 6
UNIT, WEIGHTS = Unit("who", CAP), EntityWeights.of(CAP)
LEVEL, ROWS = level_column(DOMAIN), rows_column(DOMAIN)
QUALITY = DOMAIN.quality_of(1)
CLIQUES = [(), (0,), *combinations(range(3), 2), (0, 1, 2), (LEVEL,), (1, LEVEL), (LEVEL, 0), (ROWS,), (QUALITY,)]


def one_by_one(table: pa.Table) -> list[np.ndarray]:
    """Each entity's bounded rows counted by themselves, every row as one, times the ticks that each should have."""
    found = []
    for who in set(table["who"].to_pylist()) - {None}:
        theirs = table.filter(pc.equal(table["who"], who))
        m = min(len(theirs), CAP)
        plain = LocalTable(ArrowSource(theirs), DOMAIN, UNIT, b"key").counts(
            [tuple(c for c in clique if c < LEVEL) for clique in CLIQUES]
        )
        places = {LEVEL: np.arange(len(WEIGHTS.levels)) == WEIGHTS.level_of(np.array(m)), ROWS: np.arange(CAP) == m - 1}
        ticks = []
        for clique, counts in zip(CLIQUES, plain, strict=True):
            for axis, place in ((axis, places[column]) for axis, column in enumerate(clique) if column in places):
                wide = np.expand_dims(counts, axis)
                counts = wide * place.reshape([-1 if a == axis else 1 for a in range(wide.ndim)])
            ticks.append(np.array(WEIGHTS.ticks // m * counts))
        found.append(ticks)
    return add_counts(found)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return visits(700, seed=3)


@pytest.fixture(scope="module")
def expected(table: pa.Table) -> list[np.ndarray]:
    return one_by_one(table)


def test_the_ticks_are_those_of_each_entity_by_itself(table: pa.Table, expected: list[np.ndarray]) -> None:
    found = LocalTable(ArrowSource(table), DOMAIN, UNIT, b"key").counts(CLIQUES, WEIGHTS)
    assert same(found, expected)
    entities = len(set(table["who"].to_pylist()) - {None})
    assert found[0] == WEIGHTS.ticks * entities
    assert found[CLIQUES.index((ROWS,))].sum() == WEIGHTS.ticks * entities


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_however_the_rows_are_split_the_ticks_are_the_same(
    data: st.DataObject, tmp_path_factory, table, expected
) -> None:
    """In files, batches, threads, and passes over ranges of entities."""
    place = tmp_path_factory.mktemp("split")
    shuffled = table.take(np.random.default_rng(data.draw(st.integers(0, 9))).permutation(len(table)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(table)), max_size=4)))
    for i, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(table)], strict=True)):
        pq.write_table(shuffled.slice(start, end - start), place / f"{i}.parquet", row_group_size=50)
    options = {"batch_rows": data.draw(st.sampled_from([7, 64, 1000])), "threads": data.draw(st.integers(1, 3))}
    bytes_ = data.draw(st.sampled_from([bounding.BOUNDING_BYTES, 20_000]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounding, "BOUNDING_BYTES", bytes_)
        patch.setattr(bounding, "MERGE_BYTES", min(bytes_, bounding.MERGE_BYTES) // 4)
        assert same(local(".", place, UNIT, **options).counts(CLIQUES, WEIGHTS), expected)


def test_dask_and_databases_give_the_same_ticks(
    table: pa.Table, expected: list[np.ndarray], tmp_path: Path, warehouse: Warehouse
) -> None:
    pytest.importorskip("distributed")
    from understudy.tasks.engines.dask_counting import DaskTable

    for i in range(3):
        pq.write_table(table.slice(250 * i, 250), tmp_path / f"{i}.parquet", row_group_size=60)
    dask = DaskTable(local(".", tmp_path).source, DOMAIN, UNIT, b"key", batch_rows=40)
    assert same(dask.counts(CLIQUES, WEIGHTS), expected)
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.register("rows_", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows_")
    found = local(f"duckdb:///{tmp_path / 't.duckdb'}", tmp_path, UNIT, "t").counts(CLIQUES, WEIGHTS)
    assert same(found, expected)
    warehouse.execute("CREATE TABLE ticks (who int, age int, ward text, cost float8)")
    with warehouse.connect() as connection, connection.cursor() as cursor:
        rows = [tuple(row.values()) for row in table.to_pylist()]
        cursor.executemany(b"INSERT INTO ticks VALUES (%s, %s, %s, %s)", rows)
    assert same(local(warehouse.uri, tmp_path, UNIT, f"{warehouse.schema}.ticks").counts(CLIQUES, WEIGHTS), expected)


def test_tables_too_large_for_memory_are_counted_sparsely(
    table: pa.Table, expected: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weighted_tally, "DENSE_CELLS", 20)
    assert same(LocalTable(ArrowSource(table), DOMAIN, UNIT, b"key").counts(CLIQUES, WEIGHTS), expected)


def test_nobody_is_counted_as_nothing() -> None:
    found = LocalTable(ArrowSource(visits(0)), DOMAIN, UNIT, b"key").counts(CLIQUES, WEIGHTS)
    assert all(not table.any() for table in found)


def test_more_rows_than_the_cap_are_refused() -> None:
    """What the sensitivity rests on is looked at again where the ticks are given."""
    rows, loose = visits(60).set_column(0, "who", pa.array([7] * 60)), Unit("who", 100)
    view = CodeView(DOMAIN, read_columns([(0,)], DOMAIN))
    [pieces] = [each for each in next(bounding.passes([ArrowSource(rows)], view, loose, b"key", 100, 1)) if each]
    with pytest.raises(ValueError, match="more rows than its cap"):
        WeightedTally(DOMAIN, [(0,)], WEIGHTS).add_bounded(pieces, loose)
