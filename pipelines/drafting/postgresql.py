"""What PostgreSQL's catalogue says about a table: columns, comments, enums, domains, constraints.

From pg_catalog, which any role may read; information_schema would hide a table that the role has no right to. Not one
statement names the table itself, and none looks at `pg_stats` or `pg_statistic`, which hold values of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from understudy.pipelines.drafting.conditions import apply_conditions, conditions_of, with_checks
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts, only_key, with_values
from understudy.pipelines.drafting.sql_types import typed
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.databases.postgresql_connection import connected, database_at, located
from understudy.pipelines.spec.address import Address

_DOING = "reading the catalogue"
_COLUMNS = """
SELECT a.attname, a.attnotnull, pg_catalog.col_description(a.attrelid, a.attnum), a.atttypid::bigint,
       pg_catalog.format_type(a.atttypid, a.atttypmod)
FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TYPE = """
SELECT t.typtype::text, t.typname, t.typnotnull, t.typbasetype::bigint,
       pg_catalog.format_type(t.typbasetype, t.typtypmod)
FROM pg_catalog.pg_type t WHERE t.oid = %s
"""
_LABELS = "SELECT enumlabel FROM pg_catalog.pg_enum WHERE enumtypid = %s ORDER BY enumsortorder"
_CHECKS = """
SELECT conname, pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
WHERE contype = 'c' AND (conrelid, contypid) = (%s, %s) ORDER BY conname
"""
_KEYS = """
SELECT c.contype::text, f.relname, ARRAY(
         SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(number, place)
         JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY k.place)
FROM pg_catalog.pg_constraint c LEFT JOIN pg_catalog.pg_class f ON f.oid = c.confrelid
WHERE c.conrelid = %s AND c.contype IN ('p', 'u', 'f') ORDER BY c.contype, c.conname
"""


def postgresql_facts(address: Address) -> TableFacts:
    database, table = database_at(address), address.table
    with connected(database, SourceError, _DOING) as connection:
        if table is None:
            table = _only_table(connection, database)
        found = located(connection, table)
        if found is None:
            raise SpecError(f"there is no table or view {table!r} at {database}", "name it as --table schema.name")
        schema, name, _, oid = found
        comment = connection.execute("SELECT pg_catalog.obj_description(%s::oid, 'pg_class')", [oid]).fetchone()[0]
        keys = connection.execute(_KEYS, [oid]).fetchall()
        columns = tuple(
            _with_keys(_column(connection, *row), keys) for row in connection.execute(_COLUMNS, [oid]).fetchall()
        )
        checks = _checks(connection, table=oid)
    facts = TableFacts(columns, f"the catalogue of {schema}.{name}", address.text, table, comment or "")
    return with_checks(facts, checks, "postgres")


def _only_table(connection: Any, database: Address) -> str:
    visible = connection.execute(
        "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f')"
        " AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace NOT IN"
        " ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY c.relname LIMIT 21"
    ).fetchall()
    if len(visible) == 1:
        return str(visible[0][0])
    names = ", ".join(name for (name,) in visible[:20]) or "none on the search path"
    raise SpecError(f"which table of {database} is meant? it has: {names}", "name one as --table")


def _column(connection: Any, name: str, not_null: bool, comment: str | None, type_: int, spelled: str) -> ColumnFacts:
    column = ColumnFacts(name, nullable=not not_null, comment=comment or "")
    return _of_type(connection, column, type_, spelled)


def _of_type(connection: Any, column: ColumnFacts, type_: int, spelled: str) -> ColumnFacts:
    kind, name, not_null, base, base_spelled = connection.execute(_TYPE, [type_]).fetchone()
    if kind == "e":
        labels = [label for (label,) in connection.execute(_LABELS, [type_]).fetchall()]
        return with_values(replace(column, kind="text", type_name=name), labels, f"enum {name}", enforced=True)
    if kind != "d":
        return typed(column, spelled, "postgres")
    column = _of_type(connection, column, base, base_spelled)
    if not_null:
        column = replace(column, nullable=False)
    for _, sql in _checks(connection, type_=type_):
        column = apply_conditions(column, conditions_of(sql, "postgres"), f"domain {name}", called="VALUE")
    return replace(column, type_name=name)


def _checks(connection: Any, table: int = 0, type_: int = 0) -> list[tuple[str, str]]:
    """Of a table or of a domain: whichever of the two it is not of is zero in the catalogue."""
    rows = connection.execute(_CHECKS, [table, type_]).fetchall()
    return [
        (name, sql.removesuffix(" NOT VALID").removesuffix(" NO INHERIT").removeprefix("CHECK ")) for name, sql in rows
    ]


def _with_keys(column: ColumnFacts, keys: list[tuple[str, str | None, list[str]]]) -> ColumnFacts:
    for kind, refers_to, names in keys:
        if kind == "p" and only_key(names, column.name):
            column = replace(column, primary=True, unique=True)
        elif kind == "u" and only_key(names, column.name):
            column = replace(column, unique=True)
        elif kind == "f" and only_key(names, column.name):
            column = replace(column, references=refers_to or "")
    return column
