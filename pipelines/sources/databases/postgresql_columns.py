"""Columns of a PostgreSQL table: how each is asked for, what Arrow makes of it, and which types a copy keeps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.base import IN_UTC
from understudy.pipelines.sources.databases.postgresql_fields import WRITTEN_HERE
from understudy.pipelines.table.keeping import enum_name


@dataclass(frozen=True)
class PostgresColumn:
    """`kind` is the catalogue's type, or one of the words array and row; `declared` is how a person would write it, and
    `labels` are the words of an enum."""

    name: str
    kind: str
    declared: str = ""
    labels: tuple[str, ...] = ()

    @property
    def kept_type(self) -> str | None:
        """What `table.keeping` calls its type, if it can be kept."""
        return enum_name(self.labels) if self.labels else kept_name(self.declared)

    @property
    def arrow_type(self) -> pa.DataType:
        match self.kind:
            case "bool":
                return pa.bool_()
            case "int2" | "int4" | "int8":
                return pa.int64()
            case "float4" | "float8":
                return pa.float64()
            case "array":
                return pa.list_(pa.string())
            case "row":
                return pa.struct([("value", pa.string())])
            case _:
                return pa.string()

    @property
    def sent_type(self) -> pa.DataType:
        """What is streamed: lists and rows come as their text."""
        return pa.string() if pa.types.is_nested(self.arrow_type) else self.arrow_type

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.arrow_type, metadata=IN_UTC if self.kind == "timestamptz" else None)

    def compact(self) -> Any:
        """SQL for what binary COPY sends: of dates, moments and numerics the value, of which text is made here."""
        from psycopg import sql

        return sql.Identifier(self.name) if self.kind in WRITTEN_HERE else self.expression()

    def expression(self) -> Any:
        """SQL for the value as any reader takes it: whole numbers, floats, booleans, everything else as text."""
        from psycopg import sql

        column = sql.Identifier(self.name)
        match self.kind:
            case "bool" | "int2" | "int4" | "int8" | "float4" | "float8":
                return column
            case "numeric":  # 1.0 and 1.00 are one number, and may be one entity's key
                return sql.SQL("pg_catalog.trim_scale({})::text").format(column)
            case "money":
                return sql.SQL("{}::numeric::text").format(column)
            case "timestamptz":
                return sql.SQL("({} AT TIME ZONE 'UTC')::text").format(column)
            case _:
                return sql.SQL("{}::text").format(column)


_KEPT = {
    "smallint": "int16", "integer": "int32", "bigint": "int64", "real": "float", "double precision": "double",
    "boolean": "bool", "date": "date32[day]", "text": "string",
}  # fmt: skip


def kept_name(declared: str) -> str | None:
    """What `table.keeping` calls a type of PostgreSQL's catalogue, if it can be kept."""
    if declared in _KEPT:
        return _KEPT[declared]
    if (decimal := re.fullmatch(r"numeric\((\d+),(\d+)\)", declared)) is not None:
        return f"decimal128({decimal.group(1)}, {decimal.group(2)})"
    if (text := re.fullmatch(r"character( varying)?\((\d+)\)", declared)) is not None:
        return f"{'varchar' if text.group(1) else 'char'}({text.group(2)})"
    if (moment := re.fullmatch(r"timestamp(?:\((\d)\))? with(out)? time zone", declared)) is not None:
        unit = {"0": "s", "1": "ms", "2": "ms", "3": "ms"}.get(moment.group(1), "us")
        return f"timestamp[{unit}]" if moment.group(2) else f"timestamp[{unit}, tz=UTC]"
    return None


def listed(columns: Sequence[PostgresColumn], name: str) -> PostgresColumn:
    for column in columns:
        if column.name == name:
            return column
    raise SpecError(f"the table has no column(s) {name}", "correct the names in the spec")
