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
from understudy.pipelines.table.coding.cells import cells_of
from understudy.pipelines.table.coding.whole_numbers import table_of
from understudy.pipelines.table.columns import DomainColumn, QualityColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.arrow import is_text, nulls, plain, unboxed
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
    for name in dict.fromkeys(column.name for column in columns.values()):
        its = {row: column for row, column in columns.items() if column.name == name}
        for row, found in encode_views(batch.column(name), its).items():
            codes[row] = found


def encode_views(values: pa.Array, columns: Mapping[int, DomainColumn]) -> dict[int, np.ndarray]:
    """The codes of one column as several see it, its codes and how it was understood; text is read once for all."""
    values = plain(values)
    if len(columns) < 2 or not is_text(values.type):
        return {row: encode_column(values, column) for row, column in columns.items()}
    reading = read(values, next(iter(columns.values())))
    return {row: codes_of(reading, column) for row, column in columns.items()}


def encode_column(values: pa.Array | pa.ChunkedArray, column: DomainColumn) -> np.ndarray:
    if isinstance(values, pa.ChunkedArray):
        if values.num_chunks != 1:
            chunks = [encode_column(chunk, column) for chunk in values.chunks]
            return np.concatenate(chunks) if chunks else np.empty(0, code_type(column.size))
        values = values.chunk(0)
    values = plain(values)
    if pa.types.is_dictionary(values.type):
        return _looked_up(values, column)
    if (table := table_of(values.type, column, _by_value)) is None:
        return _by_value(values, column)
    codes = np.empty(len(values), code_type(column.size))
    look_up(_stored(values), table.first, table.codes, codes)
    return _with_nulls(codes, values, column)


def _by_value(values: pa.Array, column: DomainColumn) -> np.ndarray:
    return codes_of(read(values, column), column)


def codes_of(reading: Reading, column: DomainColumn) -> np.ndarray:
    """The code of each value, given what it is."""
    if isinstance(column, QualityColumn):
        return cells_of(reading, column)
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


def _looked_up(values: pa.DictionaryArray, column: DomainColumn) -> np.ndarray:
    """Each entry of the dictionary is coded once. Places beyond it, which only a wrong array has, count as null."""
    table = np.append(encode_column(values.dictionary, column), code_type(column.size).type(column.missing_code))
    places = _stored(values.indices)
    places = places.view(f"u{places.itemsize}")  # negative ones lie beyond as well
    codes = np.empty(len(values), table.dtype)
    look_up(places, 0, table[: np.iinfo(places.dtype).max + 1], codes)
    return _with_nulls(codes, values.indices, column)


def _stored(values: pa.Array) -> np.ndarray:
    """Whole numbers and days as they are stored; nulls arbitrary."""
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return unboxed(pc.fill_null(values, 0) if values.null_count else values)


def _with_nulls(codes: np.ndarray, values: pa.Array, column: DomainColumn) -> np.ndarray:
    if (null := nulls(values)) is not None:
        codes[null] = column.missing_code
    return codes
