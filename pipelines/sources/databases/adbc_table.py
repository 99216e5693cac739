"""A table or view of a warehouse that has an ADBC driver, read straight into Arrow: Snowflake and BigQuery.

`snowflake+env://VARIABLE` and `bigquery+env://VARIABLE` (extras of those names): the variable holds what the driver is
to connect to. **Neither has ever been run against its service.** This class is run in tests on the ADBC driver of
SQLite, what the warehouses are asked is checked as SQL by SQLGlot, and their drivers take the options given here.

No value can make a read fail: whole numbers, floats, truths and texts come as such, and for everything else the
warehouse is asked for text in a format that no setting of an account changes. Names reach SQL quoted, and only if the
catalogue lists them.

One state. The warehouse is asked what time it is before the first read, and every read is of the table as it was then
(time travel): rows that are written, changed or deleted meanwhile take no part. What was dropped for good since, or
cannot be read as of a moment (BigQuery's views), fails and is charged for nothing.

SQLite itself is not read this way (`sqlite_table`): its driver guesses a column's type from the first rows and fails at
a later value of another one, which would tell of that value.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from understudy.pipelines.errors import Bare, SourceError, SpecError, UnderstudyError
from understudy.pipelines.sources.base import BATCH_ROWS, IN_UTC, SourceBase
from understudy.pipelines.sources.databases.group_sql import Sql, column_named, named
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec


@dataclass(frozen=True)
class AdbcTable(SourceBase):
    """`table` is `name` or `schema.name`; `variable` names the environment variable with the address."""

    variable: str
    table: str

    dialect: ClassVar[str]
    """SQLGlot's name."""
    driver: ClassVar[str]
    """The package of the driver."""
    extra: ClassVar[str]

    terms = Terms(table=True, plain=False, hidden_in=frozenset({"env"}))

    @abstractmethod
    def now(self) -> Sql | None:
        """SQL for the warehouse's own time in UTC, as a text to the microsecond; None if it keeps no earlier states."""

    @abstractmethod
    def as_of(self, table: exp.Table, moment: str) -> exp.Table:
        """The table as it was at a moment that `now` told."""

    @abstractmethod
    def options(self, address: str) -> Mapping[str, str]:
        """What the driver is given. Never log, store or raise it."""

    def database(self, options: dict[str, str]) -> Any:
        """The driver's own, with these options."""
        return import_module(self.driver).connect(db_kwargs=options)

    def as_text(self, value: Sql, type_: pa.DataType) -> Sql:
        """SQL for a value that the driver would have as this type, as a text that no setting changes."""
        return exp.Cast(this=value, to=exp.DataType.build("TEXT"))

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> AdbcTable:
        assert source.table is not None
        return cls(source.address.place, source.table)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        place = os.environ.get(address.place, "").strip().rpartition("@")[2]  # whoever reads: the data is the same
        return f"database {cls.dialect} {fingerprint(place.partition('?')[0].lower())}" if place else ""

    def schema(self) -> pa.Schema:
        return pa.schema([_promised(field) for field in self._catalogued])

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        fields = [self._field(name) for name in columns]
        schema = pa.schema([_promised(field) for field in fields]).remove_metadata()
        _ = self._moment
        with Bare(), self._connected() as connection, connection.cursor() as cursor:
            cursor.execute(self.query(columns))
            for batch in cursor.fetch_record_batch():
                arrays = [_cast(held, field.type) for held, field in zip(batch.columns, schema, strict=False)]
                found = pa.RecordBatch.from_arrays(arrays, schema=schema) if columns else batch.select([])
                for start in range(0, batch.num_rows, batch_rows):
                    yield found.slice(start, batch_rows)

    def snapshot_id(self) -> str | None:
        """The moment of which every read is."""
        return self._moment

    def query(self, columns: Sequence[str]) -> str:
        """What the warehouse is asked for these columns."""
        asked = [
            exp.alias_(self._asked(self._field(name)), f"c{place}", quoted=True) for place, name in enumerate(columns)
        ]
        wanted = asked or [exp.alias_(exp.Literal.number(1), "c", quoted=True)]
        schema, _, name = self.table.rpartition(".")
        table = named(schema, name)
        if self._moment is not None:
            table = self.as_of(table, self._moment)
        return exp.select(*wanted).from_(table).sql(self.dialect)

    def _asked(self, field: pa.Field) -> Sql:
        value: Sql = column_named(field.name)
        if _comes_as_it_is(field.type):
            return value
        if pa.types.is_nested(_promised(field).type):
            return exp.Null()
        return self.as_text(value, field.type)

    def _field(self, name: str) -> pa.Field:
        if self._catalogued.get_field_index(name) < 0:
            raise SpecError(f"the table has no column(s) {name}", "correct the names in the spec")
        return self._catalogued.field(name)

    @cached_property
    def _catalogued(self) -> pa.Schema:
        schema, _, name = self.table.rpartition(".")
        with Bare(), self._connected() as connection:
            return connection.adbc_get_table_schema(name, db_schema_filter=schema or None)

    @cached_property
    def _moment(self) -> str | None:
        asked = self.now()
        if asked is None:
            return None
        with Bare(), self._connected() as connection, connection.cursor() as cursor:
            cursor.execute(exp.select(exp.alias_(asked, "moment", quoted=True)).sql(self.dialect))
            return str(cursor.fetchone()[0])

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """A connection of the driver. Whatever goes wrong becomes an error without any value or address in it."""
        address = os.environ.get(self.variable, "").strip()
        if not address:
            raise SourceError(f"the environment variable {self.variable} is not set here", "set it for the worker")
        connection = None
        try:
            from adbc_driver_manager import AdbcConnection, dbapi

            database = self.database(dict(self.options(address)))
            connection = dbapi.Connection(database, AdbcConnection(database))
            yield connection
        except UnderstudyError:
            raise
        except ImportError:
            problem = SourceError(
                f"the driver of {self.dialect} is not installed", f"pip install 'understudy[{self.extra}]'"
            )
        except Exception as error:  # a driver may raise anything, and say in it what it could not read
            doing = "connecting to" if connection is None else f"reading {self.table!r} by"
            problem = SourceError(
                f"{doing} {self.variable} failed ({type(error).__name__}); the driver's message is withheld since it "
                "may quote values",
                "check the address and the table with the warehouse's own client",
            )
        else:
            return
        finally:
            if connection is not None:
                connection.close()
        raise problem


