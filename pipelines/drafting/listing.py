"""The tables that a database's catalogue lists. No row is read, and no table is named in a statement."""

from __future__ import annotations

import os
from pathlib import Path

import sqlalchemy as sa

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.spec.address import Address


def tables_at(uri: str) -> list[str]:
    """Base tables, by the names that `--table` takes; `uri` is relative to the working directory."""
    address = Address.parse(uri, "the source")
    path = address.path(Path())
    if address.kind == "duckdb" or (path is not None and path.suffix.lower() in (".duckdb", ".ddb")):
        assert path is not None
        return _duckdb(path)
    if address.kind == "postgresql":
        return _postgresql(address)
    if address.kind == "sqlite" and path is not None:
        return _sqlalchemy(f"sqlite:///{path.resolve()}")
    if address.kind == "sql" and address.hidden_in == "env":
        return _sqlalchemy(os.environ.get(address.place, "").strip())
    raise SpecError(
        "foreign keys are followed in a DuckDB file, a PostgreSQL or SQLite database, or by sql+env://VARIABLE",
        "draft one table without --root, and write `tables` by hand (docs/spec.md)",
    )


def _duckdb(path: Path) -> list[str]:
    from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource

    with DuckDBSource(path, "").connect() as connection:
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = current_database()"
            " ORDER BY schema_name <> 'main', schema_name, table_name"
        ).fetchall()
    return [name if schema == "main" else f"{schema}.{name}" for schema, name in found]


def _postgresql(address: Address) -> list[str]:
    from understudy.pipelines.sources.databases.postgresql_connection import connected, database_at

    with connected(database_at(address), SourceError, "reading the catalogue") as connection:
        found = connection.execute(
            "SELECT c.relname::text FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'p')"
            " AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace NOT IN"
            " ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY c.relname"
        ).fetchall()
    return [str(name) for (name,) in found]


def _sqlalchemy(url: str) -> list[str]:
    try:
        return sorted(sa.inspect(sa.create_engine(url, poolclass=sa.NullPool)).get_table_names())
    except Exception as error:  # a driver may raise anything, and quote the address in it
        kind = type(error).__name__
    raise SourceError(f"the catalogue of the database cannot be read ({kind})", "check the address and the rights")
