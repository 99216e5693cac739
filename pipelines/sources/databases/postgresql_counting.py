"""Counting in PostgreSQL: the engine finds the bins of numbers, dates and moments, groups, and counts.

Guarantee: the same numbers as streaming the rows. Listed values (categories, booleans) are grouped by the very text or
number that streaming would send, and one of each group is encoded here. The bin of a number or a moment is the count of
inner edges not above it, by `width_bucket`; edges are sent exactly (doubles in their shortest spelling, moments to the
microsecond) and compared in the type that `encoding` compares in. What encoding calls unreadable (NaN, infinities,
years outside 1 to 9999) gets its code by name. Column types of which that cannot be said (numeric, real, text that
holds numbers) are not counted in the engine.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import parse_one

from understudy.pipelines.sources.databases.group_sql import POSTGRESQL, grouped_sql, named
from understudy.pipelines.sources.databases.grouping import has_few_codes
from understudy.pipelines.sources.databases.postgresql import PostgresSource
from understudy.pipelines.sources.databases.postgresql_columns import PostgresColumn
from understudy.pipelines.table.binning import MICROSECONDS_A_DAY
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn

_WHOLE = ("int2", "int4", "int8")
_MOMENTS = ("date", "timestamp", "timestamptz")
_READABLE_YEARS = "BETWEEN '0001-01-01' AND '9999-12-31 23:59:59.999999'"


@dataclass(frozen=True)
class PostgresCounter:
    """Counts in PostgreSQL, under the snapshot that every other read of the source sees too."""

    source: PostgresSource

    columns_a_group = 3
    most_columns = 31
    """GROUPING() tells the groups apart in one 32-bit number."""

    def can_group(self, column: DomainColumn) -> bool:
        return has_few_codes(column) or _compared_as(self.source.column(column.name), column) is not None

    def coded(self, column: DomainColumn, values: pa.Array) -> np.ndarray:
        if has_few_codes(column):
            return encode_column(values, column)
        return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)

    def grouped(self, columns: Sequence[DomainColumn], sets: Sequence[Sequence[int]]) -> Iterator[pa.RecordBatch]:
        from psycopg import sql

        stored = [self.source.column(column.name) for column in columns]
        values = [
            parse_one(_coded(held, column).as_string(), dialect=POSTGRESQL.dialect)
            for held, column in zip(stored, columns, strict=True)
        ]
        query = sql.SQL(grouped_sql(POSTGRESQL, named(*self.source.place()), values, sets))
        sent = [
            PostgresColumn(f"c{i}", _sent(held) if has_few_codes(column) else "int8")
            for i, (held, column) in enumerate(zip(stored, columns, strict=True))
        ]
        yield from self.source.stream(query, [*sent, *(PostgresColumn(name, "int8") for name in ("absent", "count"))])


def _sent(stored: PostgresColumn) -> str:
    """The kind of what `expression` makes of a column."""
    return "text" if pa.types.is_string(stored.sent_type) else stored.kind


def _compared_as(stored: PostgresColumn, column: DomainColumn) -> str | None:
    """The type in which values are compared with edges, or None if the engine cannot bin this column."""
    if column.form is not None:  # the engine reads no format and no clock
        return None
    if column.kind in ("date", "datetime"):
        return "timestamp" if stored.kind in _MOMENTS else None
    if column.kind not in ("integer", "number") or stored.kind not in (*_WHOLE, "float8"):
        return None
    return "int8" if column.kind == "integer" and stored.kind in _WHOLE else "float8"


def _coded(stored: PostgresColumn, column: DomainColumn) -> Any:
    """SQL for what is grouped by: the value as it would be streamed, or the code of its bin."""
    from psycopg import sql

    if has_few_codes(column):
        raw = stored.expression()
        # Text is told apart by its bytes, whatever the column's collation takes for equal.
        return sql.SQL('({}) COLLATE "C"').format(raw) if pa.types.is_string(stored.arrow_type) else raw
    type_ = _compared_as(stored, column)
    value: Any = sql.Identifier(stored.name)
    if stored.kind == "timestamptz":
        value = sql.SQL("({} AT TIME ZONE 'UTC')").format(value)
    readable = {
        "int8": sql.SQL("true"),
        "float8": sql.SQL("{} NOT IN ('NaN', 'Infinity', '-Infinity')").format(value),
        "timestamp": sql.SQL("{} {}").format(value, sql.SQL(_READABLE_YEARS)),
    }[str(type_)]
    if stored.kind in _WHOLE:
        readable = sql.SQL("true")
    edges = [sql.Literal(_spelled(edge, column)) for edge in column.edges[1:-1]]
    return sql.SQL(
        "CASE WHEN {value} IS NULL THEN {missing} WHEN {readable}"
        " THEN pg_catalog.width_bucket({value}::{type_}, ARRAY[{edges}]::{type_}[]) ELSE {fallback} END"
    ).format(
        value=value,
        missing=sql.Literal(column.missing_code),
        readable=readable,
        type_=sql.SQL(str(type_)),
        edges=sql.SQL(", ").join(edges),
        fallback=sql.Literal(column.fallback_code),
    )


def _spelled(edge: float | int, column: DomainColumn) -> str:
    if column.kind in ("date", "datetime"):
        microseconds = int(edge) * (MICROSECONDS_A_DAY if column.kind == "date" else 1)
        return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)).isoformat(" ")
    return repr(int(edge)) if column.kind == "integer" else repr(float(edge))
