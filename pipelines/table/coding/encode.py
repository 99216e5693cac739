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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.coding.bucketing import bins_of, bucket, look_up
from understudy.pipelines.table.domain import MICROSECONDS_A_DAY, DomainColumn, Kind, TableDomain
from understudy.pipelines.table.reading.dates import read_moments

NUMBER_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?$"
BOOLEAN_TEXTS = {"false": 0, "true": 1, "f": 0, "t": 1, "no": 0, "yes": 1, "n": 0, "y": 1, "0": 0, "1": 1}
INT64_MAX = 2**63 - 1


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
    values = _plain(values)
    if pa.types.is_dictionary(values.type):
        return _looked_up(values, column)
    codes = np.full(len(values), column.fallback_code, code_type(column.size))
    if pa.types.is_null(values.type):
        codes[:] = column.missing_code
    elif readable(values.type, column.kind):
        _ENCODERS[column.kind](values, column, codes)
    if values.null_count:
        codes[~np.asarray(values.is_valid())] = column.missing_code
    return codes


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
    looked_up: np.ndarray = table[_ints(pc.fill_null(pc.cast(indices, pa.int64()), len(values.dictionary)))]
    return looked_up


def readable(type_: pa.DataType, kind: Kind) -> bool:
    """Whether a value of this Arrow type can be one of such a column. Otherwise all are unreadable."""
    if isinstance(type_, pa.BaseExtensionType):
        return readable(type_.storage_type, kind)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return readable(type_.value_type, kind)
    if pa.types.is_null(type_) or _is_text(type_):
        return True
    if kind in ("date", "datetime"):
        return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))
    if _is_number(type_):
        return True
    return kind == "category" and not pa.types.is_nested(type_) and _has_text(type_)


def _plain(values: pa.Array) -> pa.Array:
    while True:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        elif pa.types.is_run_end_encoded(values.type):
            values = pc.run_end_decode(values)
        else:
            return values


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
    )


def _is_number(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_boolean(type_)
        or pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_decimal(type_)
    )


@lru_cache(maxsize=256)
def _has_text(type_: pa.DataType) -> bool:
    """Whether Arrow can write this type as text; asked of the type with no value in hand."""
    try:
        pc.cast(pa.nulls(0, type_), pa.large_string())
    except pa.ArrowException:
        return False
    return True


def _text(values: pa.Array) -> pa.LargeStringArray:
    """Any text or bytes as 64-bit-offset text; invalid UTF-8 is kept, since it equals no listed value."""
    return pc.cast(values, pa.large_string(), safe=False)


def _ints(values: pa.Array) -> np.ndarray:
    """Whole numbers, booleans, dates or moments as int64, too large ones as the largest; nulls arbitrary."""
    if pa.types.is_uint64(values.type):
        clipped = np.minimum(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), np.uint64(INT64_MAX))
        small: np.ndarray = clipped.astype(np.int64)
        return small
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    ints: np.ndarray = pc.fill_null(pc.cast(values, pa.int64()), 0).to_numpy(zero_copy_only=False)
    return ints


def _numbers(values: pa.Array) -> np.ndarray:
    """Numbers as int64 or float64, NaN where unreadable; nulls become arbitrary."""
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type):
        return _ints(values)
    if _is_text(values.type):
        trimmed = pc.ascii_trim_whitespace(_text(values))
        spelled = pc.if_else(pc.match_substring_regex(trimmed, NUMBER_TEXT), trimmed, "nan")
        doubles = pc.cast(spelled, pa.float64())
    else:
        doubles = pc.cast(values, pa.float64(), safe=False)
    numbers: np.ndarray = pc.fill_null(doubles, 0.0).to_numpy(zero_copy_only=False)
    return numbers


def _encode_number(values: pa.Array, column: DomainColumn, codes: np.ndarray) -> None:
    width = values.type.bit_width if pa.types.is_integer(values.type) else 64
    if width == 8 or (width == 16 and len(values) >= 2**16):
        filled = pc.fill_null(values, 0) if values.null_count else values
        narrow = filled.to_numpy(zero_copy_only=False)
        look_up(narrow.view(f"u{narrow.itemsize}"), _narrow_table(column, narrow.dtype), codes)
        return
    numbers = _numbers(values)
    whole = numbers.dtype == np.int64 and column.kind == "integer"
    numbers = numbers if whole else numbers.astype(np.float64, copy=False)
    bucket(numbers, bins_of(column.edges, whole), column.fallback_code, codes)


