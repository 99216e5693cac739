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


WHOLE_TYPES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
AT_THE_ENDS = domain_of(
    {
        "lowest": {"type": "category", "values": [-(2**63), 5, -(2**63) + 3], "other": True},
        "highest": {"type": "category", "values": [2**63 - 1, 2**63 - 4], "nullable": True},
        "beyond": {"type": "category", "values": [str(2**64 - 1), str(2**64 - 9), str(2**64)]},
        "wide": {"type": "integer", "min": -(2**40), "max": 2**40, "bins": 64},
        "table": {"type": "integer", "min": 1000, "max": 1000 + 65_532, "bins": 500},
        "no table": {"type": "integer", "min": 1000, "max": 1000 + 65_533, "bins": 500},
        "words": {"type": "category", "values": ["A", "07", "7.0"], "other": True},
    }
)


@pytest.mark.parametrize("type_", WHOLE_TYPES, ids=str)
@pytest.mark.parametrize("column", [*DOMAIN.columns, *AT_THE_ENDS.columns], ids=lambda column: column.name)
def test_whole_numbers_have_their_code_in_every_type_up_to_its_ends(column, type_):
    """By a table or not, which the numbers between and beyond the bounds cannot tell."""
    limits = np.iinfo(type_.to_pandas_dtype())
    marks = [0, 1, 110, -7, *map(int, column.edges), *(int(v) for v in column.values if str(v).lstrip("-").isdigit())]
    near = {mark + step for mark in [*marks, int(limits.min), int(limits.max)] for step in range(-3, 4)}
    numbers = sorted(number for number in near if limits.min <= number <= limits.max)
    expected = [column.missing_code, *(code_of(number, column) for number in numbers)]
    if not readable(type_, column.kind):
        expected = [column.missing_code, *(column.fallback_code for _ in numbers)]
    assert _codes(pa.array([None, *numbers], type_), column) == expected


def test_days_have_their_code_up_to_the_ends_of_their_type():
    for name in ("visited", "weekly"):
        column = DOMAIN.columns[DOMAIN.index(name)]
        days = sorted({day + step for day in (*column.edges, 0) for step in (-1, 0, 1)} | {-(2**31), 2**31 - 1})
        dates = pa.array(days, pa.int32()).view(pa.date32())
        assert _codes(dates, column) == [code_of(day * 86_400_000_000, column) for day in days]


def test_places_outside_a_dictionary_are_nulls_in_every_type_of_index():
    """No sound array has them; one that has is still coded without a look at other memory."""
    column = DOMAIN.columns[DOMAIN.index("ward")]
    words = pa.array(["A", "B", None, "?"])
    for index in (pa.int8(), pa.int32(), pa.int64()):
        places = pa.array([0, 1, 2, 3, None, 4, 127, -1, -128], index)
        wrong = pa.DictionaryArray.from_arrays(places, words, safe=False)
        null, other = column.missing_code, column.other_code
        assert _codes(wrong, column) == [0, 1, null, other, null, null, null, null, null]
    full = pa.DictionaryArray.from_arrays(pa.array([0, 255, None], pa.uint8()), pa.array(["B"] * 255 + ["A"]))
    assert _codes(full, column) == [1, 0, column.missing_code]
