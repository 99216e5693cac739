"""A table or view of any database that SQLAlchemy knows: MySQL, Snowflake, BigQuery, SQL Server ... by its own driver.

`source.uri: "sql+env://WAREHOUSE_URL"`; the environment variable holds the SQLAlchemy URL, secret and all. The declared
columns are read in one statement and so from one state of the table. Tested on SQLite, PostgreSQL and (by hand)
MariaDB; for the others only SQLAlchemy's word is known.

No value can make a read fail: neither SQLAlchemy nor the driver is asked to make dates, decimals or enums of what is
stored (`sqlalchemy_values` says what is asked for instead), and what comes is read totally, value by value.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchTableError

from understudy.pipelines.errors import SourceError, SpecError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.databases.sqlalchemy_values import StoredColumn, connect_options, prepared
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec

FETCH_ROWS = 20_000


@dataclass(frozen=True)
class SqlAlchemySource(SourceBase):
    """`variable` names the environment variable with the address; `table` is `name` or `schema.name`."""

    variable: str
    table: str

    terms = Terms(table=True, plain=False, hidden_in=frozenset({"env"}))

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> SqlAlchemySource:
        assert source.table is not None
        return cls(source.address.place, source.table)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        try:
            url = sa.make_url(os.environ.get(address.place, "").strip())
        except ArgumentError:
            return ""
        kind, database = url.get_backend_name(), url.database or ""
        if kind in ("sqlite", "duckdb") and database not in ("", ":memory:"):
            database = str(Path(database).resolve())
        host = (url.host or "").lower()
        return f"database {kind} {fingerprint(f'{host}:{url.port or str()}/{database}')}"

    def schema(self) -> pa.Schema:
        return pa.schema([StoredColumn(column).field for column in self._reflected.columns])

    def declared_types(self) -> dict[str, str]:
        """The catalogue's types that published columns may keep, as `table.keeping` names them."""
        stored = [StoredColumn(column) for column in self._reflected.columns]
        dialect = sa.make_url(os.environ[self.variable]).get_backend_name()  # which was there to reflect the columns
        return {column.name: type_ for column in stored if (type_ := column.kept_type(dialect)) is not None}

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        table = self._reflected
        absent = [name for name in columns if name not in table.columns]
        if absent:
            raise SpecError(f"the table has no column(s) {', '.join(absent)}", "correct the names in the spec")
        stored = [StoredColumn(table.columns[name]) for name in columns]
        schema = pa.schema([(column.name, column.arrow_type) for column in stored])
        with self._connected() as connection:
            encoding = prepared(connection)
            named = [column.asked(connection.dialect.name).label(f"c{i}") for i, column in enumerate(stored)]
            streamed = connection.execution_options(stream_results=True)
            result = streamed.execute(sa.select(*named).select_from(table))
            while rows := result.fetchmany(min(batch_rows, FETCH_ROWS)):
                arrays = [column.array([row[i] for row in rows], encoding) for i, column in enumerate(stored)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    @cached_property
    def _reflected(self) -> sa.Table:
        """The table as the catalogue describes it: names reach SQL only from there, quoted by SQLAlchemy."""
        schema, _, name = self.table.rpartition(".")
        with self._connected() as connection:
            try:
                return sa.Table(name, sa.MetaData(), schema=schema or None, autoload_with=connection, resolve_fks=False)
            except NoSuchTableError:
                raise SpecError(
                    f"the database has no table or view {self.table!r}", "correct source.table (name or schema.name)"
                ) from None

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        address = os.environ.get(self.variable)
        if not address:
            raise SourceError(f"the environment variable {self.variable} is not set here", "set it for the worker")
        try:
            engine = sa.create_engine(address, poolclass=sa.NullPool, connect_args=connect_options(address))
            with engine.connect() as connection:
                yield connection
        except UnderstudyError:
            raise
        except ImportError as error:
            raise SourceError(
                f"the driver {getattr(error, 'name', None) or 'that the address names'} is not installed",
                "pip install the database's SQLAlchemy driver",
            ) from None
        except Exception as error:  # a driver may raise anything, and say in it what it could not read
            kind = type(error).__name__
        else:
            return
        raise SourceError(
            f"reading {self.table!r} by {self.variable} failed ({kind}); the driver's message is withheld since it may "
            "quote values",
            "query the table with the database's own client to see why",
        )
