"""Values to codes: total, row by row, at the speed of the columns.

Guarantees. `encode` never raises on data, whatever the Arrow type and value. The code of a row depends on
that row alone: no value can change the code of another row, so one unit moves no more counts than its own
rows. (For that reason nothing here tries a cast on a whole column and reacts to its failure.)

Where a value goes:
- null: the column's null code; without one, where unreadable values go.
- unreadable (NaN, an infinity, text that is no number, an unlisted category): `other`, else null, else code
  0.
- numbers, dates and moments outside the bounds: the nearest bin. Numbers, dates and booleans may be written
  as text. A category matches by its text, so 7, 7.0 and "7" are one value; true and false also match listed
  1 and 0. Moments with a zone are taken in UTC. Decimals are compared as doubles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.coding.bucketing import bins_of, bucket, look_up
from understudy.pipelines.table.domain import DomainColumn, TableDomain
from understudy.pipelines.table.reading.arrow import plain, unboxed
from understudy.pipelines.table.reading.values import Reading, read


@dataclass(frozen=True)
class EncodedBatch:
    """Codes of some rows: one contiguous array a column, in domain order, of the smallest type that fits."""

    columns: tuple[np.ndarray, ...]
    rows: int


def code_type(size: int) -> np.dtype:
    """The smallest of uint8, uint16 and int32 that holds the codes of a column of this size."""
    return np.dtype(np.uint8 if size <= 2**8 else np.uint16 if size <= 2**16 else np.int32)


def encode(batch: pa.RecordBatch | pa.Table, domain: TableDomain) -> EncodedBatch:
    """Codes of the domain's columns, which the batch holds by name among any others."""
    columns = tuple(encode_column(batch.column(column.name), column) for column in domain.columns)
    return EncodedBatch(columns, batch.num_rows)


def encode_into(batch: pa.RecordBatch, columns: Mapping[int, DomainColumn], codes: np.ndarray) -> None:
    """Write the codes of each of the columns to the row of `codes` that is numbered so."""
    for row, column in columns.items():
        codes[row] = encode_column(batch.column(column.name), column)


def encode_column(values: pa.Array | pa.ChunkedArray, column: DomainColumn) -> np.ndarray:
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            chunks = [encode_column(chunk, column) for chunk in values.chunks]
            return np.concatenate(chunks) if chunks else np.empty(0, code_type(column.size))
        values = values.chunk(0)
    values = plain(values)
    if pa.types.is_dictionary(values.type):
        return _looked_up(values, column)
    if _is_narrow(values, column):
        return _of_narrow(values, column)
    return codes_of(read(values, column), column)


def codes_of(reading: Reading, column: DomainColumn) -> np.ndarray:
    """The code of each value, given what it is."""
    codes = np.empty(len(reading.numbers), code_type(column.size))
    if column.kind in ("category", "boolean"):
        np.take(_codes_of_places(column), reading.numbers, out=codes, mode="clip")
    else:
        whole = reading.numbers.dtype == np.int64 and column.kind != "number"
        numbers = reading.numbers if whole else reading.numbers.astype(np.float64, copy=False)
        bucket(numbers, bins_of(column.edges, whole), column.fallback_code, codes)
    if reading.unreadable is not None:
        codes[reading.unreadable] = column.fallback_code
    if reading.null is not None:
        codes[reading.null] = column.missing_code
    return codes


@lru_cache(maxsize=1024)
def _codes_of_places(column: DomainColumn) -> np.ndarray:
    """The codes of listed values, or of false and true, and then of what is none of them."""
    return np.append(np.arange(column.value_codes), column.fallback_code).astype(code_type(column.size))


def code_table(dictionary: pa.Array, column: DomainColumn) -> np.ndarray:
    """The code of each entry of a dictionary, then that of null."""
    return np.append(encode_column(dictionary, column), code_type(column.size).type(column.missing_code))


def _looked_up(values: pa.DictionaryArray, column: DomainColumn) -> np.ndarray:
    table = code_table(values.dictionary, column)
    indices = values.indices
    if pa.types.is_unsigned_integer(indices.type) and len(indices) and not indices.null_count:
        positions = indices.to_numpy()
        if int(positions.max()) < len(table):
            codes = np.empty(len(values), table.dtype)
            look_up(positions, table, codes)
            return codes
    return table.take(unboxed(pc.fill_null(pc.cast(indices, pa.int64()), len(values.dictionary))))


def _is_narrow(values: pa.Array, column: DomainColumn) -> bool:
    """Whether a table of every value of the type is sooner made than the values are binned."""
    if column.kind not in ("integer", "number") or not pa.types.is_integer(values.type):
        return False
    width = values.type.bit_width
    return bool(width == 8 or (width == 16 and len(values) >= 2**16))


def _of_narrow(values: pa.Array, column: DomainColumn) -> np.ndarray:
    codes = np.empty(len(values), code_type(column.size))
    filled = pc.fill_null(values, 0) if values.null_count else values
    narrow = filled.to_numpy(zero_copy_only=False)
    look_up(narrow.view(f"u{narrow.itemsize}"), _narrow_table(column, narrow.dtype), codes)
    if values.null_count:
        codes[np.asarray(values.is_null())] = column.missing_code
    return codes


@lru_cache(maxsize=1024)
def _narrow_table(column: DomainColumn, dtype: np.dtype) -> np.ndarray:
    """The code of every value of an 8- or 16-bit type, negative ones counted from the end."""
    limits = np.iinfo(dtype)
    numbers = pa.array(np.r_[0 : limits.max + 1, limits.min : 0].astype(np.int64))
    return encode_column(numbers, column)
