"""What the catalogue of a DuckDB file says about a table or view. Zone maps tell of rows and are not looked at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb

from understudy.pipelines.drafting.conditions import with_checks
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts, only_key
from understudy.pipelines.drafting.sql_types import typed
from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource

_COLUMNS = """
SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = ? AND table_name = ? ORDER BY column_index
"""
_CONSTRAINTS = """
SELECT constraint_type, expression, constraint_column_names, referenced_table FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = ? AND table_name = ?
"""
_COMMENT = """
SELECT comment FROM duckdb_tables() WHERE database_name = current_database() AND schema_name = ? AND table_name = ?
"""


def duckdb_facts(path: Path, uri: str, table: str | None) -> TableFacts:
    source = DuckDBSource(path, table or "")
    with source.connect() as connection:
        schema, name = _located(connection, path, table)
        rows = connection.execute(_COLUMNS, [schema, name]).fetchall()
        constraints = connection.execute(_CONSTRAINTS, [schema, name]).fetchall()
        comment = connection.execute(_COMMENT, [schema, name]).fetchone()
    columns = []
    for column_name, type_, nullable, said in rows:
        column = typed(ColumnFacts(column_name, nullable=bool(nullable), comment=said or ""), type_, "duckdb")
        for kind, _, names, refers_to in constraints:
            if only_key(names, column_name):
                column = _with_key(column, kind, refers_to)
        columns.append(column)
    named = name if schema == "main" else f"{schema}.{name}"
    origin = f"the catalogue of {path.name}, {named}"
    facts = TableFacts(tuple(columns), origin, uri, named, (comment and comment[0]) or "")
    checks = [("", expression) for kind, expression, *_ in constraints if kind == "CHECK" and expression]
    return with_checks(facts, checks, "duckdb")


def _with_key(column: ColumnFacts, kind: str, refers_to: str | None) -> ColumnFacts:
    match kind:
        case "PRIMARY KEY":
            return replace(column, primary=True, unique=True)
        case "UNIQUE":
            return replace(column, unique=True)
        case "FOREIGN KEY":
            return replace(column, references=refers_to or "")
    return column


def _located(connection: duckdb.DuckDBPyConnection, path: Path, table: str | None) -> tuple[str, str]:
    listed = connection.execute(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = current_database()"
        " ORDER BY table_schema <> 'main', table_schema, table_name"
    ).fetchall()
    wanted = (table or "").lower()
    fitting = [
        (str(schema), str(name))
        for schema, name in listed
        if table is None or wanted in (name.lower(), f"{schema}.{name}".lower())
    ]
    if len(fitting) == 1 or (fitting and table is not None):
        return fitting[0]
    names = ", ".join(name if schema == "main" else f"{schema}.{name}" for schema, name in listed[:20]) or "none"
    problem = f"{path} has no table or view {table!r}" if table else f"which table of {path} is meant?"
    raise SpecError(
        f"{problem} It has: {names}" if not table else f"{problem} (it has: {names})", "name one as --table"
    )