@dataclass(frozen=True)
class SnowflakeSource(AdbcTable):
    """The variable holds `user:password@account/database/schema?warehouse=...`, as Snowflake's Go driver has it."""

    dialect = "snowflake"
    driver = "adbc_driver_snowflake"
    extra = "snowflake"

    def now(self) -> Sql:
        here = exp.CurrentTimestamp()
        in_utc = exp.Anonymous(this="CONVERT_TIMEZONE", expressions=[exp.Literal.string("UTC"), here])
        return _formatted(in_utc, "YYYY-MM-DD HH24:MI:SS.FF6")

    def as_of(self, table: exp.Table, moment: str) -> exp.Table:
        then = exp.HistoricalData(this="AT", kind="TIMESTAMP", expression=_utc(moment))
        return exp.Table(**{**table.args, "when": then})

    def options(self, address: str) -> Mapping[str, str]:
        return {
            "uri": address,
            "adbc.snowflake.sql.client_option.use_high_precision": "true",
            "adbc.snowflake.sql.client_option.disable_telemetry": "true",
            "adbc.snowflake.sql.client_option.app_name": "understudy",
        }

    def as_text(self, value: Sql, type_: pa.DataType) -> Sql:
        if pa.types.is_timestamp(type_):
            if type_.tz is not None:
                value = exp.Anonymous(this="CONVERT_TIMEZONE", expressions=[exp.Literal.string("UTC"), value])
            return _formatted(value, "YYYY-MM-DD HH24:MI:SS.FF6")
        if pa.types.is_date(type_):
            return _formatted(value, "YYYY-MM-DD")
        return exp.Anonymous(this="TO_VARCHAR", expressions=[value])


@dataclass(frozen=True)
class BigQuerySource(AdbcTable):
    """The variable holds `project/dataset`; Google's own default credentials are used."""

    dialect = "bigquery"
    driver = "adbc_driver_bigquery"
    extra = "bigquery"

    def now(self) -> Sql:
        how = exp.Literal.string("%Y-%m-%d %H:%M:%E6S")
        here = exp.CurrentTimestamp()
        return exp.Anonymous(this="FORMAT_TIMESTAMP", expressions=[how, here, exp.Literal.string("UTC")])

    def as_of(self, table: exp.Table, moment: str) -> exp.Table:
        then = exp.Version(this="TIMESTAMP", kind="AS OF", expression=_utc(moment))
        return exp.Table(**{**table.args, "version": then})

    def options(self, address: str) -> Mapping[str, str]:
        project, _, dataset = address.partition("/")
        return {
            "adbc.bigquery.sql.project_id": project,
            "adbc.bigquery.sql.dataset_id": dataset,
            "adbc.bigquery.sql.auth_type": "adbc.bigquery.sql.auth_type.auth_bigquery",
        }

    def as_text(self, value: Sql, type_: pa.DataType) -> Sql:
        if pa.types.is_timestamp(type_):
            zone = [] if type_.tz is None else [exp.Literal.string("UTC")]
            how = exp.Literal.string("%Y-%m-%d %H:%M:%E6S")
            kind = "FORMAT_DATETIME" if type_.tz is None else "FORMAT_TIMESTAMP"
            return exp.Anonymous(this=kind, expressions=[how, value, *zone])
        return super().as_text(value, type_)


def _formatted(value: Sql, how: str) -> Sql:
    return exp.Anonymous(this="TO_VARCHAR", expressions=[value, exp.Literal.string(how)])


def _utc(moment: str) -> Sql:
    return exp.Cast(this=exp.Literal.string(f"{moment} +00:00"), to=exp.DataType.build("TIMESTAMPTZ"))


def _comes_as_it_is(type_: pa.DataType) -> bool:
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
    )
    return any(test(type_) for test in tests)


def _promised(field: pa.Field) -> pa.Field:
    """What a column comes as, whatever the driver would make of it."""
    type_ = field.type
    if pa.types.is_boolean(type_):
        return pa.field(field.name, pa.bool_())
    if pa.types.is_integer(type_):
        return pa.field(field.name, pa.int64())
    if pa.types.is_floating(type_):
        return pa.field(field.name, pa.float64())
    if pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return pa.field(field.name, pa.list_(pa.string()))
    zoned = pa.types.is_timestamp(type_) and type_.tz is not None
    return pa.field(field.name, pa.string(), metadata=IN_UTC if zoned else None)


def _cast(held: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.nulls(len(held), type_) if pa.types.is_nested(type_) else held.cast(type_, safe=False)
