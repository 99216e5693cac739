"""A table or view of a PostgreSQL database, read under one exported snapshot by COPY straight into Arrow.

One snapshot. The first read opens a read-only transaction, locks the table against being rewritten (ACCESS SHARE,
which conflicts with CLUSTER, VACUUM FULL, TRUNCATE and ALTER TABLE alone), then exports its snapshot and counts the
pages; every later read, also in another process, imports the snapshot. So all reads see the same rows on the same
pages, whoever writes to the table meanwhile, until the source is closed: then transaction, snapshot and lock end. The
lock comes first: rows that TRUNCATE or a rewrite took away are lost
to older snapshots too. Somebody who waits to rewrite the table makes further reads wait; after LOCK_TIMEOUT they
fail, and nothing is spent.

A table is read in ranges of pages; a view (or a partitioned or foreign table) has none and is one stream.

Names reach SQL quoted, and only if the catalogue lists them. Values are read as text except whole numbers, floats and
booleans, so that no value, however odd (infinite dates, years BC), can make a read fail; and in the bytes of the
database's own encoding, so that no character can lack a counterpart in another.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, IN_UTC, SourceBase
from understudy.pipelines.sources.databases.postgresql_connection import (
    TERMS,
    connected,
    database_at,
    explained,
    located,
    open_connection,
    python_encoding,
    server_of,
)
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.model import ReleaseSpec, SourceSpec

if TYPE_CHECKING:
    from understudy.pipelines.sources.databases.postgresql_counting import PostgresCounter

PAGES_A_PART = 8192
BLOCK_BYTES = 4 << 20
LOCK_TIMEOUT = "60s"
_TABLES = ("r", "m")
_LOCKABLE = ("r", "v", "p", "inherited")
_DOING = "reading the table"


@dataclass(frozen=True)
class PostgresColumn:
    """`kind` is the catalogue's type, or one of the words array and row; `declared` is how a person would write it."""

    name: str
    kind: str
    declared: str = ""

    @property
    def arrow_type(self) -> pa.DataType:
        match self.kind:
            case "bool":
                return pa.bool_()
            case "int2" | "int4" | "int8":
                return pa.int64()
            case "float4" | "float8":
                return pa.float64()
            case "array":
                return pa.list_(pa.string())
            case "row":
                return pa.struct([("value", pa.string())])
            case _:
                return pa.string()

    @property
    def field(self) -> pa.Field:
        return pa.field(self.name, self.arrow_type, metadata=IN_UTC if self.kind == "timestamptz" else None)

    def expression(self) -> Any:
        from psycopg import sql

        column = sql.Identifier(self.name)
        match self.kind:
            case "bool" | "int2" | "int4" | "int8" | "float4" | "float8":
                return column
            case "numeric":  # 1.0 and 1.00 are one number, and may be one entity's key
                return sql.SQL("pg_catalog.trim_scale({})::text").format(column)
            case "money":
                return sql.SQL("{}::numeric::text").format(column)
            case "timestamptz":
                return sql.SQL("({} AT TIME ZONE 'UTC')::text").format(column)
            case _:
                return sql.SQL("{}::text").format(column)


_KEPT = {
    "smallint": "int16", "integer": "int32", "bigint": "int64", "real": "float", "double precision": "double",
    "boolean": "bool", "date": "date32[day]", "text": "string", "enum": "enum",
}  # fmt: skip


def kept_name(declared: str) -> str | None:
    """What `table.keeping` calls a type of PostgreSQL's catalogue, if it can be kept."""
    if declared in _KEPT:
        return _KEPT[declared]
    if (decimal := re.fullmatch(r"numeric\((\d+),(\d+)\)", declared)) is not None:
        return f"decimal128({decimal.group(1)}, {decimal.group(2)})"
    if (text := re.fullmatch(r"character( varying)?\((\d+)\)", declared)) is not None:
        return f"{'varchar' if text.group(1) else 'char'}({text.group(2)})"
    if (moment := re.fullmatch(r"timestamp(?:\(\d\))? with(out)? time zone", declared)) is not None:
        return "timestamp[us]" if moment.group(1) else "timestamp[us, tz=UTC]"
    return None


@dataclass(frozen=True)
class PostgresPart:
    """Rows of a table on pages from `first` up to `end` (None: to the last one), as a snapshot shows them."""

    database: Address
    schema: str
    table: str
    columns: tuple[PostgresColumn, ...]
    first: int
    end: int | None
    snapshot: str

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        from psycopg import sql

        pages = sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({int(self.first)},0)"))
        if self.end is not None:
            pages += sql.SQL(" AND ctid < {}::tid").format(sql.Literal(f"({int(self.end)},0)"))
        wanted = [_listed(self.columns, name) for name in columns]
        query = sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(
            sql.SQL(", ").join(column.expression() for column in wanted), sql.Identifier(self.schema, self.table), pages
        )
        yield from _stream(self.database, self.snapshot, query, wanted, batch_rows)


