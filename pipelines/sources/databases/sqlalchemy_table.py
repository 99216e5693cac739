"""A table or view of any database that SQLAlchemy knows: MySQL, Snowflake, BigQuery, SQL Server ... by its own driver.

`source.uri: "sql+env://WAREHOUSE_URL"`; the environment variable holds the SQLAlchemy URL, secret and all. The declared
columns are read once, in one statement and so from one state of the table, into memory, and bounded there. Tested on
SQLite and PostgreSQL; for the others only SQLAlchemy's word is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchTableError, SQLAlchemyError

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.base import BATCH_ROWS
from understudy.pipelines.sources.bounding import needed_columns
from understudy.pipelines.sources.memory import ArrowSource

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
FETCH_ROWS = 20_000


@dataclass(frozen=True)
class SqlAlchemySource:
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
        return pa.schema([(column.name, _arrow_type(column.type)) for column in self._reflected.columns])

    def parts(self) -> None:
        return None

    def batches(
        self, columns: Sequence[str], unit: Unit, key: bytes, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        return ArrowSource(self._read(needed_columns(columns, unit))).batches(columns, unit, key, batch_rows)

    def row_estimate(self) -> int | None:
        return None

    def _read(self, columns: Sequence[str]) -> pa.Table:
        table = self._reflected
        absent = [name for name in columns if name not in table.columns]
        if absent:
            raise SpecError(f"the table has no column(s) {', '.join(absent)}", "correct the names in the spec")
        types = [_arrow_type(table.columns[name].type) for name in columns]
        schema = pa.schema(list(zip(columns, types, strict=True)))
        batches = []
        with self._connected() as connection:
            result = connection.execution_options(stream_results=True).execute(
                sa.select(*(table.columns[name] for name in columns))
            )
            while rows := result.fetchmany(FETCH_ROWS):
                arrays = [_array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
                batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema)

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
            engine = sa.create_engine(address, poolclass=sa.NullPool)
            with engine.connect() as connection:
                yield connection
        except (SQLAlchemyError, ArgumentError) as error:
            raise SourceError(
                f"reading {self.table!r} by {self.variable} failed ({type(error).__name__}); the driver's message is "
                "withheld since it may quote values",
                "query the table with the database's own client to see why",
            ) from None
        except ImportError as error:
            raise SourceError(
                f"the driver {getattr(error, 'name', None) or 'that the address names'} is not installed",
                "pip install the database's SQLAlchemy driver",
            ) from None


def _arrow_type(type_: Any) -> pa.DataType:
    if isinstance(type_, sa.Boolean):
        return pa.bool_()
    if isinstance(type_, sa.Integer):
        return pa.int64()
    if isinstance(type_, sa.Float):
        return pa.float64()
    if isinstance(type_, sa.JSON | sa.ARRAY | sa.LargeBinary):
        return pa.list_(pa.string())
    return pa.string()


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Total: a value that is not what the catalogue promised becomes text, or null where the column is no text."""
    if pa.types.is_string(type_):
        return pa.array([None if value is None else _text(value) for value in values], pa.string())
    if pa.types.is_boolean(type_):
        return pa.array([bool(value) if isinstance(value, bool | int) else None for value in values], type_)
    if pa.types.is_integer(type_):
        whole = [v if isinstance(v, int) and -(2**63) <= v < 2**63 else None for v in values]
        return pa.array(whole, type_)
    if pa.types.is_floating(type_):
        return pa.array([float(v) if isinstance(v, int | float) else None for v in values], type_)
    return pa.nulls(len(values), type_)


def _text(value: Any) -> str:
    text = f"{value.normalize():f}" if type(value).__name__ == "Decimal" and value.is_finite() else str(value)
    return text.encode(errors="replace").decode()
