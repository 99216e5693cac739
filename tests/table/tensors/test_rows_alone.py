"""The numbers of a tensor are decided by its own row: nulls, other lengths and slices beside it change none of them."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.table.domain import TensorDomain
from understudy.pipelines.table.tensors import read_tensor

WIDE = TensorDomain("x", (2,), -1e30, 1e30)
NARROW = TensorDomain("x", (2,), -0.7, 200.3)

NUMBERS = {
    pa.int64(): st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300)),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint8(): st.integers(0, 255),
    pa.float16(): st.floats(width=16),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.decimal128(38, 4): st.integers(-(10**37), 10**37).map(lambda number: Decimal(number).scaleb(-4)),
}


@st.composite
def tensors(draw: st.DrawFn) -> pa.Array:
    value = draw(st.sampled_from(list(NUMBERS)))
    number = st.one_of(NUMBERS[value], st.none()) if draw(st.booleans()) else NUMBERS[value]
    fixed = draw(st.booleans())
    row = st.lists(number, min_size=2, max_size=2) if fixed else st.lists(number, max_size=3)
    rows = draw(st.lists(st.one_of(row, st.none()), min_size=1, max_size=6))
    return pa.array(rows, pa.list_(value, 2) if fixed else pa.list_(value))


def same(left: np.ndarray, right: np.ndarray) -> None:
    np.testing.assert_array_equal(left.view(np.uint32), right.view(np.uint32))


@settings(max_examples=400, deadline=None)
@given(tensors(), st.sampled_from([WIDE, NARROW]), st.integers(0, 5), st.integers(1, 6))
def test_a_tensor_is_read_alone_as_beside_any_other(
    array: pa.Array, tensor: TensorDomain, start: int, size: int
) -> None:
    whole = read_tensor(array, tensor)
    for row in range(len(array)):
        same(read_tensor(pa.array(array.slice(row, 1).to_pylist(), array.type), tensor), whole[row : row + 1])
    same(read_tensor(array.slice(start, size), tensor), whole[start : start + size])
    beside = pa.concat_arrays([pa.nulls(1, array.type), array, pa.nulls(1, array.type)])
    same(read_tensor(beside, tensor)[1:-1], whole)


@pytest.mark.parametrize("coded", [False, True])
@settings(max_examples=30, deadline=None)
@given(tensors().filter(lambda array: not pa.types.is_float16(array.type.value_type)))
def test_a_tensor_is_read_from_parquet_as_from_memory(coded: bool, array: pa.Array) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": array}), sink, use_dictionary=coded, row_group_size=2)
    stored = pq.read_table(pa.BufferReader(sink.getvalue())).column("x")
    same(read_tensor(stored, WIDE), read_tensor(array, WIDE))


def test_a_null_beside_it_does_not_round_a_large_number_another_way() -> None:
    between = 2**60 + 2**36 + 1  # just above the middle of two floats; as a double it is that middle
    alone = read_tensor(pa.array([[between, 0]], pa.list_(pa.int64(), 2)), WIDE)
    beside = read_tensor(pa.array([[between, 0], [None, 1]], pa.list_(pa.int64(), 2)), WIDE)
    same(alone, beside[:1])
