"""What is asked of a database for a column, and the total reading of what it sends.

SQLAlchemy's types turn what a driver sends into Python values, and raise on the first that they cannot (a date
`2026-13-45` that SQLite holds as text, an enum's unlisted value, JSON that is none). Drivers do the same before them
(psycopg on the year 10000, on years BC and on infinite dates). So the types take no part in reading, and where a driver
would convert, the database is asked for text, in its own words:
- SQLite: what is stored, of whatever type; text that is no UTF-8 is mended by replacement;
- PostgreSQL: text, in the bytes of the database's encoding, so that no character can lack a counterpart;
- MySQL, MariaDB: text (a date `0000-00-00` has one);
- others: what their driver makes of a value. Text would be safer, but there it is written in local formats.
Whole numbers, floats and booleans come as such from every driver. Lists, JSON and bytes are no column, never asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.types import NullType

from understudy.pipelines.sources.base import IN_UTC
from understudy.pipelines.sources.databases.postgresql_connection import SETTINGS, python_encoding
from understudy.pipelines.table.keeping import enum_name
from understudy.pipelines.table.reading.objects import double, truth, whole, without_trailing_zeros, written

_PLAIN = {
    pa.string(): frozenset({str, type(None)}),
    pa.int64(): frozenset({int, type(None)}),
    pa.float64(): frozenset({float, type(None)}),
}
"""Python's types of which Arrow makes at once what reading one by one would."""

_WHOLE = {"SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64"}


@dataclass(frozen=True)
class StoredColumn:
    """A column as the catalogue describes it."""

    column: sa.Column[Any]

    @property
    def name(self) -> str:
        return str(self.column.name)

    @property
    def arrow_type(self) -> pa.DataType:
        match self.column.type:
            case sa.Boolean():
                return pa.bool_()
            case sa.Integer():
                return pa.int64()
            case sa.Float():
                return pa.float64()
            case sa.JSON() | sa.ARRAY() | sa.LargeBinary():
                return pa.list_(pa.string())
        return pa.string()

    @property
    def field(self) -> pa.Field:
        zoned = isinstance(self.column.type, sa.DateTime) and self.column.type.timezone
        return pa.field(self.name, self.arrow_type, metadata=IN_UTC if zoned else None)

    def kept_type(self, dialect: str) -> str | None:
        """What `table.keeping` calls the catalogue's type, if a published column may keep it."""
        type_, name = self.column.type, type(self.column.type).__name__
        match type_:
            case sa.Enum():
                return enum_name(type_.enums)
            case sa.Boolean():
                return "bool"
            case sa.Integer():  # of SQLite's integers none is narrower than another
                return None if dialect == "sqlite" or getattr(type_, "unsigned", False) else _WHOLE.get(name)
            case sa.Float():
                return "double"
            case sa.Numeric():
                sized = type_.precision is not None and type_.scale is not None
                return f"decimal128({type_.precision}, {type_.scale})" if sized else None
            case sa.String():
                sized = type_.length is not None and name in ("VARCHAR", "CHAR")
                return f"{name.lower()}({type_.length})" if sized else "string"
            case sa.Date():
                return "date32[day]"
            case sa.DateTime():
                return "timestamp[us, tz=UTC]" if type_.timezone else "timestamp[us]"
        return None

    def asked(self, dialect: str) -> sa.ColumnElement[Any]:
        """SQL that no value can make fail, for a result that SQLAlchemy leaves as the driver sends it."""
        if pa.types.is_nested(self.arrow_type):
            return sa.null()
        raw: sa.ColumnElement[Any] = sa.type_coerce(self.column, NullType())
        if not pa.types.is_string(self.arrow_type):
            return raw
        if dialect == "postgresql":
            if type(self.column.type).__name__ == "MONEY":  # as text it has a currency and separators
                raw = sa.cast(raw, sa.Numeric)
            elif isinstance(self.column.type, sa.DateTime) and self.column.type.timezone:
                raw = sa.func.timezone("UTC", raw)
            text = sa.func.convert_to(sa.cast(raw, sa.Text), sa.func.getdatabaseencoding())
            return sa.type_coerce(text, NullType())
        if dialect in ("mysql", "mariadb"):
            return sa.type_coerce(sa.cast(raw, sa.CHAR), NullType())
        return raw

    def array(self, values: Sequence[Any], encoding: str) -> pa.Array:
        """Total, value by value: what is not what the catalogue promised is null where the column is no text."""
        type_ = self.arrow_type
        if pa.types.is_nested(type_):
            return pa.nulls(len(values), type_)
        if (
            (plain := _PLAIN.get(type_))
            and set(map(type, values)) <= plain
            and not isinstance(self.column.type, sa.Numeric)
        ):
            with suppress(pa.ArrowInvalid, OverflowError, UnicodeError):  # then it is read value by value, below
                return pa.array(values, type_)
        if pa.types.is_boolean(type_):
            return pa.array([truth(value) for value in values], type_)
        if pa.types.is_integer(type_):
            return pa.array([whole(value) for value in values], type_)
        if pa.types.is_floating(type_):
            return pa.array([double(value) for value in values], type_)
        texts = [written(value, encoding) for value in values]
        if isinstance(self.column.type, sa.Numeric):
            texts = [text and without_trailing_zeros(text) for text in texts]
        return pa.array(texts, pa.string())


_MYSQL = (
    "time_zone = '+00:00'",  # in which moments of type TIMESTAMP are written
    "sql_mode = ''",  # CHAR without the blanks that fill it up, and no word that depends on the server's mode
    "net_write_timeout = 3600",  # for the server waits while rows are counted
    "max_sort_length = 1024",  # which is more than group_sql.MOST_BYTES
)


def connect_options(url: sa.URL) -> dict[str, Any]:
    """What an address may not decide: sqlite3 converts no value, and libpq writes names in UTF-8."""
    match url.drivername:
        case "sqlite" | "sqlite+pysqlite":
            return {"detect_types": 0}
        case "postgresql" | "postgresql+psycopg" | "postgresql+psycopg2":
            return {"client_encoding": "utf8", "fallback_application_name": "understudy"}
    return {}


def prepared(connection: sa.Connection) -> str:
    """Settle how this connection writes values; the answer is the encoding of text that comes as bytes."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite" and hasattr(driver, "text_factory"):
        driver.text_factory = lambda raw: raw.decode("utf-8", "replace")
    if connection.dialect.name in ("mysql", "mariadb"):
        for setting in _MYSQL:
            connection.exec_driver_sql(f"SET SESSION {setting}")
    if connection.dialect.name == "postgresql":
        for name in ("DateStyle", "IntervalStyle", "TimeZone", "extra_float_digits"):
            connection.execute(sa.select(sa.func.set_config(name, SETTINGS[name], False)))
        return python_encoding(str(connection.exec_driver_sql("SHOW server_encoding").scalar()))
    return "utf-8"
