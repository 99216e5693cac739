"""What is read of a Parquet file is what was written, however it was written; codes are those of the values alone."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.strategies import columns as domain_columns
from tests.table.coding.strategies import one_column_table
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.catalogue import source_types
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.table.coding.encode import encode_column

TYPES = {
    pa.int8(): st.integers(-128, 127),
    pa.uint8(): st.integers(0, 255),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    pa.timestamp("ms", "UTC"): st.integers(-(2**40), 2**40),
    pa.string(): st.text(max_size=8),
    pa.large_string(): st.text(max_size=8),
    pa.bool_(): st.booleans(),
    pa.decimal128(9, 2): st.decimals(-(10**6), 10**6, places=2),
    pa.list_(pa.int8()): st.lists(st.integers(0, 9), max_size=2),
}


CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]


@st.composite
def columns(draw):
    type_ = draw(st.sampled_from(list(TYPES)))
    distinct = draw(st.lists(TYPES[type_], min_size=1, max_size=draw(st.sampled_from([1, 3, 30]))))
    nullable = draw(st.booleans())
    choices = [*distinct, None] if nullable else distinct
    rows = draw(st.integers(0, 400))
    picked = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(choices), rows)
    if draw(st.booleans()):
        picked.sort()  # long runs
    return pa.field("c", type_, nullable), pa.array([choices[i] for i in picked], type_)


@settings(max_examples=120, deadline=None)
@given(found=st.lists(columns(), min_size=1, max_size=3), data=st.data())
def test_what_is_read_is_what_arrow_reads(found, data, tmp_path_factory):
    rows = min(len(array) for _, array in found)
    schema = pa.schema([field.with_name(f"c{i}") for i, (field, _) in enumerate(found)])
    table = pa.table([array[:rows] for _, array in found], schema=schema)
    place = tmp_path_factory.mktemp("t")
    pq.write_table(
        table,
        place / "t.parquet",
        row_group_size=data.draw(st.sampled_from([37, 1000])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        compression=data.draw(st.sampled_from(CODECS)),
        use_dictionary=data.draw(st.sampled_from([True, True, False])),
        dictionary_pagesize_limit=data.draw(st.sampled_from([1 << 20, 1 << 20, 20])),
        data_page_size=data.draw(st.sampled_from([1 << 20, 8])),
        write_batch_size=data.draw(st.sampled_from([1024, 16])),
    )
    (part,) = ParquetSource(place).parts()
    batches = list(part.read(table.column_names, data.draw(st.sampled_from([1, 50, 10_000]))))
    assert sum(batch.num_rows for batch in batches) == rows
    for name in table.column_names:
        values = [value for batch in batches for value in batch.column(name).to_pylist()]
        assert values == table.column(name).to_pylist()


@settings(max_examples=80, deadline=None)
@given(found=columns(), declared=domain_columns, data=st.data())
def test_codes_from_a_file_are_those_of_the_values_in_memory(found, declared, data, tmp_path_factory):
    """Row by row, and counted: no row group, page, dictionary or batch has a say in what a row becomes."""
    field, array = found
    table, domain = one_column_table(array, declared)
    table = table.cast(pa.schema([field.with_name(declared.name)]))
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    pq.write_table(
        table,
        path,
        row_group_size=data.draw(st.sampled_from([37, 1000])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        compression=data.draw(st.sampled_from(["none", "snappy", "zstd"])),
        use_dictionary=data.draw(st.sampled_from([True, True, True, False])),
        dictionary_pagesize_limit=data.draw(st.sampled_from([1 << 20, 20])),
        data_page_size=data.draw(st.sampled_from([1 << 20, 8])),
        write_batch_size=data.draw(st.sampled_from([1024, 16])),
    )
    batch_rows, source = data.draw(st.sampled_from([7, 500])), ParquetSource(path)
    batches = source.read([declared.name], batch_rows)
    codes = [code for batch in batches for code in encode_column(batch.column(0), declared).tolist()]
    assert codes == [encode_column(table.column(0).slice(row, 1), declared)[0] for row in range(len(array))]
    (counts,) = LocalTable(source, domain, Unit(), b"key", batch_rows).counts([(0,)])
    (expected,) = LocalTable(ArrowSource(table), domain, Unit(), b"key").counts([(0,)])
    assert counts.tolist() == expected.tolist()


def test_texts_stay_codes_where_the_file_holds_codes_and_nowhere_else(tmp_path):
    rng = np.random.default_rng(0)
    few, many = rng.choice(["A", "B"], 50_000), [f"{i:012d}" for i in rng.integers(0, 10**12, 50_000)]
    table = pa.table(
        {
            "ward": pa.array(few, mask=rng.random(50_000) < 0.1),
            "large": pa.array(few, pa.large_string()),
            "outgrown": pa.array(many),
            "plain": pa.array(few),
            "part.ward": pa.array(few),
            "code": pa.array(rng.integers(0, 32, 50_000)),
        }
    )
    coded = ["ward", "large", "outgrown", "part.ward", "code"]
    pq.write_table(table, tmp_path / "t.parquet", use_dictionary=coded, dictionary_pagesize_limit=100_000)
    batches = list(ParquetSource(tmp_path).read(table.column_names, 20_000))
    dictionaries = [[pa.types.is_dictionary(column.type) for column in batch.columns] for batch in batches]
    assert dictionaries == [[True, True, False, False, False, False]] * 3
    for name in table.column_names:
        assert [v for batch in batches for v in batch.column(name).to_pylist()] == table.column(name).to_pylist()


def test_columns_come_as_asked_for_also_where_one_name_begins_another(tmp_path):
    table = pa.table({"a.b": [1, 2], "a": [3, 4], "c": [{"a": 5}, {"a": 6}], "c.a": [7, 8]})
    pq.write_table(table, tmp_path / "t.parquet")
    for names in (["a"], ["c.a", "a"], ["a", "a.b"]):
        (batch,) = ParquetSource(tmp_path).read(names)
        assert batch.to_pydict() == table.select(names).to_pydict()


def test_a_name_that_two_columns_share_is_no_matter_unless_it_is_asked_for(tmp_path):
    table = pa.table([[1, 2], ["x", "y"], [3, 4]], names=["a", "a", "b"])
    for name in ("one", "two"):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    source = ParquetSource(tmp_path)
    assert source.schema().names == ["a", "a", "b"]
    assert [batch.to_pydict() for batch in source.read(["b"])] == [{"b": [3, 4]}] * 2


def test_codes_that_point_outside_their_dictionary_are_damage(tmp_path):
    """Arrow hands them out as they are (26.0); looked up unchecked they would be somebody else's memory."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": [f"v{i % 5}" for i in range(3000)]}), path, compression="none")
    first = pq.read_metadata(path).row_group(0).column(0).data_page_offset + 60
    content = bytearray(path.read_bytes())
    content[first : first + 100] = b"\xff" * 100  # codes of three bits, all 7
    path.write_bytes(content)
    with pytest.raises(SourceError, match="not a complete Parquet file") as caught:
        list(ParquetSource(path).read(["c"]))
    assert caught.value.__context__ is None


