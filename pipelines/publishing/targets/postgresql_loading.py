"""A PostgreSQL table loaded beside the one it replaces, swapped in, and read back as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import PublishError
from understudy.pipelines.sources.databases.postgresql_connection import located

_TYPES = ((pa.types.is_boolean, "boolean"), (pa.types.is_integer, "bigint"), (pa.types.is_floating, "double precision"),
          (pa.types.is_date, "date"), (pa.types.is_timestamp, "timestamp"))  # fmt: skip


def load(connection: Any, schema: str, staged: str, table: pa.Table) -> None:
    """Make the table `staged` and fill it."""
    from psycopg import sql

    place = sql.Identifier(schema, staged)
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(_type(field.type))) for field in table.schema
    ]
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(place, sql.SQL(", ").join(columns)))
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(place)) as copy,
    ):
        for text in _csv_blocks(table):
            copy.write(text)


def swap(connection: Any, schema: str, table: str, staged: str) -> None:
    """Put `staged` in the place of `table`, with what was granted on it."""
    from psycopg import sql

    old = located(connection, f"{schema}.{table}")
    if old is not None:
        for grantee, privilege in connection.execute(
            "SELECT CASE a.grantee WHEN 0 THEN NULL ELSE pg_catalog.pg_get_userbyid(a.grantee) END,"
            " a.privilege_type FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) a"
            " WHERE c.oid = %s AND a.grantee <> c.relowner",
            [old[3]],
        ).fetchall():
            connection.execute(
                sql.SQL("GRANT {} ON {} TO {}").format(
                    sql.SQL(privilege),
                    sql.Identifier(schema, staged),
                    sql.Identifier(grantee) if grantee else sql.SQL("PUBLIC"),
                )
            )
        _drop(connection, schema, table)
    connection.execute(
        sql.SQL("ALTER TABLE {} RENAME TO {}").format(sql.Identifier(schema, staged), sql.Identifier(table))
    )


def rows_of(connection: Any, schema: str, table: str) -> Iterator[bytes]:
    """Each row as COPY writes it."""
    from psycopg import sql

    query = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT csv)").format(sql.Identifier(schema, table))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy:
            yield bytes(row)


def _drop(connection: Any, schema: str, table: str) -> None:
    import psycopg
    from psycopg import sql

    try:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, table)))
    except psycopg.errors.DependentObjectsStillExist:
        raise PublishError(
            f"views or other objects depend on {schema}.{table}, so it cannot be swapped",
            "let them select from it through a function, or drop them before and create them after a release",
        ) from None


def _type(type_: pa.DataType) -> str:
    return next((name for matches, name in _TYPES if matches(type_)), "text")


def _csv_blocks(table: pa.Table) -> Any:
    """COPY's CSV: a null is bare, text is always quoted, so the empty text is not a null."""
    import pyarrow.csv

    for batch in table.to_batches(max_chunksize=65_536):
        sink = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        pyarrow.csv.write_csv(batch, sink, options)
        yield sink.getvalue().to_pybytes()
