"""Publishing into a SQLite table: loaded beside the old one and swapped in the transaction that records the manifest.

Readers see the old table until COMMIT and the new one after it, and so does whoever opens the file after a crash. A
table that Understudy did not publish is never replaced. Truths are stored as 0 and 1, days and moments as ISO text.
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

from understudy.pipelines.canonical import sha256_text
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.estimates import estimates_of
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, TargetBase
from understudy.pipelines.publishing.targets.published_tables import (
    ESTIMATES,
    FILES,
    RELEASES,
    HeldTable,
    changed,
    file_of,
    foreign,
    hashes_of,
    is_whole,
    listed,
    lists,
    read_manifest,
)
from understudy.pipelines.publishing.targets.sql_rows import blocks_of, bytes_of
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


class SqliteTarget(TargetBase):
    terms = Terms(table=True, local=True)
    holds_tensors = False

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

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

    def ready(self, name: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self._refuse_foreign_table(connection)
            connection.execute(f"CREATE TABLE {_quoted(self.table + '__probe')} (probe INTEGER)")
            connection.execute("ROLLBACK")

    def recover(self, name: str, release_id: str) -> Published | None:
        if not self.path.exists():
            return None
        with self._connected() as connection:
            return self._recover(connection, name, release_id)

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")  # one publication into a file at a time
            if (published := self._recover(connection, manifest.name, manifest.release_id)) is not None:
                return published
            self._refuse_foreign_table(connection)
            for statement in _RECORDS:
                connection.execute(statement)
            staged = f"{self.table}__staged"
            _load(connection, staged, release.rows)
            fault_point("publish_staged")
            shown = self._shown(connection)
            file = self._file(connection, staged, self.table)
            estimates = self._replace_estimates(connection, release, shown)
            manifest = manifest.model_copy(update={"files": (file, *estimates, *listed(release.measured))})
            _swap(connection, self.table, staged)
            text = manifest.model_dump_json()
            connection.execute(f"UPDATE {RELEASES} SET current = 0 WHERE table_name = ?", [self.table])  # noqa: S608
            connection.execute(
                f"INSERT INTO {RELEASES} (name, release_id, table_name, current, manifest, card, envelope)"  # noqa: S608
                " VALUES (?, ?, ?, 1, ?, ?, ?)",
                [
                    manifest.name,
                    manifest.release_id,
                    self.table,
                    text,
                    release.card,
                    attest(manifest, text, release.key),
                ],
            )
            connection.executemany(
                f"INSERT INTO {FILES} (name, release_id, table_name, path, content) VALUES (?, ?, ?, ?, ?)",  # noqa: S608
                [
                    (manifest.name, manifest.release_id, self.table, file.path, file.content)
                    for file in release.measured
                ],
            )
            fault_point("publish_before_pointer")
            connection.execute("COMMIT")
        return self._published(manifest, text, current=True)

    def newest(self, name: str) -> tuple[Manifest, ...]:
        if not self.path.exists():
            return ()
        with self._connected() as connection:
            found = self._records(connection, "name = ?", name)
        return tuple(manifest for manifest, *_ in found)

    def held(self) -> HeldTable | None:
        """The newest release in the table, if it holds one."""
        if not self.path.exists():
            return None
        with self._connected() as connection:
            records = self._records(connection, "1")
            current = [record for record in records if record[1]]
            if not current:
                return None
            manifest, _, text, envelope = current[0]
            contents = self._contents(connection, manifest)
            hashes = hashes_of(self._held_files(connection), contents)
            recorded = tuple((each.release_id, written) for each, _, written, _ in records)
            return HeldTable(manifest, hashes, text, envelope, recorded, contents, self._rows, self._kept)

    def _kept(self, manifest: Manifest) -> dict[str, bytes]:
        with self._connected() as connection:
            return self._contents(connection, manifest)

    def _rows(self, name: str = "") -> pa.Table:
        with self._connected() as connection:
            found = connection.execute(f"SELECT * FROM {_quoted(self.table)}")  # noqa: S608
            names = [column[0] for column in found.description]
            rows = found.fetchall()
        return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})

    def _replace_estimates(
        self, connection: sqlite3.Connection, release: PreparedRelease, shown: Manifest | None
    ) -> tuple[PublishedFile, ...]:
        """In the transaction of the release; nothing where somebody else's table has that name."""
        name = f"{self.table}{ESTIMATES}"
        ours = lists(shown, name)
        if _kind(connection, name) is not None and not ours:
            return ()
        estimates = estimates_of(release.measured)
        if estimates is None:
            if ours:
                connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
            return ()
        _load(connection, f"{name}__staged", Parts.of(estimates))
        _swap(connection, name, f"{name}__staged")
        return (self._file(connection, name, name),)

    def _recover(self, connection: sqlite3.Connection, name: str, release_id: str) -> Published | None:
        found = self._records(connection, "name = ? AND release_id = ?", name, release_id)
        if not found:
            return None
        manifest, current, text, _ = found[0]
        held = hashes_of(self._held_files(connection), self._contents(connection, manifest)) if current else {}
        if current and not is_whole(manifest, held):
            raise changed(self.table, str(self.path), manifest)
        return self._published(manifest, text, current)

    def _shown(self, connection: sqlite3.Connection) -> Manifest | None:
        return next((manifest for manifest, *_ in self._records(connection, "current")), None)

    def _records(
        self, connection: sqlite3.Connection, which: str, *values: str
    ) -> list[tuple[Manifest, bool, str, str | None]]:
        """Manifest, whether the table shows it, the manifest's text as it was recorded, and its signature."""
        if _kind(connection, RELEASES) is None:
            return []
        rows = connection.execute(
            f"SELECT manifest, current, envelope FROM {RELEASES} WHERE table_name = ? AND {which}",  # noqa: S608
            [self.table, *values],
        ).fetchall()
        where = f"{RELEASES} in {self.path}"
        return [(read_manifest(text, where), bool(current), text, envelope) for text, current, envelope in rows]

    def _contents(self, connection: sqlite3.Connection, manifest: Manifest) -> dict[str, bytes]:
        rows = connection.execute(
            f"SELECT path, content FROM {FILES} WHERE table_name = ? AND name = ? AND release_id = ?",  # noqa: S608
            [self.table, manifest.name, manifest.release_id],
        )
        return {path: bytes(content) for path, content in rows}

    def _held_files(self, connection: sqlite3.Connection) -> list[PublishedFile]:
        names = (self.table, f"{self.table}{ESTIMATES}")
        return [self._file(connection, name, name) for name in names if _kind(connection, name) == "table"]

    def _file(self, connection: sqlite3.Connection, table: str, listed_as: str) -> PublishedFile:
        rows = connection.execute(f"SELECT * FROM {_quoted(table)}")  # noqa: S608
        return file_of(listed_as, (bytes_of(row) for row in rows))

    def _refuse_foreign_table(self, connection: sqlite3.Connection) -> None:
        kind = _kind(connection, self.table)
        if kind is not None and (kind != "table" or self._shown(connection) is None):
            raise foreign(self.table, str(self.path))

    def _published(self, manifest: Manifest, text: str, current: bool) -> Published:
        place = f"{self.path} table {self.table}"
        where = place if current else f"{place} (since replaced by a newer release)"
        return Published(manifest, where, f"{self.path} table {RELEASES}, column card", sha256_text(text))

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


def _kind(connection: sqlite3.Connection, name: str) -> str | None:
    query = "SELECT type FROM sqlite_master WHERE type IN ('table', 'view') AND lower(name) = lower(?)"
    found = connection.execute(query, [name]).fetchone()
    return None if found is None else str(found[0])


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
