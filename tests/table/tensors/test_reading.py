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
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.sources.rows import RecordView
from understudy.pipelines.spec.source import SourceSpec
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


def test_equal_tensors_are_told_apart_from_others_and_not_from_each_other_however_they_are_stored():
    size = int(np.prod(DOMAIN.tensors[0].shape))
    lists = [[1] * size, [1] * size, [2] * size, None, [None] + [1] * (size - 1), [0] + [1] * (size - 1)]
    labels = pa.array([ROWS["label"][0].as_py()] * len(lists), ROWS["label"].type)
    fixed = pa.array(lists, pa.list_(pa.uint8(), size))
    view = RecordView(DOMAIN)

    def seen(images: pa.Array, start: int = 0) -> list[bytes]:
        batch = pa.record_batch([labels[start:], images], names=["label", "image"])
        return [values.tobytes() for values in view.look(batch).values]

    whole = seen(fixed)
    assert whole[0] == whole[1]
    assert len(set(whole)) == len({read_tensor(fixed, DOMAIN.tensors[0])[row].tobytes() for row in range(len(lists))})
    assert len(set(whole)) >= 3
    assert seen(fixed.slice(2), 2) == whole[2:]
    varying = fixed.cast(pa.list_(pa.uint8()))
    assert seen(varying) == whole
    assert seen(varying.slice(1), 1) == whole[1:]