@dataclass(frozen=True)
class PostgresSource(SourceBase):
    """`table` is `name`, found on the search path, or `schema.name`."""

    database: Address
    table: str

    terms = TERMS

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> PostgresSource:
        assert source.table is not None
        return cls(database_at(source.address), source.table)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        return server_of(address)

    def schema(self) -> pa.Schema:
        return pa.schema([column.field for column in self._catalogued[3]])

    def declared_types(self) -> dict[str, str]:
        """The catalogue's types that published columns may keep, as `table.keeping` names them."""
        named = {column.name: kept_name(column.declared) for column in self._catalogued[3]}
        return {name: type_ for name, type_ in named.items() if type_ is not None}

    def parts(self) -> Sequence[PostgresPart] | None:
        schema, name, kind, columns = self._catalogued
        held = self._snapshot
        if kind not in _TABLES or held.pages is None:
            return None
        starts = range(0, max(1, held.pages), PAGES_A_PART)
        ends = [*starts[1:], None]
        return [
            PostgresPart(self.database, schema, name, columns, first, end, held.snapshot)
            for first, end in zip(starts, ends, strict=True)
        ]

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        from psycopg import sql

        parts = self.parts()
        if parts is not None:
            for part in parts:
                yield from part.read(columns, batch_rows)
            return
        wanted = [self.column(name) for name in columns]
        selected = sql.SQL(", ").join(column.expression() for column in wanted)
        query = sql.SQL("SELECT {} FROM {}").format(selected, self.identifier())
        yield from _stream(self.database, self._snapshot.snapshot, query, wanted, batch_rows)

    def row_estimate(self) -> int | None:
        with connected(self.database, SourceError, _DOING) as connection:
            schema, name = self._catalogued[:2]
            found = connection.execute(
                "SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE relkind = ANY(%s)"
                " AND oid = pg_catalog.format('%%I.%%I', %s::text, %s::text)::regclass",
                [list(_TABLES), schema, name],
            ).fetchone()
        return int(found[0]) if found and found[0] >= 0 else None

    def counter(self) -> PostgresCounter:
        from understudy.pipelines.sources.databases.postgresql_counting import PostgresCounter

        return PostgresCounter(self)

    def snapshot_id(self) -> str:
        return self._snapshot.snapshot

    def close(self) -> None:
        """Ends the snapshot and its lock. A closed source cannot be read again: it would see other rows."""
        held = self.__dict__.setdefault("_held", None)
        if held is not None:
            held.close()

    def column(self, name: str) -> PostgresColumn:
        return _listed(self._catalogued[3], name)

    def identifier(self) -> Any:
        """The table's own quoted name, to write into a query for `stream`."""
        from psycopg import sql

        return sql.Identifier(*self._catalogued[:2])

    def stream(self, query: Any, columns: Sequence[PostgresColumn]) -> Iterator[pa.RecordBatch]:
        """What a query finds under the snapshot that every other read of this source sees too."""
        return _stream(self.database, self._snapshot.snapshot, query, columns, BATCH_ROWS, work_memory="256MB")

    @cached_property
    def _catalogued(self) -> tuple[str, str, str, tuple[PostgresColumn, ...]]:
        with connected(self.database, SourceError, _DOING) as connection:
            found = located(connection, self.table)
            if found is None:
                raise SpecError(
                    f"{self.database} has no table or view {self.table!r} that this role can see",
                    "correct source.table (schema.name, spelled as in the catalogue), or grant USAGE and SELECT",
                )
            schema, name, kind, oid = found
            inherited = connection.execute(
                "SELECT relhassubclass FROM pg_catalog.pg_class WHERE oid = %s", [oid]
            ).fetchone()[0]
            columns = connection.execute(
                "SELECT a.attname, CASE WHEN coalesce(b.typcategory, t.typcategory) = 'A' THEN 'array'"
                " WHEN coalesce(b.typcategory, t.typcategory) = 'C' THEN 'row' ELSE coalesce(b.typname, t.typname) END,"
                " CASE WHEN t.typtype = 'e' THEN 'enum' ELSE pg_catalog.format_type(a.atttypid, a.atttypmod) END"
                " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
                " LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype AND t.typbasetype <> 0"
                " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
                [oid],
            ).fetchall()
        listed = tuple(PostgresColumn(*(str(each) for each in column)) for column in columns)
        return schema, name, "inherited" if inherited else kind, listed

    @property
    def _snapshot(self) -> _HeldSnapshot:
        if self._held is None or not self._held.close.alive:
            raise SourceError(f"the source {self.table!r} was closed before it was read", "open it again")
        return self._held

    @cached_property
    def _held(self) -> _HeldSnapshot | None:
        schema, name, kind, _ = self._catalogued
        return _HeldSnapshot(self.database, schema, name, kind)

    def __getstate__(self) -> dict[str, Any]:
        return {"database": self.database, "table": self.table}  # a connection cannot travel, and need not


