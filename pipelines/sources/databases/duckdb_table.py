"""A table or view of a DuckDB file, opened read-only. Projection and the cap on rows an entity run in the
engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS

_EXTERNAL = (
    "load what it reads into a table of the database; or, if whoever can change those files may decide what is "
    "measured, allow it with `source.external: true`"
)


@dataclass(frozen=True)
class DuckDBSource:
    """`table` is `name` or `schema.name`. Names reach SQL quoted, and only if the catalogue lists them."""

    path: Path
    table: str
    external: bool = False

    def schema(self) -> pa.Schema:
        with self.connect() as connection:
            query = f"SELECT * FROM {self.quoted_table(connection)} LIMIT 0"  # noqa: S608  a catalogued name
            return connection.sql(query).to_arrow_table().schema

    def parts(self) -> None:
        return None

    def batches(
        self, columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        with self.connect() as connection:
            reader = connection.sql(self.bounded_query(connection, columns, unit, key)).to_arrow_reader(batch_rows)
            yield from reader

    def row_estimate(self) -> int | None:
        """The catalogue's figure for a table; a view has none."""
        with self.connect() as connection:
            schema, name = self._located(connection)
            found = connection.execute(
                "SELECT estimated_size FROM duckdb_tables() WHERE database_name = current_database()"
                " AND schema_name = ? AND table_name = ?",
                [schema, name],
            ).fetchone()
        return int(found[0]) if found else None

    def bounded_query(
        self, connection: duckdb.DuckDBPyConnection, columns: Sequence[str], unit: Unit, key: bytes
    ) -> str:
        """SQL for the requested columns of at most `unit.max_rows` rows an entity.

        Rows are ranked by MD5 of the key and their requested values, each written with its length so that no
        two different rows are written alike; rows that tie are equal, so the engine's order does not matter.
        """
        table = self.quoted_table(connection)
        self._check_listed(connection, table, [*columns, *([unit.entity] if unit.entity else [])])
        wanted = ", ".join(quoted(name) for name in columns)
        if unit.entity is None:
            return f"SELECT {wanted} FROM {table}"  # noqa: S608  quoted, catalogued names
        secret = hashlib.blake2b(b"rows", key=hashlib.sha256(key).digest(), digest_size=16).hexdigest()
        written = [
            f"coalesce(strlen(CAST({name} AS VARCHAR)) || ':' || CAST({name} AS VARCHAR), '-')"
            for name in map(quoted, columns)
        ]
        rank = f"md5_number('{secret}' || {' || '.join(written)})"
        entity = quoted(unit.entity)
        return (
            f"SELECT {wanted} FROM {table} WHERE {entity} IS NOT NULL"  # noqa: S608  quoted, catalogued names
            f" QUALIFY row_number() OVER (PARTITION BY {entity} ORDER BY {rank}) <= {int(unit.max_rows)}"
        )

    def quoted_table(self, connection: duckdb.DuckDBPyConnection) -> str:
        schema, name = self._located(connection)
        return f"{quoted(schema)}.{quoted(name)}"

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection; what goes wrong with the file is a SourceError without any value of it."""
        if not self.path.is_file():
            raise SourceError(f"there is no database {self.path}", "check source.uri; relative paths start at the spec")
        try:
            with duckdb.connect(self.path, read_only=True) as connection:
                connection.execute("SET enable_progress_bar = false")
                if not self.external:  # for every connection of this process to the file, and never to be taken back
                    connection.execute("SET enable_external_access = false")
                yield connection
        except (duckdb.Error, pa.ArrowException) as error:
            text = str(error).lower()
            if isinstance(error, duckdb.PermissionException) and not self.external:
                problem = f"the view {self.table!r} of {self.path} reads files or other databases"
                raise SpecError(problem, _EXTERNAL) from None
            if "set lock" in text or "different configuration" in text:  # a corrupt one speaks of blocks
                problem = f"the database {self.path} is locked by a process that writes to it"
                raise SourceError(problem, "run the release when the writer has closed it") from None
            if isinstance(error, duckdb.IOException | duckdb.SerializationException | duckdb.FatalException):
                raise SourceError(f"{self.path} is not a readable DuckDB database", "restore the file") from None
            problem = f"DuckDB could not read table {self.table!r} of {self.path} ({type(error).__name__})"
            raise SourceError(problem, "query the table with DuckDB itself to see why") from None

    def _located(self, connection: duckdb.DuckDBPyConnection) -> tuple[str, str]:
        """Schema and name as the catalogue spells them."""
        listed = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables"
            " WHERE table_catalog = current_database()"
            " ORDER BY table_schema <> 'main', table_schema, table_name"
        ).fetchall()
        wanted = self.table.lower()
        for schema, name in listed:
            if wanted in (name.lower(), f"{schema}.{name}".lower()):
                return str(schema), str(name)
        some = ", ".join(f"{schema}.{name}" for schema, name in listed[:10]) or "none"
        raise SpecError(f"{self.path} has no table or view {self.table!r} (it has: {some})", "correct source.table")

    def _check_listed(self, connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[str]) -> None:
        existing = set(connection.sql(f"SELECT * FROM {table} LIMIT 0").columns)  # noqa: S608
        absent = [name for name in columns if name not in existing]
        if absent:
            raise SpecError(f"the table has no column(s) {', '.join(absent)}", "correct the names in the spec")


def quoted(name: str) -> str:
    """An identifier that SQL reads as one name whatever it contains."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
