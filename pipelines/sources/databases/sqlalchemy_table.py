"""A table or view of any database that SQLAlchemy knows: MySQL, Snowflake, BigQuery, SQL Server ... by its own driver.

`source.uri: "sql+env://WAREHOUSE_URL"`; the environment variable holds the SQLAlchemy URL, secret and all. The declared
columns are read in one statement and so from one state of the table. Tested on SQLite, PostgreSQL and (by hand)
MariaDB; for the others only SQLAlchemy's word is known.

No value can make a read fail: neither SQLAlchemy nor the driver is asked to make dates, decimals or enums of what is
stored (`sqlalchemy_values` says what is asked for instead), and what comes is read totally, value by value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import NoSuchTableError

from understudy.pipelines.errors import SourceError, SpecError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS, OneStream
from understudy.pipelines.sources.databases.sqlalchemy_values import StoredColumn, connect_options, prepared

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
FETCH_ROWS = 20_000


@dataclass(frozen=True)
class SqlAlchemySource(OneStream):
    """`variable` names the environment variable with the address; `table` is `name` or `schema.name`."""

    variable: str
    table: str

    @classmethod
    def named(cls, variable: str, table: str | None) -> SqlAlchemySource:
        if not _VARIABLE.fullmatch(variable):
            raise SpecError("source.uri is not of the form sql+env://VARIABLE", "name an environment variable")
        if table is None:
            raise SpecError("a database source needs a table", "name it as source.table")
        return cls(variable, table)

    def schema(self) -> pa.Schema:
        return pa.schema([(column.name, StoredColumn(column).arrow_type) for column in self._reflected.columns])

    def row_estimate(self) -> int | None:
        return None

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
