"""What an Arrow schema says: names, types, nullability, and comments some writers keep as metadata.

The entries of a dictionary are data and no part of a schema. The metadata that pandas adds tells of rows (its index has
a length) and is not looked at.
"""

from __future__ import annotations

import pyarrow as pa

from understudy.pipelines.drafting.facts import ColumnFacts, Kind, with_bound


def arrow_columns(schema: pa.Schema) -> tuple[ColumnFacts, ...]:
    return tuple(_column(field) for field in schema)


def _column(field: pa.Field) -> ColumnFacts:
    type_, comments = field.type, field.metadata or {}
    comment = comments.get(b"comment") or comments.get(b"description") or b""
    column = ColumnFacts(
        field.name,
        arrow_kind(type_),
        str(type_)[:60],
        # Writers call nearly everything nullable; only a promise that nothing is null says something.
        nullable=None if field.nullable else False,
        comment=comment.decode("utf-8", "replace"),
        decimals=type_.scale if pa.types.is_decimal(type_) and type_.scale >= 0 else None,
    )
    if pa.types.is_uint8(type_) or pa.types.is_int8(type_):
        return with_bound(column, *((0, 255) if pa.types.is_uint8(type_) else (-128, 127)))
    return column


def arrow_kind(type_: pa.DataType) -> Kind:
    while True:
        if isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        elif pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
            type_ = type_.value_type
        else:
            break
    if pa.types.is_null(type_):
        return "unknown"
    if pa.types.is_boolean(type_):
        return "boolean"
    if pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0):
        return "integer"
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_date(type_):
        return "date"
    if pa.types.is_timestamp(type_):
        return "datetime"
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    return "text" if text else "other"
