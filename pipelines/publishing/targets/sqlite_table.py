"""Publishing into a SQLite table: loaded beside the old one and swapped in the transaction that records the manifest.

Readers see the old table until COMMIT and the new one after it, and so does whoever opens the file after a crash; of
several tables that are one release they see all old or all new ones. A table that Understudy did not publish is never
replaced. Truths are stored as 0 and 1, days and moments as ISO text.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.estimates import estimates_of
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, table_names
from understudy.pipelines.publishing.targets.database_target import DatabaseTarget, Recorded
from understudy.pipelines.publishing.targets.published_tables import FILES, RELEASES, file_of, listed, read_manifest
from understudy.pipelines.publishing.targets.sql_rows import blocks_of, bytes_of, rows_as_table
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

_RECORDS = (
    f"CREATE TABLE IF NOT EXISTS {RELEASES} (name TEXT NOT NULL, release_id TEXT NOT NULL, table_name TEXT NOT NULL,"
    " current INTEGER NOT NULL, manifest TEXT NOT NULL, card TEXT NOT NULL, envelope TEXT,"
    " PRIMARY KEY (name, release_id, table_name))",
    f"CREATE TABLE IF NOT EXISTS {FILES} (name TEXT NOT NULL, release_id TEXT NOT NULL, table_name TEXT NOT NULL,"
    " path TEXT NOT NULL, content BLOB NOT NULL, PRIMARY KEY (name, release_id, table_name, path))",
)
_TYPES = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_integer, "INTEGER"),
    (pa.types.is_floating, "REAL"),
    (pa.types.is_decimal, "NUMERIC"),
    (pa.types.is_date, "DATE"),
    (pa.types.is_timestamp, "DATETIME"),
)
_WAIT_SECONDS = 20


class SqliteTarget(DatabaseTarget[sqlite3.Connection]):
    terms = Terms(table=True, local=True)
    holds_tensors = False

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

    @property
    def where(self) -> str:
        return str(self.path)

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> SqliteTarget:
        path = publish.address.path(base)
        if path is None or publish.table is None:
            raise SpecError("publish.to names no SQLite file", "use sqlite:///file.db and name publish.table")
        return cls(path, publish.table)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        path = address.path(Path())
        held = None if path is None or address.table is None else cls(path, address.table).held()
        return None if held is None else held.release

    def ready_for(self, name: str, tables: tuple[str, ...]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._refuse_foreign(connection, self._shown(connection), tables)
            connection.execute(f"CREATE TABLE {_quoted(self.table + '__probe')} (probe INTEGER)")
            connection.execute("ROLLBACK")

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")  # one publication into a file at a time
            if (published := self._recover(connection, manifest.name, manifest.release_id)) is not None:
                return published
            shown, tables = self._shown(connection), self._of(manifest)
            self._refuse_foreign(connection, shown, table_names(manifest))
            for statement in _RECORDS:
                connection.execute(statement)
            for table, rows in zip(tables, release.tables.values(), strict=True):
                _load(connection, f"{table}__staged", rows)
            fault_point("publish_staged")
            files = [self._file(connection, f"{table}__staged", table) for table in tables]
            estimates = self._replace_estimates(connection, release, shown)
            manifest = manifest.model_copy(update={"files": (*files, *estimates, *listed(release.papers))})
            for table in self._of(shown):
                connection.execute(f"DROP TABLE IF EXISTS {_quoted(table)}")
            for table in tables:
                _swap(connection, table, f"{table}__staged")
            text = manifest.model_dump_json()
            self._record(connection, manifest, text, release)
            fault_point("publish_before_pointer")
            connection.execute("COMMIT")
        return self._published(manifest, text, current=True)

    def _record(self, connection: sqlite3.Connection, manifest: Manifest, text: str, release: PreparedRelease) -> None:
        key, envelope = [manifest.name, manifest.release_id, self.table], attest(manifest, text, release.key)
        connection.execute(f"UPDATE {RELEASES} SET current = 0 WHERE table_name = ?", [self.table])  # noqa: S608
        connection.execute(
            f"INSERT INTO {RELEASES} (name, release_id, table_name, current, manifest, card, envelope)"  # noqa: S608
            " VALUES (?, ?, ?, 1, ?, ?, ?)",
            [*key, text, release.card, envelope],
        )
        connection.executemany(
            f"INSERT INTO {FILES} (name, release_id, table_name, path, content) VALUES (?, ?, ?, ?, ?)",  # noqa: S608
            [(*key, file.path, file.content) for file in release.measured],
        )

    def _replace_estimates(
        self, connection: sqlite3.Connection, release: PreparedRelease, shown: Manifest | None
    ) -> tuple[PublishedFile, ...]:
        """In the transaction of the release; nothing where somebody else's table has that name."""
        name, estimates = self._estimates, estimates_of(release.measured)
        if not self._may_hold_estimates(connection, shown):
            return ()
        if estimates is None:
            connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
            return ()
        _load(connection, f"{name}__staged", Parts.of(estimates))
        _swap(connection, name, f"{name}__staged")
        return (self._file(connection, name, name),)

    def _records(
        self, connection: sqlite3.Connection, name: str | None = None, release_id: str | None = None
    ) -> list[Recorded]:
        if self._kind(connection, RELEASES) is None:
            return []
        rows = connection.execute(
            f"SELECT manifest, current, envelope FROM {RELEASES} WHERE table_name = ?"  # noqa: S608
            " AND name = coalesce(?, name) AND release_id = coalesce(?, release_id)",
            [self.table, name, release_id],
        ).fetchall()
        where = f"{RELEASES} in {self.path}"
        return [Recorded(read_manifest(text, where), bool(now), text, envelope) for text, now, envelope in rows]

    def _card(self, connection: sqlite3.Connection, manifest: Manifest) -> str:
        found = connection.execute(
            f"SELECT card FROM {RELEASES} WHERE table_name = ? AND name = ? AND release_id = ?",  # noqa: S608
            [self.table, manifest.name, manifest.release_id],
        ).fetchone()
        return "" if found is None else str(found[0])

    def _contents(self, connection: sqlite3.Connection, manifest: Manifest) -> dict[str, bytes]:
        rows = connection.execute(
            f"SELECT path, content FROM {FILES} WHERE table_name = ? AND name = ? AND release_id = ?",  # noqa: S608
            [self.table, manifest.name, manifest.release_id],
        )
        return {path: bytes(content) for path, content in rows}

    def _kind(self, connection: sqlite3.Connection, table: str) -> str | None:
        query = "SELECT type FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(?)"
        found = connection.execute(query, [table]).fetchone()
        return None if found is None else str(found[0])  # which says "table" of a table

    def _file(self, connection: sqlite3.Connection, table: str, listed_as: str) -> PublishedFile:
        rows = connection.execute(f"SELECT * FROM {_quoted(table)}")  # noqa: S608
        return file_of(listed_as, (bytes_of(row) for row in rows))

    def _read(self, connection: sqlite3.Connection, table: str) -> pa.Table:
        found = connection.execute(f"SELECT * FROM {_quoted(table)}")  # noqa: S608
        return rows_as_table([column[0] for column in found.description], found.fetchall())

    def _is_there(self) -> bool:
        return self.path.exists()

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """In no transaction; one that is begun and not committed is rolled back."""
        problem = None
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
        except sqlite3.Error as error:
            problem = getattr(error, "sqlite_errorname", type(error).__name__)
        if problem is not None:
            raise PublishError(
                f"cannot publish into {self.table} of {self.path} ({problem})",
                "check that the file is a SQLite database, writable, and not locked; running again is free",
            )


def _load(connection: sqlite3.Connection, staged: str, rows: Parts) -> None:
    columns = ", ".join(f"{_quoted(field.name)} {_type(field.type)}" for field in rows.schema)
    connection.execute(f"DROP TABLE IF EXISTS {_quoted(staged)}")
    connection.execute(f"CREATE TABLE {_quoted(staged)} ({columns})")
    holes = ", ".join("?" * len(rows.schema))
    for block in blocks_of(rows, _stored):
        connection.executemany(f"INSERT INTO {_quoted(staged)} VALUES ({holes})", block)  # noqa: S608


def _swap(connection: sqlite3.Connection, table: str, staged: str) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {_quoted(table)}")
    connection.execute(f"ALTER TABLE {_quoted(staged)} RENAME TO {_quoted(table)}")


def _type(type_: pa.DataType) -> str:
    return next((name for matches, name in _TYPES if matches(type_)), "TEXT")


def _stored(value: Any) -> Any:
    match value:
        case bool():
            return int(value)
        case Decimal():
            return f"{value:f}"
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date():
            return value.isoformat()
    return value


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
