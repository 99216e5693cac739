"""Rows of a PostgreSQL query by binary COPY into Arrow (ADBC, extra `adbc`), under an exported snapshot.

The same values as by CSV (`postgresql_stream.text_rows`), to the bit: whole numbers, doubles and booleans in their own
form, everything else as the text that PostgreSQL writes, in the bytes of the database's own encoding. Single-precision
numbers are asked for by their shortest spelling, as CSV has them: 0.1 is 0.1 on both ways.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases.postgresql_columns import PostgresColumn
from understudy.pipelines.sources.databases.postgresql_connection import DOING, explained, python_encoding, settled
from understudy.pipelines.spec.address import Address

LOCK_TIMEOUT = "60s"
BATCH_BYTES = 4 << 20
_HINT = "adbc.postgresql.batch_size_hint_bytes"


def is_installed() -> bool:
    return find_spec("adbc_driver_postgresql") is not None


def settings_of(snapshot: str, work_memory: str | None) -> list[Any]:
    """What makes a transaction see the snapshot, and wait for nobody too long."""
    from psycopg import sql

    found = [
        sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)),
        sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_TIMEOUT)),
    ]
    if work_memory is not None:  # so that all groups are hashed: there are few, but the planner cannot know
        found.append(sql.SQL("SET LOCAL work_mem = {}").format(sql.Literal(work_memory)))
    return found


def binary_rows(
    database: Address,
    snapshot: str,
    query: Any,
    columns: Sequence[PostgresColumn],
    batch_rows: int,
    work_memory: str | None = None,
) -> Iterator[pa.RecordBatch]:
    from adbc_driver_manager import Error
    from psycopg import sql
    from psycopg.conninfo import make_conninfo

    names = [sql.Identifier(f"c{i}") for i in range(len(columns))]
    exact = [
        sql.SQL("{}::text::float8").format(name) if column.kind == "float4" else name
        for name, column in zip(names, columns, strict=True)
    ]
    numbered = sql.SQL("SELECT {} FROM ({}) AS asked ({})").format(
        sql.SQL(", ").join(exact), query, sql.SQL(", ").join(names)
    )
    connection, problem = None, None
    try:
        connection = _connection(make_conninfo(**settled(database)))
        with connection.cursor() as cursor:
            for setting in (
                sql.SQL("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"),
                *settings_of(snapshot, work_memory),
            ):
                cursor.execute(setting.as_string())
            cursor.execute("SELECT pg_catalog.set_config('client_encoding', current_setting('server_encoding'), false)")
            encoding = str(cursor.fetchone()[0])
            cursor.adbc_statement.set_options(**{_HINT: str(BATCH_BYTES)})
            cursor.execute((numbered if columns else query).as_string())
            for batch in _batches(cursor):
                table = in_utf8(pa.Table.from_batches([batch]), encoding)
                yield from _as_promised(table, columns).to_batches(batch_rows)
    except (Error, OSError, pa.ArrowException) as error:
        problem = explained(error, database, SourceError, DOING, connection is None)
    finally:
        if connection is not None:
            with _one_at_a_time:
                connection.close()
    if problem is not None:
        raise problem


def _connection(conninfo: str) -> Any:
    """As `dbapi.connect`, which has the driver read the server's whole catalogue of types each time it is called: that
    is seconds where there are thousands of tables, so a process does it once for each address."""
    from adbc_driver_manager import AdbcConnection, dbapi

    with _one_at_a_time:
        key = sha256(conninfo.encode()).digest()
        if key not in _databases:
            import adbc_driver_postgresql

            _databases[key] = adbc_driver_postgresql.connect(conninfo)
        return dbapi.Connection(_Shared(_databases[key]), AdbcConnection(_databases[key]))


_one_at_a_time = threading.RLock()
"""Held while a connection opens or closes. The driver counts those of a database without a lock of its own: two threads
at once can lose a count, and then every later close fails. A thread may collect a reader while it opens another."""
_databases: dict[bytes, Any] = {}


@dataclass(frozen=True)
class _Shared:
    """A database that others use too: a connection that is closed leaves it open."""

    database: Any

    def close(self) -> None:
        return


def _batches(cursor: Any) -> Iterator[pa.RecordBatch]:
    """The rows of the query. Arrow's own reader would hand on an error of the driver without its SQLSTATE."""
    from adbc_driver_manager._reader import AdbcRecordBatchReader

    stream = cursor.fetch_arrow()
    yield from AdbcRecordBatchReader._import_from_c(stream.address)


def _as_promised(table: pa.Table, columns: Sequence[PostgresColumn]) -> pa.Table:
    types = [pa.string() if pa.types.is_nested(each.arrow_type) else each.arrow_type for each in columns]
    schema = pa.schema([(column.name, type_) for column, type_ in zip(columns, types, strict=True)])
    arrays = [held.cast(field.type, safe=False) for held, field in zip(table.columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def in_utf8(table: pa.Table, encoding: str) -> pa.Table:
    """Text of the server's encoding as UTF-8, value by value; bytes that stand for no character are replaced."""
    if encoding == "UTF8":
        return table
    named = python_encoding(encoding)
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            raw = table.column(place).cast(pa.binary()).to_pylist()
            decoded = [value if value is None else value.decode(named, "replace") for value in raw]
            table = table.set_column(place, field.name, pa.chunked_array([pa.array(decoded, pa.string())]))
    return table
