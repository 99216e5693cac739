from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.oracle import code_of
from tests.table.coding.strategies import DOMAIN, arrays, columns, domain_of, odd_arrays, one_column_table
from understudy.pipelines.table.coding.encode import code_type, encode
from understudy.pipelines.table.reading.arrow import readable


def _codes(array: pa.Array, column) -> list[int]:
    table, domain = one_column_table(array, column)
    (codes,) = encode(table, domain).columns
    assert codes.dtype == code_type(column.size)
    assert codes.flags.c_contiguous
    return codes.tolist()


@settings(max_examples=500, deadline=None)
@given(arrays, columns)
def test_agrees_with_the_plain_oracle(array, column):
    values = (
        array.to_pylist()
        if readable(array.type, column.kind)
        else [None if v is None else ... for v in array.to_pylist()]
    )
    assert _codes(array, column) == [column.fallback_code if v is ... else code_of(v, column) for v in values]


@settings(max_examples=250, deadline=None)
@given(st.one_of(arrays, odd_arrays), columns)
def test_is_total_and_each_row_stands_alone(array, column):
    together = _codes(array, column)
    assert all(0 <= code < column.size for code in together)
    assert together == [_codes(array.slice(row, 1), column)[0] for row in range(len(array))]
    assert together == _codes(pa.concat_arrays([array, array]), column)[: len(array)]


@pytest.mark.parametrize("column", DOMAIN.columns, ids=lambda column: column.name)
def test_nan_and_infinities_are_unreadable_not_clipped(column):
    assert set(_codes(pa.array([np.nan, np.inf, -np.inf]), column)) == {column.fallback_code}


def test_out_of_range_goes_to_the_nearest_bin():
    age = DOMAIN.columns[DOMAIN.index("age")]
    assert _codes(pa.array([-5, 0, 110, 10**12]), age) == [0, 0, 31, 31]
    assert _codes(pa.array(["-1e300", "1e300"]), age) == [0, 31]


def test_a_category_matches_by_text_whatever_the_type():
    rank = DOMAIN.columns[DOMAIN.index("rank")]
    for array in (pa.array([1, 3]), pa.array([1.0, 3.0]), pa.array(["1", "3"]), pa.array([b"1", b"3"])):
        assert _codes(array, rank) == [1, 0]
    assert _codes(pa.array([True, False]), DOMAIN.columns[DOMAIN.index("coin")]) == [1, 0]


def test_code_types_grow_with_the_column():
    assert [code_type(size) for size in (2, 256, 257, 65536, 65537)] == [
        np.uint8,
        np.uint8,
        np.uint16,
        np.uint16,
        np.int32,
    ]


def test_chunked_tables_and_other_columns_are_fine():
    domain = domain_of({"sex": {"type": "category", "values": ["F", "M"]}})
    chunks = pa.chunked_array([["F"], [], ["M", "F"]], pa.string())
    encoded = encode(pa.table({"noise": pa.chunked_array([[1], [2, 3]]), "sex": chunks}), domain)
    assert encoded.rows == 3
    assert encoded.columns[0].tolist() == [0, 1, 0]
    assert encode(pa.table({"sex": pa.chunked_array([], pa.string())}), domain).columns[0].tolist() == []


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_long_columns_of_narrow_integers_are_encoded_as_short_ones(dtype):
    limits = np.iinfo(dtype)
    values = pa.array(
        np.resize(np.arange(limits.min, limits.max + 1, dtype=dtype), 2**16), mask=np.arange(2**16) % 7 == 0
    )
    for name in ("age", "small", "ratio"):
        column = DOMAIN.columns[DOMAIN.index(name)]
        assert _codes(values, column) == _codes(values.cast(pa.int64()), column)