class _HeldSnapshot:
    """Keeps a read-only transaction open so that others may read what it sees, until it is closed."""

    def __init__(self, database: Address, schema: str, table: str, kind: str) -> None:
        import psycopg

        connection = None
        try:
            connection = open_connection(database)
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            connection.execute(_lock(schema, table, kind))
            self.snapshot = str(connection.execute("SELECT pg_catalog.pg_export_snapshot()").fetchone()[0])
            self.pages: int | None = None
            if kind in _TABLES:  # asked after the snapshot was taken: it can only see rows on pages that exist by now
                size = "SELECT pg_catalog.pg_relation_size(pg_catalog.format('%%I.%%I', %s::text, %s::text)::regclass)"
                bytes_ = int(connection.execute(size, [schema, table]).fetchone()[0])
                page = int(connection.execute("SHOW block_size").fetchone()[0])
                self.pages = -(-bytes_ // page)
        except psycopg.Error as problem:
            if connection is not None:
                connection.close()
            raise explained(problem, database, SourceError, _DOING, connection is None) from None
        self.close = weakref.finalize(self, connection.close)


def _lock(schema: str, table: str, kind: str) -> Any:
    """Keeps the table from being rewritten until the transaction ends.

    LOCK TABLE takes no snapshot, so it can come first; for the kinds it does not know a SELECT takes the same lock,
    and the snapshot with it.
    """
    from psycopg import sql

    lock = "LOCK TABLE {} IN ACCESS SHARE MODE" if kind in _LOCKABLE else "SELECT FROM {} LIMIT 0"
    return sql.SQL(lock).format(sql.Identifier(schema, table))


def _listed(columns: Sequence[PostgresColumn], name: str) -> PostgresColumn:
    for column in columns:
        if column.name == name:
            return column
    raise SpecError(f"the table has no column(s) {name}", "correct the names in the spec")


def _stream(
    database: Address,
    snapshot: str,
    query: Any,
    columns: Sequence[PostgresColumn],
    batch_rows: int,
    work_memory: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The query's rows, under the snapshot, as batches with the columns' own names."""
    import psycopg
    from psycopg import sql

    with connected(database, SourceError, _DOING) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_TIMEOUT)))
        if work_memory is not None:  # so that all groups are hashed: there are few, but the planner cannot know
            connection.execute(sql.SQL("SET LOCAL work_mem = {}").format(sql.Literal(work_memory)))
        encoding = connection.info.parameter_status("server_encoding") or "UTF8"
        with (
            connection.cursor() as cursor,
            cursor.copy(
                sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, ENCODING {})").format(query, sql.Literal(encoding))
            ) as copy,
        ):
            block, size = [], 0
            for row in copy:
                block.append(bytes(row))
                size += len(row)
                if size >= BLOCK_BYTES:
                    yield from _parsed(b"".join(block), columns, batch_rows, encoding)
                    block, size = [], 0
            if block:
                yield from _parsed(b"".join(block), columns, batch_rows, encoding)


def _parsed(
    text: bytes, columns: Sequence[PostgresColumn], batch_rows: int, encoding: str = "UTF8"
) -> Iterator[pa.RecordBatch]:
    # Columns are numbered while they are parsed: two requested columns never share a position, whatever their names.
    positions = [f"c{i}" for i in range(len(columns))]
    types = [column.arrow_type if not pa.types.is_nested(column.arrow_type) else pa.string() for column in columns]
    table = pyarrow.csv.read_csv(
        pa.BufferReader(b"\n" + text),  # lest Arrow takes a byte order mark off the first value of any block
        pyarrow.csv.ReadOptions(column_names=positions, block_size=len(text) + 2, use_threads=False, skip_rows=1),
        pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pyarrow.csv.ConvertOptions(
            check_utf8=False,
            column_types=dict(zip(positions, types, strict=True)),
            null_values=[""],
            true_values=["t"],
            false_values=["f"],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,  # COPY writes null bare and the empty text in quotes
        ),
    )
    if (
        encoding != "UTF8"
    ):  # every encoding a server may have keeps ASCII as it is, so quotes and commas were told apart
        texts = [i for i, type_ in enumerate(types) if pa.types.is_string(type_)]
        for i in texts:
            table = table.set_column(i, positions[i], _decoded(table.column(i), python_encoding(encoding)))
    yield from table.rename_columns([column.name for column in columns]).to_batches(batch_rows)


def _decoded(texts: pa.ChunkedArray, encoding: str) -> pa.ChunkedArray:
    """Text of the server's encoding as UTF-8, value by value; bytes that stand for no character are replaced."""
    raw = texts.cast(pa.binary()).to_pylist()
    return pa.chunked_array([pa.array([v if v is None else v.decode(encoding, "replace") for v in raw], pa.string())])
