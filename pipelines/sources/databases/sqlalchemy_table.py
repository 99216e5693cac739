"""A table or view of any database that SQLAlchemy knows: MySQL, Snowflake, BigQuery, SQL Server ... by its own driver.

`source.uri: "sql+env://WAREHOUSE_URL"`; the environment variable holds the SQLAlchemy URL, secret and all. SQLite,
MariaDB and MySQL have addresses of their own as well (`sqlite_table`, `mysql_table`). Rows are streamed, never held.
Tested on SQLite, PostgreSQL and MariaDB; for the others only SQLAlchemy's word is known.

One state. Where a transaction shows one (SQLite, PostgreSQL, MariaDB and MySQL on InnoDB) the first look begins it,
and all reads and counts are made in it until the source is closed (`sqlalchemy_held`). Elsewhere each read is one
statement.

No value can make a read fail: neither SQLAlchemy nor the driver is asked to make dates, decimals or enums of what is
stored (`sqlalchemy_values` says what is asked for instead), and what comes is read totally, value by value.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchTableError

from understudy.pipelines.errors import Bare, SourceError, SpecError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.databases.sqlalchemy_held import HELD, HeldTransaction
from understudy.pipelines.sources.databases.sqlalchemy_values import StoredColumn, connect_options, prepared
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec

if TYPE_CHECKING:
    from understudy.pipelines.sources.databases.sqlalchemy_counting import SqlAlchemyCounter

FETCH_ROWS = 20_000


class SqlTable(SourceBase):
    """`table` is `name` or `schema.name`. Names reach SQL quoted, and only if the catalogue lists them."""

    table: str

    @abstractmethod
    def url(self) -> sa.URL:
        """With whatever secret it needs. Never log, store or raise it."""

    @property
    @abstractmethod
    def told(self) -> str:
        """Which database this is, for messages."""

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name, where MariaDB is a MySQL."""
        found = self.url().get_backend_name()
        return "mysql" if found == "mariadb" else found

    def schema(self) -> pa.Schema:
        return pa.schema([StoredColumn(column).field for column in self._reflected.columns])

    def declared_types(self) -> dict[str, str]:
        """The catalogue's types that published columns may keep, as `table.keeping` names them."""
        stored = [StoredColumn(column) for column in self._reflected.columns]
        return {column.name: type_ for column in stored if (type_ := column.kept_type(self.dialect)) is not None}

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        stored = [self.column(name) for name in columns]
        schema = pa.schema([(column.name, column.arrow_type) for column in stored])
        with self.reading() as (connection, encoding):
            named = [column.asked(connection.dialect.name).label(f"c{i}") for i, column in enumerate(stored)]
            streamed = connection.execution_options(stream_results=True)
            result = streamed.execute(sa.select(*named).select_from(self._reflected))
            while rows := result.fetchmany(min(batch_rows, FETCH_ROWS)):
                by_column = list(zip(*rows, strict=True)) or [()] * len(stored)
                arrays = [column.array(values, encoding) for column, values in zip(stored, by_column, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def counter(self) -> SqlAlchemyCounter | None:
        from understudy.pipelines.sources.databases.sqlalchemy_counting import ENGINES, SqlAlchemyCounter

        return SqlAlchemyCounter(self) if self.dialect in ENGINES else None

    def snapshot_id(self) -> str | None:
        if self.dialect not in HELD:
            return None
        with Bare(), self._explained():
            return self._transaction.name

    def close(self) -> None:
        """Ends the transaction. A closed source cannot be read again: it would see other rows."""
        held = self.__dict__.setdefault("_held", None)
        if held is not None:
            held.close()

    def column(self, name: str) -> StoredColumn:
        if name not in self._reflected.columns:
            raise SpecError(f"the table has no column(s) {name}", "correct the names in the spec")
        return StoredColumn(self._reflected.columns[name])

    @property
    def place(self) -> tuple[str, ...]:
        """Schema, if there is one, and name as the catalogue spells them."""
        return tuple(part for part in (self._reflected.schema, str(self._reflected.name)) if part)

    @contextmanager
    def reading(self) -> Iterator[tuple[sa.Connection, str]]:
        """A connection that sees the state of the table that all others see too, and the encoding of its bytes."""
        if self.dialect in HELD:
            with Bare(), self._explained(), self._transaction.in_use() as found:
                yield found
        else:
            with self._connected() as connection:
                yield connection, prepared(connection)

    @property
    def _transaction(self) -> HeldTransaction:
        if self._held is None or not self._held.alive:
            raise SourceError(f"the source {self.table!r} was closed before it was read", "open it again")
        return self._held

    @cached_property
    def _held(self) -> HeldTransaction | None:
        reflected = self._reflected
        return HeldTransaction(self._engine(), reflected)

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

    def _engine(self) -> sa.Engine:
        url = self.url()
        return sa.create_engine(url, poolclass=sa.NullPool, connect_args=connect_options(url))

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        with Bare(), self._explained(), self._engine().connect() as connection:
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Whatever goes wrong within becomes an error without any value or address in it."""
        try:
            yield
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
            f"reading {self.table!r} by {self.told} failed ({kind}); the driver's message is withheld since it may "
            "quote values",
            "query the table with the database's own client to see why",
        )

    def __getstate__(self) -> dict[str, Any]:  # a connection cannot travel, and need not
        return {name: value for name, value in self.__dict__.items() if name not in ("_held", "_reflected")}


@dataclass(frozen=True)
class SqlAlchemySource(SqlTable):
    """`variable` names the environment variable with the address."""

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

    @property
    def told(self) -> str:
        return self.variable

    def url(self) -> sa.URL:
        address = os.environ.get(self.variable)
        if not address:
            raise SourceError(f"the environment variable {self.variable} is not set here", "set it for the worker")
        try:
            return sa.make_url(address)
        except ArgumentError:
            pass
        raise SourceError(f"the environment variable {self.variable} holds no address of SQLAlchemy", "correct it")
