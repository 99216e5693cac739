"""Rows of a PostgreSQL query by COPY straight into Arrow, under an exported snapshot: binary, or as CSV where psycopg's
libpq is out of reach.

Values come in the bytes of the database's own encoding, so that no character can lack a counterpart in another.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.databases.postgresql_binary import (
    LOCK_TIMEOUT,
    binary_rows,
    in_utf8,
    is_reachable,
    settings_of,
)
from understudy.pipelines.sources.databases.postgresql_columns import PostgresColumn
from understudy.pipelines.sources.databases.postgresql_connection import DOING, connected, explained, open_connection
from understudy.pipelines.spec.address import Address

BLOCK_BYTES = 4 << 20
TABLES = ("r", "m")
_LOCKABLE = ("r", "v", "p", "inherited")


Located = tuple[str, str, str]
"""Schema, name and kind of a table, by the catalogue."""


class HeldSnapshot:
    """Keeps a read-only transaction open so that others may read what it sees, until it is closed: one table, or
    several in one state."""

    def __init__(self, database: Address, tables: Sequence[Located]) -> None:
        import psycopg

        connection = None
        try:
            connection = open_connection(database)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            for located in sorted(tables, key=lambda each: each[2] not in _LOCKABLE):
                connection.execute(_lock(*located))
            self.snapshot = str(connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()[0])
            # Asked after the snapshot was taken: it can only see rows on pages that exist by now.
            self._pages = {each: _pages(connection, each) for each in tables if each[2] in TABLES}
        except psycopg.Error as problem:
            if connection is not None:
                connection.close()
            raise explained(problem, database, SourceError, DOING, connection is None) from None
        self.close = weakref.finalize(self, connection.close)

    def pages(self, located: Located) -> int | None:
        """Of one of the tables; a view has none."""
        return self._pages.get(located)


def _pages(connection: Any, located: Located) -> int:
    size = "SELECT pg_catalog.pg_relation_size(pg_catalog.format('%%I.%%I', %s::text, %s::text)::regclass)"
    bytes_ = int(connection.execute(size, list(located[:2])).fetchone()[0])
    page = int(connection.execute("SHOW block_size").fetchone()[0])
    return -(-bytes_ // page)


def _lock(schema: str, table: str, kind: str) -> Any:
    """Keeps the table from being rewritten until the transaction ends.

    LOCK TABLE takes no snapshot, so it can come first; for the kinds it does not know a SELECT takes the same lock,
    and the snapshot with it.
    """
    from psycopg import sql

    lock = "LOCK TABLE {} IN ACCESS SHARE MODE" if kind in _LOCKABLE else "SELECT FROM {} LIMIT 0"
    return sql.SQL(lock).format(sql.Identifier(schema, table))


def stream_rows(
    database: Address,
    snapshot: str,
    query: Any,
    columns: Sequence[PostgresColumn],
    batch_rows: int,
    work_memory: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The query's rows, under the snapshot, as batches with the columns' own names. What the query asks for must be
    what `selected` writes, or of kinds that both ways send alike (numbers, booleans, text)."""
    way = binary_rows if is_reachable() else text_rows
    yield from way(database, snapshot, query, columns, batch_rows, work_memory)


def selected(columns: Sequence[PostgresColumn]) -> Any:
    """SQL for columns of a table, as `stream_rows` wants to be sent them."""
    from psycopg import sql

    return sql.SQL(", ").join(each.compact() if is_reachable() else each.expression() for each in columns)


def text_rows(
    database: Address,
    snapshot: str,
    query: Any,
    columns: Sequence[PostgresColumn],
    batch_rows: int,
    work_memory: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """By COPY as CSV, a row at a time."""
    import psycopg
    from psycopg import sql

    with connected(database, SourceError, DOING) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        for setting in settings_of(snapshot, work_memory):
            connection.execute(setting)
        encoding = connection.info.parameter_status("server_encoding") or "UTF8"
        with (
            connection.cursor() as cursor,
            cursor.copy(
                sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, ENCODING {})").format(query, sql.Literal(encoding))
            ) as copy,
        ):
            block, size = [], 0
            for row in copy:
                block.append(bytes(row))
                size += len(row)
                if size >= BLOCK_BYTES:
                    yield from parsed(b"".join(block), columns, batch_rows, encoding)
                    block, size = [], 0
            if block:
                yield from parsed(b"".join(block), columns, batch_rows, encoding)


def parsed(
    text: bytes, columns: Sequence[PostgresColumn], batch_rows: int, encoding: str = "UTF8"
) -> Iterator[pa.RecordBatch]:
    # Columns are numbered while they are parsed: two requested columns never share a position, whatever their names.
    positions = [f"c{i}" for i in range(len(columns))]
    types = [column.arrow_type if not pa.types.is_nested(column.arrow_type) else pa.string() for column in columns]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(b"\n" + text),  # lest Arrow takes a byte order mark off the first value of any block
        pyarrow.csv.ReadOptions(column_names=positions, block_size=len(text) + 2, use_threads=False, skip_rows=1),
        pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict(zip(positions, types, strict=True)),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,  # COPY writes null bare and the empty text in quotes
        ),
    )
    # Every encoding a server may have keeps ASCII as it is, so quotes and commas were told apart.
    yield from in_utf8(table, encoding).rename_columns([column.name for column in columns]).to_batches(batch_rows)
