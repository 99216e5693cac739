"""Tensors of a column to an array of numbers and back. Reading is total; the numbers of a row depend on that row alone.

Read: lists of numbers, of fixed or varying length, and raw bytes (one number a byte); also as dictionaries, runs or
Arrow's fixed-shape tensors. Where a value goes:
- a row that is null or has another length than the shape: the middle of the range, throughout;
- a number that is null, NaN or infinite: the middle of the range;
- a number outside the range: the nearest bound.
Numbers are single precision. The bounds are rounded inwards to it, so that nothing read or written lies outside.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.domain import TableDomain, TensorDomain
from understudy.pipelines.table.reading.arrow import is_number

BATCH_BYTES = 64 << 20


def read_tensor(array: pa.Array | pa.ChunkedArray, tensor: TensorDomain) -> np.ndarray:
    """The numbers as float32 of shape (rows, tensor.size). Never raises on data."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    numbers = np.empty((len(array), tensor.size), np.float32)
    done = 0
    for chunk in chunks:
        _read(chunk, tensor, numbers[done : done + len(chunk)])
        done += len(chunk)
    return numbers


def write_tensor(values: np.ndarray, tensor: TensorDomain) -> pa.Array:
    """The published form of numbers of shape (rows, tensor.size): rounded to whole ones if bytes, always in bounds."""
    if values.ndim != 2 or values.shape[1] != tensor.size:
        raise ValueError(f"tensor {tensor.name!r} needs numbers of shape (rows, {tensor.size}), not {values.shape}")
    numbers = np.empty(values.shape, np.float32)
    _fit(np.asarray(values), tensor, numbers)
    if tensor.is_bytes:
        numbers = np.rint(numbers, out=numbers).astype(np.uint8)
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), type=published_type(tensor))


def published_type(tensor: TensorDomain) -> pa.DataType:
    return pa.list_(pa.uint8() if tensor.is_bytes else pa.float32(), tensor.size)


def limits(tensor: TensorDomain) -> tuple[np.float32, np.float32]:
    """The least and the greatest float32 within the declared bounds."""
    low, high = np.float32(tensor.low), np.float32(tensor.high)
    if float(low) < tensor.low:
        low = np.nextafter(low, np.float32(np.inf))
    if float(high) > tensor.high:
        high = np.nextafter(high, np.float32(-np.inf))
    return low, high


