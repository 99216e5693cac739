"""Publishing into a DuckDB table: loaded beside the old one, swapped in the transaction that records the manifest.

A table that Understudy did not publish is never replaced, so a slip in a spec cannot destroy the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa

from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.staging import own_staging
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.estimates import estimates_of
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile, ReleaseFile
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, table_names
from understudy.pipelines.publishing.targets.database_target import TABLE, DatabaseTarget, Recorded
from understudy.pipelines.publishing.targets.published_tables import (
    FILES,
    RELEASES,
    file_of,
    listed,
    lists,
    read_manifest,
    table_in_database,
)
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts
from understudy.pipelines.table.keeping import SQL_TYPE, enum_labels

_COLUMNS = "name TEXT, release_id TEXT, table_name TEXT, current BOOLEAN, manifest TEXT, card TEXT, envelope TEXT"
_FILE_COLUMNS = "name TEXT, release_id TEXT, table_name TEXT, path TEXT, content BLOB"


class DuckDBTarget(DatabaseTarget[duckdb.DuckDBPyConnection]):
    terms = Terms(table=True, local=True)

    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

    @property
    def where(self) -> str:
        return str(self.path)

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> DuckDBTarget:
        path = publish.address.path(base)
        if path is None or publish.table is None:
            raise SpecError("publish.to names no DuckDB file", "use duckdb:///file.duckdb and name publish.table")
        return cls(path, publish.table)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        path = address.path(Path())
        held = None if path is None or address.table is None else cls(path, address.table).held()
        return None if held is None else held.release

    def ready_for(self, name: str, tables: tuple[str, ...]) -> None:
        if self.path.exists():
            with self._connected() as connection:
                self._refuse_foreign(connection, self._shown(connection), tables)
                connection.execute("BEGIN")
                connection.execute(f"CREATE TABLE {_quoted(f'{self.table}__probe')} (probe INTEGER)")
                connection.execute("ROLLBACK")
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with own_staging(self.path.parent) as probe:
                probe.rmdir()
        except OSError as error:
            raise PublishError(
                f"no database can be made at {self.path}: {error.strerror}",
                "correct publish.to or the permissions; nothing was spent",
            ) from None

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as connection:
            if (published := self._recover(connection, manifest.name, manifest.release_id)) is not None:
                return published
            shown = self._shown(connection)
            self._refuse_foreign(connection, shown, table_names(manifest))
            staged = [self._stage(connection, name, rows) for name, rows in release.tables.items()]
            estimates = self._stage_estimates(connection, release, shown)
            fault_point("publish_staged")
            manifest = manifest.model_copy(update={"files": (*staged, *estimates, *listed(release.papers))})
            connection.execute("BEGIN")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {RELEASES} ({_COLUMNS})")
            connection.execute(f"ALTER TABLE {RELEASES} ADD COLUMN IF NOT EXISTS envelope TEXT")  # older: unsigned
            connection.execute(f"UPDATE {RELEASES} SET current = false WHERE table_name = ?", [self.table])  # noqa: S608
            text = manifest.model_dump_json()
            envelope = attest(manifest, text, release.key)
            connection.execute(
                f"INSERT INTO {RELEASES} (name, release_id, table_name, current, manifest, card, envelope) "  # noqa: S608
                "VALUES (?, ?, ?, true, ?, ?, ?)",
                [manifest.name, manifest.release_id, self.table, text, release.card, envelope],
            )
            self._keep(connection, manifest, release.measured)
            for name in self._of(shown):
                connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
            for name in self._of(manifest):
                connection.execute(f"ALTER TABLE {_quoted(f'{name}__staged')} RENAME TO {_quoted(name)}")
            if estimates or lists(shown, self._estimates):
                connection.execute(f"DROP TABLE IF EXISTS {_quoted(self._estimates)}")
            if estimates:
                beside = _quoted(f"{self._estimates}__staged")
                connection.execute(f"ALTER TABLE {beside} RENAME TO {_quoted(self._estimates)}")
            fault_point("publish_before_pointer")
            connection.execute("COMMIT")
        return self._published(manifest, text, current=True)

    def _stage(self, connection: duckdb.DuckDBPyConnection, name: str, rows: Parts) -> PublishedFile:
        """One of the tables beside the one that it will replace."""
        table = table_in_database(self.table, name)
        staged = _quoted(f"{table}__staged")
        columns = ", ".join(_selected(field) for field in rows.schema)
        for number, part in enumerate(rows):
            connection.register("release_rows", part)
            into = f"CREATE OR REPLACE TABLE {staged} AS" if number == 0 else f"INSERT INTO {staged}"
            connection.execute(f"{into} SELECT {columns} FROM release_rows")  # noqa: S608
        return self._file(connection, f"{table}__staged", table)

    def _stage_estimates(
        self, connection: duckdb.DuckDBPyConnection, release: PreparedRelease, shown: Manifest | None
    ) -> tuple[PublishedFile, ...]:
        """Beside those they replace; none where somebody else's table has that name."""
        name, estimates = self._estimates, estimates_of(release.measured)
        if estimates is None or not self._may_hold_estimates(connection, shown):
            return ()
        connection.register("release_estimates", estimates)
        staged = _quoted(f"{name}__staged")
        connection.execute(f"CREATE OR REPLACE TABLE {staged} AS SELECT * FROM release_estimates")  # noqa: S608
        return (self._file(connection, f"{name}__staged", name),)

    def _keep(self, connection: duckdb.DuckDBPyConnection, manifest: Manifest, files: tuple[ReleaseFile, ...]) -> None:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {FILES} ({_FILE_COLUMNS})")
        for file in files:
            connection.execute(
                f"INSERT INTO {FILES} (name, release_id, table_name, path, content) VALUES (?, ?, ?, ?, ?)",  # noqa: S608
                [manifest.name, manifest.release_id, self.table, file.path, file.content],
            )

    def _records(
        self, connection: duckdb.DuckDBPyConnection, name: str | None = None, release_id: str | None = None
    ) -> list[Recorded]:
        if self._kind(connection, RELEASES) is None:
            return []
        found = connection.execute(
            f"SELECT * FROM {RELEASES} WHERE table_name = ? AND name = coalesce(?, name)"  # noqa: S608
            " AND release_id = coalesce(?, release_id)",
            [self.table, name, release_id],
        )
        names = [column[0] for column in found.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]  # unread, it keeps the table in use
        where = f"{RELEASES} in {self.path}"
        return [
            Recorded(read_manifest(row["manifest"], where), row["current"], row["manifest"], row.get("envelope"))
            for row in rows
        ]

    def _card(self, connection: duckdb.DuckDBPyConnection, manifest: Manifest) -> str:
        found = connection.execute(
            f"SELECT card FROM {RELEASES} WHERE table_name = ? AND name = ? AND release_id = ?",  # noqa: S608
            [self.table, manifest.name, manifest.release_id],
        ).fetchone()
        return "" if found is None else str(found[0])

    def _contents(self, connection: duckdb.DuckDBPyConnection, manifest: Manifest) -> dict[str, bytes]:
        if self._kind(connection, FILES) is None:
            return {}
        rows = connection.execute(
            f"SELECT path, content FROM {FILES} WHERE table_name = ? AND name = ? AND release_id = ?",  # noqa: S608
            [self.table, manifest.name, manifest.release_id],
        ).fetchall()
        return {path: bytes(content) for path, content in rows}

    def _kind(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        query = (
            "SELECT table_type FROM information_schema.tables WHERE table_name = ? AND table_schema = current_schema()"
        )
        found = connection.execute(query, [table]).fetchall()
        return None if not found else TABLE if found[0][0] == "BASE TABLE" else str(found[0][0])

    def _file(self, connection: duckdb.DuckDBPyConnection, table: str, listed_as: str) -> PublishedFile:
        found = connection.execute(
            f"SELECT to_json(understudy_row)::VARCHAR FROM {_quoted(table)} AS understudy_row"  # noqa: S608
        )
        return file_of(listed_as, (row[0].encode() for row in iter(found.fetchone, None)))

    def _read(self, connection: duckdb.DuckDBPyConnection, table: str) -> pa.Table:
        return connection.sql(f"SELECT * FROM {_quoted(table)}").to_arrow_table()  # noqa: S608

    def _is_there(self) -> bool:
        return self.path.exists()

    @contextmanager
    def _connected(self) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            connection = duckdb.connect(str(self.path))
        except duckdb.Error as error:
            raise PublishError(
                f"cannot open {self.path} for writing: {type(error).__name__}",
                "close other programs that hold the database, then run again: nothing is spent twice",
            ) from None
        try:
            with connection:
                connection.execute("SET TimeZone = 'UTC'")  # rows are hashed as text, wherever that is done
                yield connection
        except duckdb.Error as error:
            raise PublishError(
                f"cannot publish into {self.table} of {self.path}: {type(error).__name__}",
                "check that the file is writable and the name is not a view's; running again is free",
            ) from None


def _selected(field: pa.Field) -> str:
    """A column of the table to publish; Arrow's dictionaries would arrive as text."""
    name = _quoted(field.name)
    labels = enum_labels((field.metadata or {}).get(SQL_TYPE, b"").decode())
    if not labels:
        return name
    words = ", ".join("'" + label.replace("'", "''") + "'" for label in labels)
    return f"CAST({name} AS ENUM({words})) AS {name}"


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
