"""A PostgreSQL table loaded beside the one it replaces, swapped in, and read back as it was written.

An enum is a type of the schema, not of its table. Ours are named after their words, so that a table with the same words
has the same type from release to release; those that no column has any more go with the table that had them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import PublishError
from understudy.pipelines.sources.databases.postgresql_connection import located
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.keeping import SQL_TYPE, enum_labels

_TYPES = ((pa.types.is_boolean, "boolean"), (pa.types.is_int8, "smallint"), (pa.types.is_int16, "smallint"),
          (pa.types.is_uint8, "smallint"), (pa.types.is_int32, "integer"), (pa.types.is_uint16, "integer"),
          (pa.types.is_uint64, "numeric(20)"), (pa.types.is_integer, "bigint"), (pa.types.is_float32, "real"),
          (pa.types.is_floating, "double precision"), (pa.types.is_date, "date"))  # fmt: skip
_DIGITS = {"s": "(0)", "ms": "(3)"}
_TEXT = re.compile(r"(var)?char\([1-9][0-9]{0,8}\)")

OURS = "made by understudy for the tables that it publishes into this schema"
LONGEST_LABEL = 63
"""Bytes of a word of an enum, in PostgreSQL as it is built usually; longer ones are published as text."""


def load(connection: Any, schema: str, staged: str, rows: Parts) -> None:
    """Make the table `staged` and fill it, part by part."""
    from psycopg import sql

    place = sql.Identifier(schema, staged)
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(field.name), _type(connection, schema, field)) for field in rows.schema
    ]
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(place, sql.SQL(", ").join(columns)))
    with (
        connection.cursor() as cursor,
        cursor.copy(sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(place)) as copy,
    ):
        for part in rows:
            for text in _csv_blocks(part):
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
        drop(connection, schema, table)
    connection.execute(
        sql.SQL("ALTER TABLE {} RENAME TO {}").format(sql.Identifier(schema, staged), sql.Identifier(table))
    )
    _drop_unused_enums(connection, schema)


def rows_of(connection: Any, schema: str, table: str) -> Iterator[bytes]:
    """Each row as COPY writes it."""
    from psycopg import sql

    query = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT csv)").format(sql.Identifier(schema, table))
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy:
            yield bytes(row)


def table_of(connection: Any, schema: str, table: str) -> pa.Table:
    """All rows, with what PostgreSQL holds as numeric or text as it is."""
    from psycopg import sql

    found = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table)))
    names = [column.name for column in found.description]
    rows = found.fetchall()
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def drop(connection: Any, schema: str, table: str) -> None:
    import psycopg
    from psycopg import sql

    try:
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(schema, table)))
    except psycopg.errors.DependentObjectsStillExist:
        raise PublishError(
            f"views or other objects depend on {schema}.{table}, so it cannot be swapped",
            "let them select from it through a function, or drop them before and create them after a release",
        ) from None


def _type(connection: Any, schema: str, field: pa.Field) -> Any:
    """SQL of the column's type; of an enum, which is made where it is not there yet, its name."""
    from psycopg import sql

    type_, declared = field.type, (field.metadata or {}).get(SQL_TYPE, b"").decode()
    if pa.types.is_timestamp(type_):
        zone = "" if type_.tz is None else " with time zone"
        return sql.SQL(f"timestamp{_DIGITS.get(type_.unit, '')}{zone}")
    if pa.types.is_decimal(type_):
        return sql.SQL(f"numeric({type_.precision},{type_.scale})")
    if pa.types.is_string(type_) and _TEXT.fullmatch(declared):
        return sql.SQL(declared)
    labels = enum_labels(declared) if pa.types.is_dictionary(type_) else None
    if labels and all(len(label.encode()) <= LONGEST_LABEL for label in labels):
        return _enum(connection, schema, labels)
    return sql.SQL(next((name for matches, name in _TYPES if matches(type_)), "text"))


def _enum(connection: Any, schema: str, labels: Sequence[str]) -> Any:
    from psycopg import sql

    name = f"understudy_{hashlib.sha256(repr(tuple(labels)).encode()).hexdigest()[:24]}"
    place = sql.Identifier(schema, name)
    found = connection.execute(
        "SELECT ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid"
        " ORDER BY e.enumsortorder) FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
        " WHERE n.nspname = %s AND t.typname = %s",
        [schema, name],
    ).fetchone()
    if found is None:
        words = sql.SQL(", ").join(sql.Literal(label) for label in labels)
        connection.execute(sql.SQL("CREATE TYPE {} AS ENUM ({})").format(place, words))
        connection.execute(sql.SQL("COMMENT ON TYPE {} IS {}").format(place, sql.Literal(OURS)))
    elif list(found[0]) != list(labels):
        raise PublishError(
            f"the type {schema}.{name} has other words than its name stands for", "drop it: understudy makes it anew"
        )
    return place


def _drop_unused_enums(connection: Any, schema: str) -> None:
    """Those that understudy made, that no column has, and that this role may drop."""
    import psycopg
    from psycopg import sql

    unused = connection.execute(
        "SELECT t.typname FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace"
        " WHERE n.nspname = %s AND t.typtype = 'e' AND pg_catalog.obj_description(t.oid, 'pg_type') = %s"
        " AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute a WHERE a.atttypid IN (t.oid, t.typarray)"
        " AND NOT a.attisdropped)",
        [schema, OURS],
    ).fetchall()
    for (name,) in unused:
        try:
            with connection.transaction():
                connection.execute(sql.SQL("DROP TYPE {}").format(sql.Identifier(schema, name)))
        except (psycopg.errors.DependentObjectsStillExist, psycopg.errors.InsufficientPrivilege):
            continue  # a function takes it, or another role made it


def _spelled(table: pa.Table) -> pa.Table:
    """Decimals and enums as text, which is what CSV holds."""
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal(field.type) or pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(pa.string()))
    return table


def _csv_blocks(table: pa.Table) -> Any:
    """COPY's CSV: a null is bare, text is always quoted, so the empty text is not a null."""
    import pyarrow.csv

    for batch in _spelled(table).to_batches(max_chunksize=65_536):
        sink = pa.BufferOutputStream()
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
        pyarrow.csv.write_csv(batch, sink, options)
        yield sink.getvalue().to_pybytes()