def test_a_page_that_is_not_what_its_checksum_says_is_damage(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(
        pa.table({"c": np.arange(500)}), path, compression="none", use_dictionary=False, write_page_checksum=True
    )
    content = bytearray(path.read_bytes())
    content[600] ^= 1  # one number becomes another
    path.write_bytes(content)
    with pytest.raises(SourceError, match="not a complete Parquet file"):
        list(ParquetSource(path).read(["c"]))


def test_a_file_cut_short_after_its_footer_was_read_is_a_source_error(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": np.arange(1000) % 9}), path)
    (part,) = ParquetSource(path).parts()
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(SourceError, match=r"t\.parquet"):
        list(part.read(["c"], 100))


def test_a_file_cut_short_between_two_batches_is_a_source_error_and_the_process_lives(tmp_path):
    """Were the file mapped, the next page would not be there and the process would be killed."""
    path = tmp_path / "t.parquet"
    noise = np.random.default_rng(0).random((20, 200_000))
    pq.write_table(pa.table(list(noise), names=[f"c{i}" for i in range(20)]), path, compression="none")
    batches = ParquetSource(path).read([f"c{i}" for i in range(20)], 1000)
    next(batches)
    with path.open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(SourceError, match=r"changed while it was read"):
        list(batches)


def test_types_are_asked_of_the_first_file_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": pa.array([1], pa.int16()), "w": ["x"]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"no table")
    source = ParquetSource(tmp_path)
    assert source_types(source) == {"n": "int16", "w": "string"}
    with pytest.raises(SourceError):
        source.schema()
