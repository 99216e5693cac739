"""A MariaDB or MySQL table made and filled, and what its catalogue says of one."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from understudy.pipelines.publishing.targets.sql_rows import blocks_of
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.keeping import SQL_TYPE, enum_labels

_TYPES = ((pa.types.is_boolean, "BOOLEAN"), (pa.types.is_int8, "TINYINT"), (pa.types.is_int16, "SMALLINT"),
          (pa.types.is_uint8, "SMALLINT"), (pa.types.is_int32, "INT"), (pa.types.is_uint16, "INT"),
          (pa.types.is_uint64, "BIGINT UNSIGNED"), (pa.types.is_integer, "BIGINT"), (pa.types.is_floating, "DOUBLE"),
          (pa.types.is_date, "DATE"))  # fmt: skip
_DIGITS = {"s": "", "ms": "(3)"}
_SIZED = re.compile(r"(?:var)?char\(([1-9][0-9]{0,3})\)")
_TEXT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
LONGEST_LABEL = 255
LONGEST_NAME = 64


def load(connection: sa.Connection, name: str, rows: Parts, comment: str) -> None:
    columns = ", ".join(f"{quoted(field.name)} {_type(connection, field)}" for field in rows.schema)
    written = _literal(connection, comment)
    connection.exec_driver_sql(
        f"CREATE TABLE {quoted(name)} ({columns}) ENGINE=InnoDB COMMENT={written}".replace("%", "%%")
    )
    holes = ", ".join(["%s"] * len(rows.schema))
    insert = f"INSERT INTO {quoted(name)} VALUES ({holes})"  # noqa: S608
    connection.exec_driver_sql("START TRANSACTION")
    for block in blocks_of(rows, _stored):
        connection.exec_driver_sql(insert, block)
    connection.exec_driver_sql("COMMIT")


def kind_of(connection: sa.Connection, table: str) -> str | None:
    """BASE TABLE, VIEW ..., or None where nothing has that name."""
    found = connection.exec_driver_sql(
        "SELECT table_type FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = %s", (table,)
    ).scalar()
    return None if found is None else str(found)


def comments_of(connection: sa.Connection, table: str) -> dict[str, str]:
    """Of the table and of all whose names begin with its own."""
    rows = connection.exec_driver_sql(
        "SELECT table_name, table_comment FROM information_schema.tables"
        " WHERE table_schema = DATABASE() AND left(table_name, %s) = %s",
        (len(table), table),
    ).fetchall()
    return {str(name): str(comment) for name, comment in rows}


def version_of(connection: sa.Connection) -> str:
    return str(connection.exec_driver_sql("SELECT VERSION()").scalar())


def renames_all_or_none(version: str) -> bool:
    """Whether a crash in the midst of RENAME TABLE leaves either all of its tables renamed or none."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version.removeprefix("5.5.5-"))[:3])
    return numbers >= ((10, 6, 1) if "mariadb" in version.lower() else (8, 0))


def quoted(identifier: str) -> str:
    return "`" + identifier.replace("`", "``").replace("%", "%%") + "`"


def _type(connection: sa.Connection, field: pa.Field) -> str:
    type_, declared = field.type, (field.metadata or {}).get(SQL_TYPE, b"").decode()
    if pa.types.is_timestamp(type_):
        return f"DATETIME{_DIGITS.get(type_.unit, '(6)')}"
    if pa.types.is_decimal(type_) and type_.precision <= 65 and 0 <= type_.scale <= 30:
        return f"DECIMAL({type_.precision},{type_.scale})"
    if pa.types.is_string(type_) and (sized := _SIZED.fullmatch(declared)) is not None:
        return f"VARCHAR({sized.group(1)}) {_TEXT}"  # CHAR would take blanks off the end
    labels = enum_labels(declared) if pa.types.is_dictionary(type_) else None
    if labels and all(label == label.rstrip() and 0 < len(label) <= LONGEST_LABEL for label in labels):
        return f"ENUM({', '.join(_literal(connection, label) for label in labels)}) {_TEXT}"
    return next((name for matches, name in _TYPES if matches(type_)), f"LONGTEXT {_TEXT}")


def _literal(connection: sa.Connection, text: str) -> str:
    driver: Any = connection.connection.driver_connection
    return str(driver.escape(text))


def _stored(value: Any) -> Any:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
