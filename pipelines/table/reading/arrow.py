"""How values stand in Arrow, whatever wraps them: which types a column may be read from, and their plain forms.

Nothing here tries a cast on a whole column and reacts to its failure: that would let one row decide about another.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.formats import DateForm, Form
from understudy.pipelines.table.columns import Kind

INT64_MAX = 2**63 - 1


def readable(type_: pa.DataType, kind: Kind, form: Form | None = None) -> bool:
    """Whether a value of this Arrow type can be one of such a column. Otherwise all are unreadable."""
    if isinstance(type_, pa.BaseExtensionType):
        return readable(type_.storage_type, kind, form)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return readable(type_.value_type, kind, form)
    if pa.types.is_null(type_) or is_text(type_):
        return True
    if kind in ("date", "datetime"):
        if isinstance(form, DateForm) and form.formats and is_number(type_) and not pa.types.is_boolean(type_):
            return True
        return bool(pa.types.is_date(type_) or pa.types.is_timestamp(type_))
    if is_number(type_):
        return True
    return kind == "category" and not pa.types.is_nested(type_) and _has_text(type_)


def plain(values: pa.Array) -> pa.Array:
    """Without extension types and runs; dictionaries stay, so that each of their entries is read once."""
    while True:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        elif pa.types.is_run_end_encoded(values.type):
            values = pc.run_end_decode(values)
        else:
            return values


def is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_binary(type_)
        or pa.types.is_binary_view(type_)
    )


def is_number(type_: pa.DataType) -> bool:
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


def texts(values: pa.Array) -> pa.LargeStringArray:
    """Any text or bytes as 64-bit-offset text; invalid UTF-8 is kept, since it equals no listed value."""
    return pc.cast(values, pa.large_string(), safe=False)


def text_buffers(values: pa.LargeStringArray) -> tuple[np.ndarray, np.ndarray]:
    """The offsets (one more than rows) and bytes behind an array, without copying."""
    _, offsets, data = values.buffers()
    if not len(values) or offsets is None:
        return np.zeros(len(values) + 1, np.int64), np.zeros(0, np.uint8)
    starts = np.frombuffer(offsets, np.int64, count=values.offset + len(values) + 1)[values.offset :]
    return starts, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def unboxed(values: pa.Array) -> np.ndarray:
    """The numbers of an array without nulls, without copying where that can be."""
    numbers: np.ndarray = values.to_numpy(zero_copy_only=False)
    return numbers


def wholes(values: pa.Array) -> np.ndarray:
    """Whole numbers, booleans, dates or moments as int64, too large ones as the largest; nulls arbitrary."""
    if pa.types.is_uint64(values.type):
        clipped: np.ndarray = np.minimum(unboxed(pc.fill_null(values, 0)), np.uint64(INT64_MAX))
        return clipped.astype(np.int64)
    if pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    return unboxed(pc.fill_null(pc.cast(values, pa.int64()), 0))


def nulls(values: pa.Array) -> np.ndarray | None:
    """Which rows are null, or None if no row is."""
    return np.asarray(values.is_null()) if values.null_count else None
