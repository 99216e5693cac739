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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import BATCH_ROWS, SourceBase
from understudy.pipelines.sources.databases.postgresql_connection import (
    DOING,
    TERMS,
    connected,
    database_at,
    located,
    server_of,
)
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec

if TYPE_CHECKING:
    from understudy.pipelines.sources.databases.postgresql_counting import PostgresCounter
from understudy.pipelines.sources.databases.postgresql_columns import PostgresColumn, listed
from understudy.pipelines.sources.databases.postgresql_stream import TABLES, HeldSnapshot, selected, stream_rows

PAGES_A_PART = 8192
_PARTS = 8
_LEAST_PAGES = 512
"""A table is cut in eight parts at least, that all threads have work to the end, unless a part were less than this."""


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
        wanted = [listed(self.columns, name) for name in columns]
        query = sql.SQL("SELECT {} FROM ONLY {} WHERE {}").format(
            selected(wanted), sql.Identifier(self.schema, self.table), pages
        )
        yield from stream_rows(self.database, self.snapshot, query, wanted, batch_rows)


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
        named = {column.name: column.kept_type for column in self._catalogued[3]}
        return {name: type_ for name, type_ in named.items() if type_ is not None}

    def parts(self) -> Sequence[PostgresPart] | None:
        schema, name, kind, columns = self._catalogued
        held = self._snapshot
        pages = held.pages((schema, name, kind))
        if kind not in TABLES or pages is None:
            return None
        size = min(PAGES_A_PART, max(_LEAST_PAGES, -(-pages // _PARTS)))
        starts = range(0, max(1, pages), size)
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
        query = sql.SQL("SELECT {} FROM {}").format(selected(wanted), self.identifier())
        yield from stream_rows(self.database, self._snapshot.snapshot, query, wanted, batch_rows)

    def row_estimate(self) -> int | None:
        with connected(self.database, SourceError, DOING) as connection:
            schema, name = self._catalogued[:2]
            found = connection.execute(
                "SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE relkind = ANY(%s)"
                " AND oid = pg_catalog.format('%%I.%%I', %s::text, %s::text)::regclass",
                [list(TABLES), schema, name],
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
        return listed(self._catalogued[3], name)

    def identifier(self) -> Any:
        """The table's own quoted name, to write into a query for `stream`."""
        from psycopg import sql

        return sql.Identifier(*self.place())

    def place(self) -> tuple[str, str]:
        """Schema and name as the catalogue spells them."""
        return self._catalogued[:2]

    def stream(self, query: Any, columns: Sequence[PostgresColumn]) -> Iterator[pa.RecordBatch]:
        """What a query finds under the snapshot that every other read of this source sees too."""
        return stream_rows(self.database, self._snapshot.snapshot, query, columns, BATCH_ROWS, work_memory="256MB")

    @cached_property
    def _catalogued(self) -> tuple[str, str, str, tuple[PostgresColumn, ...]]:
        with connected(self.database, SourceError, DOING) as connection:
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
                " WHEN coalesce(b.typcategory, t.typcategory) = 'C' THEN 'row'"
                " WHEN coalesce(b.typnamespace, t.typnamespace) <> 'pg_catalog'::regnamespace THEN 'of its own'"
                " ELSE coalesce(b.typname, t.typname) END,"
                " CASE WHEN t.typtype = 'd' THEN pg_catalog.format_type(t.typbasetype, t.typtypmod)"
                " ELSE pg_catalog.format_type(a.atttypid, a.atttypmod) END,"
                " ARRAY(SELECT e.enumlabel::text FROM pg_catalog.pg_enum e"
                " WHERE e.enumtypid IN (t.oid, t.typbasetype) ORDER BY e.enumsortorder)"
                " FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
                " LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype AND t.typbasetype <> 0"
                " WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
                [oid],
            ).fetchall()
        listed = tuple(
            PostgresColumn(str(name_), str(sort), str(declared), tuple(labels))
            for name_, sort, declared, labels in columns
        )
        return schema, name, "inherited" if inherited else kind, listed

    @property
    def _snapshot(self) -> HeldSnapshot:
        if self._held is None or not self._held.close.alive:
            raise SourceError(f"the source {self.table!r} was closed before it was read", "open it again")
        return self._held

    @cached_property
    def _held(self) -> HeldSnapshot | None:
        schema, name, kind, _ = self._catalogued
        return HeldSnapshot(self.database, [(schema, name, kind)])

    @classmethod
    def together(cls, sources: Sequence[PostgresSource]) -> None:
        """Tables of one database are read under one snapshot from now on; each must be open and unread."""
        for database in dict.fromkeys(source.database for source in sources):
            its = [source for source in sources if source.database == database]
            located = [source._catalogued[:3] for source in its]
            held = HeldSnapshot(database, list(dict.fromkeys(located)))
            for source in its:
                source.__dict__["_held"] = held

    def __getstate__(self) -> dict[str, Any]:
        return {"database": self.database, "table": self.table}  # a connection cannot travel, and need not
