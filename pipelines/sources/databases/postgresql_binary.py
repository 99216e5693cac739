"""Rows of a PostgreSQL query by binary COPY into Arrow, under an exported snapshot, through the libpq of psycopg.

The same values as by CSV (`postgresql_stream.text_rows`), to the bit, whatever they are (`postgresql_fields`).

psycopg hands out a row at a time, each a Python object: that took most of the time. So psycopg opens the connection,
sets it up and closes it, and rows alone are asked of libpq itself (`PQgetCopyData`), in a loop without the interpreter
and its lock. It is the library that psycopg has loaded, looked up through psycopg's own module: a connection may not be
handed to another build. Where that cannot be done (psycopg without its C part, Windows) rows come as CSV.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numba import njit

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases.postgresql_columns import PostgresColumn
from understudy.pipelines.sources.databases.postgresql_connection import DOING, connected, python_encoding
from understudy.pipelines.sources.databases.postgresql_fields import ENDED, HEAD, MORE, batches_of, located, malformed
from understudy.pipelines.spec.address import Address

LOCK_TIMEOUT = "60s"
BLOCK_BYTES = 2 << 20
MOST_ROWS = 65_536
"""Of one batch: where their fields are is held beside them."""
_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""What a stream begins with: its name, no flags, and nothing more before the first row."""
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


class _Libpq(NamedTuple):
    """Functions of the library that psycopg uses, and of the C library below it, as numba calls them."""

    next_message: Any
    free: Any
    copy: Any


@cache
def _libpq() -> _Libpq | None:
    try:
        from psycopg import pq

        library = ctypes.CDLL(str(sys.modules[pq.PGconn.__module__].__file__))
        place, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t

        def found(name: str, gives: Any, *takes: Any) -> Any:
            return ctypes.CFUNCTYPE(gives, *takes)(ctypes.cast(getattr(library, name), place).value or 0)

        return _Libpq(
            next_message=found("PQgetCopyData", number, place, place, number),
            free=found("PQfreemem", None, place),
            copy=found("memcpy", place, place, place, size),
        )
    except (ImportError, OSError, AttributeError, KeyError):
        return None


def is_reachable() -> bool:
    return _libpq() is not None


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
    """The query's rows; it asks for its columns as `PostgresColumn.compact` says."""
    import psycopg

    with connected(database, SourceError, DOING) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        for setting in settings_of(snapshot, work_memory):
            connection.execute(setting)
        encoding = connection.info.parameter_status("server_encoding") or "UTF8"
        _start(connection.pgconn, query, columns, encoding)
        kinds, schema = [each.kind for each in columns], pa.schema([(each.name, each.sent_type) for each in columns])
        for batch in _batches(connection.pgconn, kinds, schema):
            whole = in_utf8(batch, encoding)
            for start in range(0, whole.num_rows, batch_rows):
                yield whole.slice(start, batch_rows)


def _start(pgconn: Any, query: Any, columns: Sequence[PostgresColumn], encoding: str) -> None:
    """Have the rows sent, texts in the bytes of the database's own encoding."""
    from psycopg import errors, sql
    from psycopg.pq import ExecStatus

    names = [sql.Identifier(f"c{i}") for i in range(len(columns))]
    exact = [  # a single-precision number is read by its shortest spelling: 0.1 is 0.1 on both ways
        sql.SQL("{}::text::float8").format(name) if column.kind == "float4" else name
        for name, column in zip(names, columns, strict=True)
    ]
    numbered = sql.SQL("SELECT {} FROM ({}) AS asked ({})").format(
        sql.SQL(", ").join(exact), query, sql.SQL(", ").join(names)
    )
    for asked, awaited in (
        (sql.SQL("SET client_encoding TO {}").format(sql.Literal(encoding)), ExecStatus.COMMAND_OK),
        (sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(numbered if columns else query), ExecStatus.COPY_OUT),
    ):
        answer = pgconn.exec_(asked.as_string().encode(python_encoding(encoding)))
        if answer.status != awaited:
            raise errors.error_from_result(answer)


def _batches(pgconn: Any, kinds: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What is being copied, until the server has said that this was all."""
    libpq, buffer = _libpq(), np.empty(BLOCK_BYTES, np.uint8)
    assert libpq is not None
    most = min(MOST_ROWS, BLOCK_BYTES // (2 + 4 * len(kinds)) + 1)
    at, size = np.empty((2, max(len(kinds), 1), most), np.int32)
    waiting = np.zeros(2, np.uintp)
    end, state = 0, HEAD
    try:
        while True:
            end, answer = _gathered(*libpq, pgconn.pgconn_ptr, waiting, buffer, end)
            begun = 0
            if state == HEAD and end >= len(_HEAD):
                begun, state = len(_HEAD), MORE
                if buffer[:begun].tobytes() != _HEAD:
                    raise malformed()
            rows = most
            while state == MORE and rows == most:
                rows, begun, state = located(buffer, begun, end, len(kinds), at, size)
                if state not in (MORE, ENDED):
                    raise malformed()
                if rows:
                    yield from batches_of(buffer, at[:, :rows], size[:, :rows], kinds, schema)
            if answer < 0:
                break
            end -= begun
            buffer[:end] = buffer[begun : begun + end].copy()
            if end + answer > len(buffer):
                buffer = np.concatenate([buffer[:end], np.empty(max(len(buffer), answer), np.uint8)])
    finally:
        if waiting[0]:
            libpq.free(int(waiting[0]))
    _require_end(pgconn, answer == -1)
    if state != ENDED:
        raise malformed()


def _require_end(pgconn: Any, is_whole: bool) -> None:
    from psycopg import OperationalError, errors
    from psycopg.pq import ExecStatus

    while (result := pgconn.get_result()) is not None and result.status != ExecStatus.COPY_OUT:
        if result.status == ExecStatus.FATAL_ERROR:
            raise errors.error_from_result(result)
    if not is_whole:
        raise OperationalError("the stream broke off")


@njit(nogil=True)
def _gathered(
    next_message: Any, free: Any, copy: Any, connection: int, waiting: np.ndarray, buffer: np.ndarray, used: int
) -> tuple[Any, Any]:
    """Put messages of COPY behind the bytes of the buffer that are used: how many are now, and the size of the message
    that had no room (`waiting` keeps its place and size) or, if negative, libpq's own word: -1 after the last, -2 for
    an error."""
    while True:
        if waiting[1] == 0:
            size: Any = next_message(connection, waiting.ctypes.data, 0)
            if size <= 0:
                return used, size
            waiting[1] = size
        size = np.int64(waiting[1])
        if size > len(buffer) - used:
            return used, size
        copy(buffer.ctypes.data + used, waiting[0], waiting[1])
        free(waiting[0])
        waiting[:] = 0
        used += size


def in_utf8(rows: Rows, encoding: str) -> Rows:
    """Text of the server's encoding as UTF-8, value by value; bytes that stand for no character are replaced."""
    if encoding == "UTF8":
        return rows
    named = python_encoding(encoding)
    for place, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            raw = rows.column(place).cast(pa.binary()).to_pylist()
            decoded = [value if value is None else value.decode(named, "replace") for value in raw]
            rows = rows.set_column(place, field, pa.array(decoded, pa.string()))
    return rows
