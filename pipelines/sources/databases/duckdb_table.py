"""A table or view of a DuckDB file, opened read-only. Projection runs in the engine.

A read is one statement and so sees one state. That all reads see the same one is checked: the file and its write-ahead
log are pinned when the source is first looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from sqlglot import exp

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.databases.group_sql import DUCKDB, column_named, grouped_sql, named
from understudy.pipelines.sources.databases.grouping import has_few_codes
from understudy.pipelines.sources.pinning import FilePin, changed, state_of
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.keeping import enum_name, type_names

_EXTERNAL = (
    "load what it reads into a table of the database; or, if whoever can change those files may decide what is "
    "measured, allow it with `source.external: true`"
)


@dataclass(frozen=True)
class DuckDBSource(SourceBase):
    """`table` is `name` or `schema.name`. Names reach SQL quoted, and only if the catalogue lists them."""

    path: Path
    table: str
    external: bool = False

    terms = Terms(table=True, local=True, options=frozenset({"external"}))

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> DuckDBSource:
        path = source.address.path(base)
        assert path is not None
        assert source.table is not None
        return cls(path, source.table, source.external)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        path = address.path(base)
        return "" if path is None else f"database {path.resolve()}"

    def schema(self) -> pa.Schema:
        with self.connect() as connection:
            query = f"SELECT * FROM {self.quoted_table(connection)} LIMIT 0"  # noqa: S608  a catalogued name
            return connection.sql(query).to_arrow_table().schema

    def declared_types(self) -> dict[str, str]:
        """The catalogue's types that published columns may keep, as `table.keeping` names them; of an enum its words
        too, which Arrow's schema does not tell. Its moments are in UTC: the zone in the schema is this machine's."""
        zoned = re.compile(r"tz=[^\]]+")
        found = {column: zoned.sub("tz=UTC", type_) for column, type_ in type_names(self.schema()).items()}
        with self.connect() as connection:
            schema, name = self._located(connection)
            enums = connection.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database()"
                " AND schema_name = ? AND table_name = ? AND data_type LIKE 'ENUM(%'",
                [schema, name],
            ).fetchall()
            for column, type_ in enums:
                words = connection.execute(f"SELECT enum_range(NULL::{type_})").fetchone()
                if column in found and words is not None:
                    found[column] = enum_name(words[0])
        return found

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with self.connect() as connection:
            yield from connection.sql(self.query(connection, columns)).to_arrow_reader(batch_rows)

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

    def counter(self) -> DuckDBCounter:
        return DuckDBCounter(self)

    def snapshot_id(self) -> str:
        return state_of(self._pins)

    def query(self, connection: duckdb.DuckDBPyConnection, columns: Sequence[str]) -> str:
        """SQL for the requested columns of every row."""
        table = self.quoted_table(connection)
        self._check_listed(connection, table, columns)
        return f"SELECT {', '.join(quoted(name) for name in columns)} FROM {table}"  # noqa: S608  catalogued names

    def named_table(self, connection: duckdb.DuckDBPyConnection) -> exp.Table:
        return named(*self._located(connection))

    def quoted_table(self, connection: duckdb.DuckDBPyConnection) -> str:
        schema, name = self._located(connection)
        return f"{quoted(schema)}.{quoted(name)}"

    @contextmanager
    def connect(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection; what goes wrong with the file is a SourceError without any value of it."""
        if not self.path.is_file():
            raise SourceError(f"there is no database {self.path}", "check source.uri; relative paths start at the spec")
        try:
            with self._unchanged(), duckdb.connect(self.path, read_only=True) as connection:
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

    @cached_property
    def _pins(self) -> tuple[FilePin, FilePin | None]:
        """The database and, if it has one, its write-ahead log."""
        return FilePin.of(self.path), FilePin.of(self._log) if self._log.exists() else None

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}.wal")

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        database, log = self._pins
        with ExitStack() as stack:
            stack.enter_context(database.unchanged())
            if log is not None:
                stack.enter_context(log.unchanged())
            yield
            if log is None and self._log.exists():
                raise changed(str(self.path))

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


@dataclass(frozen=True)
class DuckDBCounter:
    """Counts in DuckDB: the engine groups raw values; only listed ones, since numbers have too many to group by."""

    source: DuckDBSource

    columns_a_group = 1
    most_columns = 62
    """GROUPING() tells the groups apart in one 64-bit number."""

    def can_group(self, column: DomainColumn) -> bool:
        return has_few_codes(column)

    def coded(self, column: DomainColumn, values: pa.Array) -> np.ndarray:
        return encode_column(values, column)

    def grouped(self, columns: Sequence[DomainColumn], sets: Sequence[Sequence[int]]) -> Iterator[pa.RecordBatch]:
        with self.source.connect() as connection:
            relation = connection.sql(self.source.query(connection, [column.name for column in columns]))
            texts = {
                name for name, type_ in zip(relation.columns, relation.types, strict=True) if str(type_) == "VARCHAR"
            }
            values = [column_named(column.name) for column in columns]
            exact = [
                DUCKDB.exactly(value) if column.name in texts else value
                for value, column in zip(values, columns, strict=True)
            ]
            query = grouped_sql(DUCKDB, self.source.named_table(connection), exact, sets)
            yield from connection.sql(query).to_arrow_reader(1 << 16)


def quoted(name: str) -> str:
    """An identifier that SQL reads as one name whatever it contains."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
