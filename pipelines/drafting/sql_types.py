"""A type as SQL spells it, in the words of facts.py; sqlglot knows the spellings of each dialect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import errors, exp

from understudy.pipelines.drafting.facts import ColumnFacts, Kind, with_bound, with_values

_BITS = {exp.DType.UTINYINT: (0, 255), exp.DType.TINYINT: (-128, 127)}
"""Only of types so narrow are the ends a useful bound."""

_FIXED_POINT = {exp.DType.DECIMAL, exp.DType.BIGDECIMAL}
_TEXT = {exp.DType.UUID, exp.DType.INET, exp.DType.XML, exp.DType.BPCHAR, exp.DType.ENUM}
_SERIAL = {exp.DType.SERIAL, exp.DType.SMALLSERIAL, exp.DType.BIGSERIAL, exp.DType.YEAR}


def typed(column: ColumnFacts, spelled: str, dialect: str) -> ColumnFacts:
    """The column with what its SQL type says: kind, length, decimals, and the values of an inline enum."""
    column = replace(column, type_name=spelled[:60])
    try:
        type_ = exp.DataType.build(spelled, dialect=dialect)
    except (errors.SqlglotError, ValueError, RecursionError):
        return replace(column, kind=_by_word(spelled))
    kind = _kind(type_.this)
    sizes = [_size(part) for part in type_.expressions]
    column = replace(column, kind=kind)
    if type_.this == exp.DType.TINYINT and sizes == [1]:
        return replace(column, kind="boolean")  # which is what MySQL and MariaDB store booleans as
    if type_.this in _BITS:
        low, high = _BITS[type_.this]
        column = with_bound(column, low, high)
    if type_.this == exp.DType.ENUM:
        values = [part.this for part in type_.expressions if isinstance(part, exp.Literal)]
        return with_values(replace(column, type_name="enum"), values, "its enum", enforced=True) if values else column
    if kind == "text" and sizes and sizes[0] is not None:
        return replace(column, most_characters=sizes[0])
    if kind == "number" and sizes and None not in sizes and type_.this in _FIXED_POINT:
        decimals = sizes[1] if len(sizes) > 1 else 0
        return replace(column, decimals=decimals, kind="number" if decimals else "integer")
    return column


def _kind(type_: Any) -> Kind:
    kinds = exp.DataType
    if type_ in (exp.DType.BOOLEAN, exp.DType.BIT):
        return "boolean" if type_ == exp.DType.BOOLEAN else "other"
    if type_ in kinds.INTEGER_TYPES or type_ in _SERIAL:
        return "integer"
    if type_ in kinds.NUMERIC_TYPES:
        return "number"
    if type_ in (exp.DType.DATE, exp.DType.DATE32):
        return "date"
    if type_ in kinds.TEMPORAL_TYPES and type_ not in (exp.DType.TIME, exp.DType.TIMETZ):
        return "datetime"
    return "text" if type_ in kinds.TEXT_TYPES or type_ in _TEXT else "other"


def _by_word(spelled: str) -> Kind:
    """Types that sqlglot has no name for, such as extensions'."""
    return "text" if spelled.lower() in ("citext", "string", "utf8", "keyword") else "other"


def _size(part: Any) -> int | None:
    try:
        return int(part.this.this)
    except (AttributeError, TypeError, ValueError):
        return None