def rows_within(array: pa.Array | pa.ChunkedArray, low: float, high: float) -> np.ndarray:
    """Which rows of a published column are there and have every number between the bounds."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    found = [np.zeros(0, np.bool_)]
    for chunk in chunks:
        size = chunk.type.list_size
        child = chunk.values.slice(chunk.offset * size, len(chunk) * size)
        inside = pc.and_(pc.greater_equal(child, pa.scalar(low)), pc.less_equal(child, pa.scalar(high)))
        whole = np.asarray(pc.fill_null(inside, False)).reshape(len(chunk), size).all(axis=1)
        found.append(whole & np.asarray(chunk.is_valid()))
    return np.concatenate(found)


def type_problem(type_: pa.DataType, size: int) -> str | None:
    """What a column of this Arrow type holds instead of tensors of so many numbers, or None if it may hold them."""
    if isinstance(type_, pa.FixedShapeTensorType):
        permutation = type_.permutation
        if permutation is not None and list(permutation) != sorted(permutation):
            return "tensors with permuted axes"
    if isinstance(type_, pa.BaseExtensionType):
        return type_problem(type_.storage_type, size)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return type_problem(type_.value_type, size)
    if _is_bytes(type_) or pa.types.is_null(type_):
        return None
    if pa.types.is_fixed_size_binary(type_):
        return None if type_.byte_width == size else f"{type_.byte_width:,} bytes a row"
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_)):
        return "nested values" if pa.types.is_nested(type_) else str(type_)
    if not is_number(type_.value_type):
        return "lists of lists" if pa.types.is_nested(type_.value_type) else f"lists of {type_.value_type}"
    if pa.types.is_fixed_size_list(type_) and type_.list_size != size:
        return f"lists of {type_.list_size:,} numbers"
    return None


def rows_at_once(domain: TableDomain, most: int) -> int:
    """How many rows a batch may have so that its tensors, as doubles, stay within BATCH_BYTES."""
    numbers = sum(tensor.size for tensor in domain.tensors)
    return max(1, min(most, BATCH_BYTES // (8 * numbers))) if numbers else most


def _read(array: pa.Array, tensor: TensorDomain, numbers: np.ndarray) -> None:
    while isinstance(array, pa.ExtensionArray) or pa.types.is_run_end_encoded(array.type):
        array = array.storage if isinstance(array, pa.ExtensionArray) else pc.run_end_decode(array)
    type_, rows, size = array.type, len(array), tensor.size
    middle = np.clip(np.float32(tensor.middle), *limits(tensor))
    if pa.types.is_dictionary(type_):
        table = np.full((len(array.dictionary) + 1, size), middle, np.float32)
        _read(array.dictionary, tensor, table[:-1])
        indices = pc.fill_null(pc.cast(array.indices, pa.int64()), len(array.dictionary))
        numbers[:] = table[indices.to_numpy(zero_copy_only=False)]
        return
    numbers[:] = middle
    if not rows or pa.types.is_null(type_) or type_problem(type_, size) is not None:
        return
    if pa.types.is_fixed_size_binary(type_) or pa.types.is_binary_view(type_):
        array = pc.cast(array, pa.large_binary())
    valid = np.asarray(array.is_valid())
    if pa.types.is_fixed_size_list(type_):
        child, starts = array.values, (array.offset + np.arange(rows, dtype=np.int64)) * size
    else:
        child, starts, lengths = _located(array)
        valid &= lengths == size
    if valid.all() and int(starts[-1] - starts[0]) == (rows - 1) * size:  # one block, as nearly always
        fitted = _fitted(child.slice(starts[0], rows * size), tensor)
        numbers[:] = fitted.reshape(rows, size)
    elif valid.any():
        starts = starts[valid]
        first, end = int(starts.min()), int(starts.max()) + size
        fitted = _fitted(child.slice(first, end - first), tensor)
        numbers[valid] = np.lib.stride_tricks.sliding_window_view(fitted, size)[starts - first]


def _located(array: pa.Array) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """The numbers of all rows, where each row's begin, and how many they are."""
    type_, rows = array.type, len(array)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        return array.values, offsets[:-1], np.diff(offsets)
    wide = np.int64 if pa.types.is_large_binary(type_) else np.int32
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, wide, count=array.offset + rows + 1)[array.offset :].astype(np.int64)
    raw = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return pa.array(raw), offsets[:-1], np.diff(offsets)


def _fitted(child: pa.Array, tensor: TensorDomain) -> np.ndarray:
    """A list's numbers within the bounds. How one is converted is decided by the type: a null among them, or none,
    must not change how the others are rounded."""
    type_ = child.type
    if pa.types.is_boolean(type_):
        child = pc.cast(child, pa.uint8())
    elif pa.types.is_decimal(type_) or (pa.types.is_integer(type_) and type_.bit_width == 64):
        child = pc.cast(child, pa.float64(), safe=False)
    missing = np.asarray(child.is_null()) if child.null_count else None
    if missing is not None:
        child = pc.fill_null(child, 0)
    found = child.to_numpy(zero_copy_only=False)
    numbers = np.empty(len(child), np.float32)
    _fit(found, tensor, numbers)
    if missing is not None:
        numbers[missing] = np.clip(np.float32(tensor.middle), *limits(tensor))
    return numbers


def _fit(found: np.ndarray, tensor: TensorDomain, numbers: np.ndarray) -> None:
    """Write `found` clipped to the bounds, the middle where it is not finite."""
    low, high = limits(tensor)
    with np.errstate(all="ignore"):  # a signalling NaN must not make a warning
        if found.dtype.kind == "f":
            if found.dtype.itemsize <= 4:
                numbers[:] = found
            else:  # clipped first: a double may be too large for float32
                np.clip(found, np.float64(low), np.float64(high), out=numbers, casting="same_kind")
            strange = ~np.isfinite(found)
            np.clip(numbers, low, high, out=numbers)
            if strange.any():
                numbers[strange] = np.clip(np.float32(tensor.middle), low, high)
        else:
            numbers[:] = found
            np.clip(numbers, low, high, out=numbers)


def _is_bytes(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_))