@lru_cache(maxsize=1024)
def _narrow_table(column: DomainColumn, dtype: np.dtype) -> np.ndarray:
    """The code of every value of an 8- or 16-bit type, negative ones counted from the end."""
    limits = np.iinfo(dtype)
    numbers = pa.array(np.r_[0 : limits.max + 1, limits.min : 0].astype(np.int64))
    return encode_column(numbers, column)


def _encode_boolean(values: pa.Array, column: DomainColumn, codes: np.ndarray) -> None:
    if _is_text(values.type):
        lowered = pc.ascii_lower(pc.ascii_trim_whitespace(_text(values)))
        _look_up(lowered, pa.array(list(BOOLEAN_TEXTS), pa.large_string()), list(BOOLEAN_TEXTS.values()), codes)
        return
    numbers = _numbers(values)
    codes[numbers == 0] = 0
    codes[numbers == 1] = 1


def _encode_category(values: pa.Array, column: DomainColumn, codes: np.ndarray) -> None:
    texts = {str(value): code for code, value in reversed(list(enumerate(column.values)))}
    type_ = values.type
    if pa.types.is_boolean(type_):
        truths = _ints(values)
        for truth, names in enumerate((("0", "False", "false"), ("1", "True", "true"))):
            for name in names:
                if name in texts:
                    codes[truths == truth] = texts[name]
    elif pa.types.is_integer(type_):
        low, high = (0, 2**64) if pa.types.is_unsigned_integer(type_) else (-(2**63), 2**63)
        wide = pa.uint64() if low == 0 else pa.int64()
        whole = {int(text): code for text, code in texts.items() if _is_whole(text) and low <= int(text) < high}
        _look_up(pc.cast(values, wide), pa.array(list(whole), wide), list(whole.values()), codes)
    elif pa.types.is_floating(type_) or (pa.types.is_decimal(type_) and type_.scale != 0):
        spelled = pa.array(list(texts), pa.large_string())
        listed = _numbers(spelled) + 0.0  # -0.0 and 0.0 are one value
        known = np.isfinite(listed)
        numbers = pa.array(_numbers(values) + 0.0)
        _look_up(numbers, pa.array(listed[known]), np.array(list(texts.values()))[known], codes)
    else:
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            values = pc.cast(values, pa.timestamp(type_.unit))
        _look_up(_text(values), pa.array(list(texts), pa.large_string()), list(texts.values()), codes)


def _is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 25 and str(int(text)) == text


def _look_up(values: pa.Array, listed: pa.Array, listed_codes: list[int] | np.ndarray, codes: np.ndarray) -> None:
    """Write the code of each value that is listed; the first of equal listed values counts."""
    found = pc.index_in(values, value_set=listed, skip_nulls=True)
    hit = np.asarray(found.is_valid())
    positions = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
    if len(listed):
        np.copyto(codes, np.asarray(listed_codes, codes.dtype)[positions], where=hit)


_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _encode_moment(values: pa.Array, column: DomainColumn, codes: np.ndarray) -> None:
    known = None
    type_ = values.type
    if _is_text(type_):
        moments, known = read_moments(_text(values))
    elif pa.types.is_date32(type_):
        moments = np.clip(_ints(values), -(10**8), 10**8) * MICROSECONDS_A_DAY
    elif pa.types.is_timestamp(type_) and type_.unit == "ns":
        moments = _ints(values) // 1_000
    else:
        factor = _MICROSECONDS["ms" if pa.types.is_date64(type_) else type_.unit]
        bound = INT64_MAX // factor
        moments = np.clip(_ints(values), -bound, bound) * factor
    if column.kind == "date":
        moments //= MICROSECONDS_A_DAY
    bucket(moments, bins_of(column.edges, True), column.fallback_code, codes)
    if known is not None:
        codes[~known] = column.fallback_code


_ENCODERS: dict[Kind, Callable[[pa.Array, DomainColumn, np.ndarray], None]] = {
    "category": _encode_category,
    "boolean": _encode_boolean,
    "integer": _encode_number,
    "number": _encode_number,
    "date": _encode_moment,
    "datetime": _encode_moment,
}
