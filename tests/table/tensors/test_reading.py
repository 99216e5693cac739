"""Tensors travel raw beside the coded columns, bounded by entity like every other column."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.table.tensors.examples import picture_spec, pictures
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.hashing import row_hashes, value_hashes
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import SourceSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tensors import read_tensor
from understudy.tasks.engines.dask_counting import DaskTable

ROWS = pictures(40)
DOMAIN = TableDomain.of(picture_spec())


@pytest.fixture(params=["parquet", "list", "duckdb", "memory"])
def source(request, tmp_path):
    rows = ROWS
    if request.param == "list":
        rows = ROWS.set_column(0, "image", ROWS["image"].cast(pa.list_(pa.uint8())))
    if request.param == "memory":
        return ArrowSource(ROWS)
    if request.param == "duckdb":
        with duckdb.connect(tmp_path / "t.duckdb") as connection:
            connection.register("rows_", ROWS)
            connection.execute("CREATE TABLE t AS SELECT * FROM rows_")
        return open_source(SourceSpec(uri="duckdb:///t.duckdb", table="t", snapshot="s"), tmp_path)
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=7)
    return open_source(SourceSpec(uri="t.parquet", snapshot="s"), tmp_path)


def records(table) -> list[tuple]:
    found = []
    for batch in table.record_batches():
        assert batch.schema.names == ["label", "image"]
        numbers = read_tensor(batch.column("image"), DOMAIN.tensors[0])
        found += [
            (label, tuple(row)) for label, row in zip(batch.column("label").to_pylist(), numbers.tolist(), strict=True)
        ]
    return sorted(found)


WHOLE = sorted(
    (label, tuple(map(float, image)))
    for label, image in zip(ROWS["label"].to_pylist(), ROWS["image"].to_pylist(), strict=True)
)


def test_raw_tensors_come_with_the_coded_columns(source):
    table = LocalTable(source, DOMAIN, Unit(), b"k")
    assert records(table) == WHOLE
    assert records(DaskTable(source, DOMAIN, Unit(), b"k")) == WHOLE
    counted = table.counts([(0,)])[0]
    np.testing.assert_array_equal(counted, np.bincount(ROWS["label"].to_numpy(), minlength=3))


def test_rows_are_counted_where_nothing_is_coded(source):
    alone = TableDomain((), (), DOMAIN.tensors)
    for unit, rows in ((Unit(), 40), (Unit("who", 2), 20)):
        assert LocalTable(source, alone, unit, b"k").counts([()])[0] == rows
        assert DaskTable(source, alone, unit, b"k").counts([()])[0] == rows


def test_an_entity_keeps_at_most_its_rows_and_the_same_ones_each_time(source):
    unit = Unit("who", 2)
    kept = records(LocalTable(source, DOMAIN, unit, b"k"))
    owners = {image: who for who, (_, image) in zip(ROWS["who"].to_pylist(), map(_row, ROWS.to_pylist()), strict=True)}
    assert set(Counter(owners[image] for _, image in kept).values()) == {2}
    assert set(kept) <= set(WHOLE)
    assert records(LocalTable(source, DOMAIN, unit, b"k", batch_rows=3)) == kept
    assert records(DaskTable(source, DOMAIN, unit, b"k")) == kept
    assert len({tuple(records(LocalTable(source, DOMAIN, unit, bytes([key])))) for key in range(6)}) > 1


def _row(row: dict) -> tuple:
    return row["label"], tuple(map(float, row["image"]))


def test_what_is_kept_does_not_depend_on_the_order_of_rows():
    unit = Unit("who", 2)
    shuffled = ROWS.take(pa.array(np.random.default_rng(5).permutation(len(ROWS))))
    first = records(LocalTable(ArrowSource(ROWS), DOMAIN, unit, b"k"))
    assert records(LocalTable(ArrowSource(shuffled), DOMAIN, unit, b"k")) == first


def test_equal_tensors_hash_equally_however_they_are_split():
    column = pa.array([[1, 2], [1, 2], [2, 1], None, [None, 2], [0, 2]], pa.list_(pa.uint8(), 2))
    hashes = value_hashes(column, b"k", "p")
    assert hashes[0] == hashes[1] != hashes[2]
    np.testing.assert_array_equal(value_hashes(column.slice(2, 3), b"k", "p"), hashes[2:5])
    varying = column.cast(pa.list_(pa.uint8()))
    np.testing.assert_array_equal(value_hashes(varying, b"k", "p"), hashes)
    np.testing.assert_array_equal(value_hashes(varying.slice(1), b"k", "p"), hashes[1:])
    raw = pa.array([b"ab", b"ab", b"ba"], pa.binary(2))
    assert len(set(row_hashes([raw], 3, b"k").tolist())) == 2
    words = pa.array([["a"], ["b"]])
    assert len(set(value_hashes(words, b"k", "p").tolist())) == 1
