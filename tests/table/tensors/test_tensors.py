"""Reading is total and agrees with the slow oracle for every Arrow type; writing stays within the bounds."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.tensors.oracle import slow_read
from understudy.pipelines.table.domain import TableDomain, TensorDomain
from understudy.pipelines.table.tensors import (
    BATCH_BYTES,
    limits,
    published_type,
    read_tensor,
    rows_at_once,
    rows_within,
    type_problem,
    write_tensor,
)

BOUNDS = [(0.0, 255.0), (-1.0, 1.0), (0.1, 0.9), (-1e30, 1e30), (5.0, 7.0)]
WHOLE = {
    type_: st.integers(low, high)
    for type_, low, high in [
        (pa.uint8(), 0, 255),
        (pa.int8(), -128, 127),
        (pa.uint16(), 0, 2**16 - 1),
        (pa.int32(), -(2**31), 2**31 - 1),
        (pa.int64(), -(2**63), 2**63 - 1),
        (pa.uint64(), 0, 2**64 - 1),
    ]
}
NUMBERS = {
    **WHOLE,
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.float16(): st.floats(width=16),
    pa.bool_(): st.booleans(),
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2),
}


@st.composite
def tensors(draw):
    low, high = draw(st.sampled_from(BOUNDS))
    return TensorDomain("x", draw(st.sampled_from([(1,), (3,), (2, 2), (2, 1, 3)])), low, high)


@st.composite
def lists(draw, size):
    """Rows mostly of the right length, of one Arrow type, sliced somewhere."""
    type_ = draw(st.sampled_from(list(NUMBERS)))
    number = st.none() | NUMBERS[type_] if draw(st.booleans()) else NUMBERS[type_]
    row = st.lists(number, min_size=size, max_size=size)
    form = draw(st.sampled_from(["list", "large", "fixed"]))
    if form != "fixed" and draw(st.booleans()):
        row = row | st.lists(number, max_size=size + 2)
    rows = draw(st.lists(st.none() | row if draw(st.booleans()) else row, max_size=8))
    listed = {"list": pa.list_(type_), "large": pa.large_list(type_), "fixed": pa.list_(type_, size)}[form]
    start, stop = sorted(draw(st.tuples(st.integers(0, len(rows)), st.integers(0, len(rows)))))
    return pa.array(rows, listed).slice(start, stop - start), rows[start:stop]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_lists_agree_with_the_oracle(data):
    tensor = data.draw(tensors())
    array, rows = data.draw(lists(tensor.size))
    numbers = read_tensor(array, tensor)
    assert numbers.dtype == np.float32
    np.testing.assert_array_equal(numbers, slow_read(rows, tensor))
    chunked = pa.chunked_array([array, array.slice(0, 0), array], array.type)
    np.testing.assert_array_equal(read_tensor(chunked, tensor), np.concatenate([numbers, numbers]))
    np.testing.assert_array_equal(read_tensor(pa.array([None, *rows], array.type), tensor)[1:], numbers)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_bytes_agree_with_the_oracle(data):
    tensor = data.draw(tensors())
    right = st.binary(min_size=tensor.size, max_size=tensor.size)
    type_ = data.draw(
        st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(tensor.size)]), "type"
    )
    fixed = pa.types.is_fixed_size_binary(type_)
    rows = data.draw(
        st.lists(st.none() | right | (right if fixed else st.binary(max_size=tensor.size + 2)), max_size=8)
    )
    array = pa.array(rows, type_)
    np.testing.assert_array_equal(read_tensor(array, tensor), slow_read(rows, tensor))
    np.testing.assert_array_equal(read_tensor(array.slice(1), tensor), slow_read(rows[1:], tensor))
    if not pa.types.is_binary_view(type_):
        np.testing.assert_array_equal(read_tensor(array.dictionary_encode(), tensor), slow_read(rows, tensor))


PAIR = TensorDomain("x", (2,), 0.0, 10.0)


@pytest.mark.parametrize(
    "array",
    [
        pa.nulls(3),
        pa.array(["a", "b", None]),
        pa.array([1, 2, 3]),
        pa.array([[[1], [2]], None, []]),
        pa.array([["1", "2"]] * 3),
        pa.array([{"a": 1}] * 3),
        pa.array([[1, 2, 3]] * 3, pa.list_(pa.int64(), 3)),
        pa.array([b"abc"] * 3, pa.binary(3)),
        pa.array([[1, 2]] * 3, pa.list_view(pa.int64())),
        pa.DictionaryArray.from_arrays(pa.array([None] * 3, pa.int8()), pa.array([[1, 2]])),
    ],
)
def test_what_cannot_be_tensors_is_the_middle_throughout(array):
    assert read_tensor(array, PAIR).tolist() == [[5.0, 5.0]] * 3


def test_arrow_tensors_runs_and_dictionaries():
    cube = np.arange(12, dtype=np.float64).reshape(3, 2, 2)
    tensor = TensorDomain("x", (2, 2), 0.0, 100.0)
    extension = pa.FixedShapeTensorArray.from_numpy_ndarray(cube)
    np.testing.assert_array_equal(read_tensor(extension, tensor), cube.reshape(3, 4))
    np.testing.assert_array_equal(read_tensor(extension.slice(1), tensor), cube.reshape(3, 4)[1:])
    pairs = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array([[1, 2], [3, 4]]))
    assert read_tensor(pairs, PAIR).tolist() == [[3, 4], [5, 5], [1, 2]]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3]), pa.array([b"\x01\x02", None]))
    assert read_tensor(runs, PAIR).tolist() == [[1, 2], [1, 2], [5, 5]]


def test_a_row_reads_the_same_whatever_its_neighbours_are():
    alone = read_tensor(pa.array([[1.5, 2.5]]), PAIR)
    for other in ([np.nan, np.inf], [1e300, -1e300], [1.0], None, [None, 3.0]):
        crowd = read_tensor(pa.array([other, [1.5, 2.5], other]), PAIR)
        np.testing.assert_array_equal(crowd[1:2], alone)


@settings(max_examples=200, deadline=None)
@given(tensors(), st.data())
def test_what_is_written_is_within_bounds_and_reads_back(tensor, data):
    width = data.draw(st.sampled_from([32, 64]))
    cells = st.lists(st.floats(width=width), min_size=2 * tensor.size, max_size=2 * tensor.size)
    values = np.array(data.draw(cells), np.float32 if width == 32 else np.float64).reshape(2, tensor.size)
    written = write_tensor(values, tensor)
    assert written.type == published_type(tensor)
    assert written.null_count == 0
    assert rows_within(written, tensor.low, tensor.high).all()
    back = read_tensor(written, tensor)
    assert ((back.astype(np.float64) >= tensor.low) & (back.astype(np.float64) <= tensor.high)).all()
    np.testing.assert_array_equal(read_tensor(write_tensor(back, tensor), tensor), back)


def test_bytes_are_rounded_and_others_single_precision():
    assert write_tensor(np.array([[1.6, 300.0]]), TensorDomain("x", (2,), 0, 255)).to_pylist() == [[2, 255]]
    assert published_type(TensorDomain("x", (2,), 0.0, 255.0)) == pa.list_(pa.uint8(), 2)
    for low, high in ((0.0, 256.0), (-1.0, 1.0), (0.0, 0.5)):
        assert published_type(TensorDomain("x", (2,), low, high)) == pa.list_(pa.float32(), 2)
    with pytest.raises(ValueError, match="shape"):
        write_tensor(np.zeros((2, 3)), PAIR)


def test_limits_are_rounded_inwards():
    low, high = limits(TensorDomain("x", (1,), 0.1, 0.9))
    assert 0.1 <= float(low) < 0.1 + 1e-7
    assert 0.9 - 1e-7 < float(high) <= 0.9


def test_rows_that_break_the_contract_are_found():
    column = pa.array([[1, 2], [1, 11], None, [-1, 2], [1, None]], pa.list_(pa.float32(), 2))
    assert rows_within(column, 0.0, 10.0).tolist() == [True, False, False, False, False]
    assert rows_within(column.slice(1, 2), 0.0, 20.0).tolist() == [True, False]
    assert rows_within(pa.chunked_array([column, column]), 0.0, 10.0).sum() == 2
    nan = pa.array([[1.0, np.nan]], pa.list_(pa.float32(), 2))
    assert not rows_within(nan, 0.0, 10.0).any()


@pytest.mark.parametrize(
    ("type_", "problem"),
    [
        (pa.list_(pa.uint8()), None),
        (pa.large_list(pa.float64()), None),
        (pa.list_(pa.float32(), 2), None),
        (pa.list_(pa.float32(), 3), "lists of 3 numbers"),
        (pa.list_(pa.string()), "lists of string"),
        (pa.list_(pa.list_(pa.uint8())), "lists of lists"),
        (pa.binary(), None),
        (pa.binary(2), None),
        (pa.binary(3), "3 bytes"),
        (pa.string(), "string"),
        (pa.struct([("a", pa.int8())]), "nested"),
        (pa.fixed_shape_tensor(pa.uint8(), [1, 2]), None),
        (pa.fixed_shape_tensor(pa.uint8(), [1, 3]), "lists of 3"),
        (pa.fixed_shape_tensor(pa.uint8(), [1, 2], permutation=[1, 0]), "permuted"),
        (pa.dictionary(pa.int32(), pa.binary()), None),
    ],
)
def test_types_are_judged_without_a_row(type_, problem):
    found = type_problem(type_, 2)
    assert found is None if problem is None else problem in found


def test_batches_shrink_with_the_tensors():
    assert rows_at_once(TableDomain(()), 1000) == 1000
    wide = TensorDomain("x", (65_536,), 0, 1)
    assert rows_at_once(TableDomain((), (), (wide,)), 262_144) == BATCH_BYTES // 8 // 65_536
    assert rows_at_once(TableDomain((), (), (PAIR,)), 1000) == 1000


def test_decimals_beyond_doubles_are_clipped():
    huge = pa.array([[decimal.Decimal(10) ** 37, decimal.Decimal(0)]], pa.list_(pa.decimal128(38, 0)))
    assert read_tensor(huge, PAIR).tolist() == [[10, 0]]
    assert read_tensor(pc.cast(pa.array([[True, False]]), pa.list_(pa.bool_())), PAIR).tolist() == [[1, 0]]
