"""Columns kept as dictionary codes hold exactly what Arrow reads, and what is not understood is left to Arrow."""

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
from understudy.pipelines.counting.tally import Tally
from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.files import parquet
from understudy.pipelines.sources.files.bit_packing import PAIR_BITS, SPARE, pair_up, unpack
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.sources.files.parquet_codes import OpenFile, coded_column
from understudy.pipelines.sources.files.parquet_pages import CODECS, NotUnderstood, page_table, unpacked_pages
from understudy.pipelines.sources.files.snappy import unsnap
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


def read_codes(path: Path) -> list[pa.DictionaryArray | None]:
    """Every column of every row group."""
    with pq.ParquetFile(path) as file, pa.memory_map(str(path)) as bytes_:
        return [
            coded_column(OpenFile(file, bytes_, file.schema_arrow), group, file.schema_arrow.field(index).name)
            for group in range(file.metadata.num_row_groups)
            for index in range(file.metadata.num_columns)
        ]


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
        compression=data.draw(st.sampled_from([*(name or "none" for name in CODECS.values()), "lz4"])),
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
def test_codes_straight_from_the_file_are_those_of_the_values_that_arrow_reads(found, declared, data, tmp_path_factory):
    field, array = found
    table, domain = one_column_table(array, declared)
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    pq.write_table(
        table.cast(pa.schema([field.with_name(declared.name)])),
        path,
        row_group_size=data.draw(st.sampled_from([37, 1000])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        compression=data.draw(st.sampled_from(["none", "snappy", "zstd"])),
        use_dictionary=data.draw(st.sampled_from([True, True, True, False])),
        data_page_size=data.draw(st.sampled_from([1 << 20, 8])),
        write_batch_size=data.draw(st.sampled_from([1024, 16])),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "CODED_VALUES", data.draw(st.sampled_from([parquet.CODED_VALUES, 0])))
        tally = Tally(domain.sizes, [(0,)])
        (part,) = ParquetSource(path).parts()
        batch_rows = data.draw(st.sampled_from([7, 500]))
        codes = [code for codes in part.encode({0: declared}, tally.room, batch_rows) for code in codes[0].tolist()]
    assert codes == encode_column(pq.read_table(path).column(0), declared).tolist()


def test_ordinary_columns_stay_codes_and_high_ones_do_not(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "code": pa.array(rng.integers(0, 32, 50_000, np.uint8), mask=rng.random(50_000) < 0.1),
            "ward": pa.array(rng.choice(["A", "B"], 50_000)),
            "wide": rng.integers(0, 40_000, 50_000),
            "cost": rng.random(50_000),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", dictionary_pagesize_limit=200_000)
    code, ward, wide, cost = read_codes(tmp_path / "t.parquet")
    assert code.type == pa.dictionary(pa.uint8(), pa.uint8())
    assert ward.type.index_type == pa.uint8()
    assert wide is None or wide.to_pylist() == table.column("wide").to_pylist()
    assert cost is None


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_left_to_arrow_or_read_within_bounds(data, tmp_path_factory):
    """Whatever a byte is changed to, no code points outside the dictionary, and nothing but a SourceError is raised."""
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    values = np.random.default_rng(0).integers(0, 21, 300)
    pq.write_table(
        pa.table({"c": pa.array(values, mask=(values == 7) & data.draw(st.booleans()))}),
        path,
        compression=data.draw(st.sampled_from(["none", "snappy"])),
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        data_page_size=data.draw(st.sampled_from([1 << 20, 50])),
        write_batch_size=64,
    )
    with pq.ParquetFile(path) as file:
        start, size = (
            file.metadata.row_group(0).column(0).dictionary_page_offset,
            file.metadata.row_group(0).column(0).total_compressed_size,
        )
    damaged = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=3)):
        damaged[start + place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    (found,) = read_codes(path)
    if found is not None:
        assert len(found) == 300
        assert all(0 <= index < len(found.dictionary) for index in found.indices.drop_null().to_pylist())


@pytest.mark.parametrize("width", range(1, 25))
def test_numbers_of_every_width(width):
    rng = np.random.default_rng(width)
    numbers = rng.integers(0, 2**width, 100)
    bits = ((numbers[:, None] >> np.arange(width)) & 1).astype(np.uint8)
    packed = np.packbits(np.concatenate([bits.ravel(), np.zeros(4 * width, np.uint8)]), bitorder="little")
    body = np.concatenate([np.array([13 << 1 | 1], np.uint8), packed])
    padded = np.concatenate([body, np.zeros(SPARE, np.uint8)])
    table = rng.permutation(2**width).astype(np.uint8 if width <= 8 else np.uint32)
    pairs = np.empty(1 << 2 * width if width <= PAIR_BITS else 0, np.uint32)

    def unpacks(lookup: np.ndarray, end: int) -> bool:
        if len(pairs):
            pair_up(lookup, width, pairs)
        return unpack(padded, 0, end, width, lookup, pairs, out, 3, 100)

    out = np.full(106, 77, table.dtype)
    assert unpacks(table, len(body))
    assert (out[3:103] == table[numbers]).all()
    assert (out[:3] == 77).all()
    assert (out[103:] == 77).all()
    assert not unpacks(table[: numbers.max()], len(body))
    assert not unpacks(table, len(body) - 1)


def test_a_chunk_cut_short_is_not_understood():
    with pytest.raises(NotUnderstood):
        page_table(np.frombuffer(b"\x15\x04\x15", np.uint8))
    with pytest.raises(NotUnderstood):
        unpacked_pages(pa.py_buffer(b""), page_table(np.empty(0, np.uint8)), "LZO")


def test_a_file_cut_short_after_its_footer_was_read_is_a_source_error(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": np.arange(1000) % 9}), path)
    (part,) = ParquetSource(path).parts()
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(SourceError, match=r"t\.parquet"):
        list(part.read(["c"], 100))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_snappy_is_undone_as_arrow_undoes_it_and_damage_is_noticed_or_harmless(data):
    pieces = data.draw(st.lists(st.tuples(st.binary(min_size=1, max_size=70), st.integers(1, 40)), max_size=6))
    text = b"".join(piece * times for piece, times in pieces)
    packed = bytearray(pa.Codec("snappy").compress(text, asbytes=True))
    out = np.full(len(text) + 16, 77, np.uint8)
    assert unsnap(np.frombuffer(packed, np.uint8), 0, len(packed), out, 8, 8 + len(text))
    assert out[8:-8].tobytes() == text
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    unsnap(np.frombuffer(packed, np.uint8), 0, len(packed), out, 8, 8 + len(text))
    assert (out[:8] == 77).all()
    assert (out[-8:] == 77).all()
