"""Publishing into a MariaDB or MySQL table: loaded beside the old one, then both renamed in one statement.

Tables cannot be made or renamed in a transaction there, so what says which release a table holds is part of the table:
its comment names the release. `RENAME TABLE old TO away, staged TO old` is atomic, and the comment goes with the rows:
readers see the old table or the new one, and so does whoever looks after a crash. The record of a release is written
before the swap and counts once the comment names it; what a crash left (a staged table, an old one that is away) goes
with the next publication. A table that Understudy did not publish is never replaced. Moments with a zone are stored in
UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from understudy.pipelines.canonical import sha256_text
from understudy.pipelines.errors import PublishError, SpecError, UnderstudyError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.estimates import estimates_of
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, TargetBase
from understudy.pipelines.publishing.targets.mysql_loading import comment_of, kind_of, load, quoted
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
from understudy.pipelines.publishing.targets.sql_rows import bytes_of
from understudy.pipelines.sources.databases.mysql_connection import TERMS, url_of
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

_OURS = "understudy release "
_NAMES = "name VARCHAR(255) NOT NULL, release_id VARCHAR(100) NOT NULL, table_name VARCHAR(64) NOT NULL"
_STYLE = "ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_RECORDS = (
    f"CREATE TABLE IF NOT EXISTS {RELEASES} ({_NAMES}, shown BOOLEAN NOT NULL, manifest LONGTEXT NOT NULL,"
    f" card LONGTEXT NOT NULL, envelope LONGTEXT, PRIMARY KEY (name, release_id, table_name)) {_STYLE}",
    f"CREATE TABLE IF NOT EXISTS {FILES} ({_NAMES}, path VARCHAR(255) NOT NULL, content LONGBLOB NOT NULL,"
    f" PRIMARY KEY (name, release_id, table_name, path)) {_STYLE}",
)
_WAIT_SECONDS = 600
Record = tuple[Manifest, bool, str, str | None]


class MySqlTarget(TargetBase):
    terms = TERMS
    holds_tensors = False

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> MySqlTarget:
        assert publish.table is not None
        return cls(publish.address, publish.table)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        held = None if address.table is None else cls(address, address.table).held()
        return None if held is None else held.release

    def __init__(self, database: Address, table: str) -> None:
        self.database = database
        self.table = table
        if not 0 < len(table) <= 40 or "." in table:
            raise SpecError("publish.table must be a plain name of at most 40 characters", "correct publish.table")

    def ready(self, name: str) -> None:
        with self._connected() as connection:
            self._refuse_foreign_table(connection)
            probe = quoted(f"{self.table}__probe")
            connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {probe} (probe INT)")
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {probe}")

    def recover(self, name: str, release_id: str) -> Published | None:
        with self._connected() as connection:
            return self._recover(connection, name, release_id)

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        with self._connected() as connection, self._alone(connection):
            if (published := self._recover(connection, manifest.name, manifest.release_id)) is not None:
                return published
            self._refuse_foreign_table(connection)
            for statement in _RECORDS:
                connection.exec_driver_sql(statement)
            self._clear(connection)
            shown = self._shown(connection)
            if shown is not None:  # a crash may have come between the swap and this
                self._mark_shown(connection, shown[0])
            comment = f"{_OURS}{manifest.name} {manifest.release_id}"
            load(connection, f"{self.table}__staged", release.rows, comment)
            swaps = [(self.table, f"{self.table}__staged")]
            estimates = self._stage_estimates(connection, release, shown)
            swaps += [(f"{self.table}{ESTIMATES}", f"{self.table}{ESTIMATES}__staged")] if estimates else []
            fault_point("publish_staged")
            file = self._file(connection, f"{self.table}__staged", self.table)
            manifest = manifest.model_copy(update={"files": (file, *estimates, *listed(release.measured))})
            text = manifest.model_dump_json()
            self._record(connection, manifest, text, release)
            fault_point("publish_before_pointer")
            gone = [] if estimates or not self._has_estimates(connection, shown) else [f"{self.table}{ESTIMATES}"]
            self._swap(connection, swaps, gone)
            self._mark_shown(connection, manifest)
            self._clear(connection)
        return self._published(manifest, text, current=True)

    def newest(self, name: str) -> tuple[Manifest, ...]:
        with self._connected() as connection:
            current = self._current(connection)
            found = self._records(connection, "name = %s", name)
        return tuple(manifest for manifest, shown, *_ in found if shown or _key(manifest) == current)

    def held(self) -> HeldTable | None:
        """The newest release in the table, if it holds one."""
        with self._connected() as connection:
            current = self._shown(connection)
            if current is None:
                return None
            manifest, _, text, envelope = current
            contents = self._contents(connection, manifest)
            hashes = hashes_of(self._held_files(connection), contents)
            records = self._records(connection, "(shown OR release_id = %s)", manifest.release_id)
            recorded = tuple((each.release_id, written) for each, _, written, _ in records)
            return HeldTable(manifest, hashes, text, envelope, recorded, contents, self._rows, self._kept)

    def _kept(self, manifest: Manifest) -> dict[str, bytes]:
        with self._connected() as connection:
            return self._contents(connection, manifest)

    def _rows(self, name: str = "") -> pa.Table:
        with self._connected() as connection:
            found = connection.exec_driver_sql(f"SELECT * FROM {quoted(self.table)}")  # noqa: S608
            names, rows = list(found.keys()), found.fetchall()
        return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})

    def _swap(self, connection: sa.Connection, swaps: Sequence[tuple[str, str]], gone: Sequence[str]) -> None:
        renamed = []
        for table, staged in swaps:
            if kind_of(connection, table) is not None:
                renamed.append(f"{quoted(table)} TO {quoted(f'{table}__away')}")
            renamed.append(f"{quoted(staged)} TO {quoted(table)}")
        renamed += [f"{quoted(table)} TO {quoted(f'{table}__away')}" for table in gone]
        connection.exec_driver_sql(f"RENAME TABLE {', '.join(renamed)}")

    def _clear(self, connection: sa.Connection) -> None:
        """What an earlier publication, perhaps a killed one, left beside the table."""
        for table in (self.table, f"{self.table}{ESTIMATES}"):
            for rest in ("__staged", "__away"):
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {quoted(f'{table}{rest}')}")

    def _stage_estimates(
        self, connection: sa.Connection, release: PreparedRelease, shown: Record | None
    ) -> tuple[PublishedFile, ...]:
        """Beside those they replace; none where somebody else's table has that name."""
        name = f"{self.table}{ESTIMATES}"
        estimates = estimates_of(release.measured)
        taken = kind_of(connection, name) is not None and not self._has_estimates(connection, shown)
        if estimates is None or taken:
            return ()
        load(connection, f"{name}__staged", Parts.of(estimates), "understudy estimates")
        return (self._file(connection, f"{name}__staged", name),)

    def _has_estimates(self, connection: sa.Connection, shown: Record | None) -> bool:
        name = f"{self.table}{ESTIMATES}"
        return shown is not None and lists(shown[0], name) and kind_of(connection, name) is not None

    def _record(self, connection: sa.Connection, manifest: Manifest, text: str, release: PreparedRelease) -> None:
        key = [manifest.name, manifest.release_id, self.table]
        for table in (RELEASES, FILES):  # of a publication that died before its swap
            connection.exec_driver_sql(
                f"DELETE FROM {table} WHERE name = %s AND release_id = %s AND table_name = %s",  # noqa: S608
                tuple(key),
            )
        connection.exec_driver_sql(
            f"INSERT INTO {RELEASES} (name, release_id, table_name, shown, manifest, card, envelope)"  # noqa: S608
            " VALUES (%s, %s, %s, FALSE, %s, %s, %s)",
            (*key, text, release.card, attest(manifest, text, release.key)),
        )
        for file in release.measured:
            connection.exec_driver_sql(
                f"INSERT INTO {FILES} (name, release_id, table_name, path, content) VALUES (%s, %s, %s, %s, %s)",  # noqa: S608
                (*key, file.path, file.content),
            )

    def _mark_shown(self, connection: sa.Connection, manifest: Manifest) -> None:
        connection.exec_driver_sql(
            f"UPDATE {RELEASES} SET shown = TRUE WHERE name = %s AND release_id = %s AND table_name = %s",  # noqa: S608
            (manifest.name, manifest.release_id, self.table),
        )

    def _recover(self, connection: sa.Connection, name: str, release_id: str) -> Published | None:
        found = self._records(connection, "name = %s AND release_id = %s", name, release_id)
        if not found:
            return None
        manifest, shown, text, _ = found[0]
        current = self._current(connection) == _key(manifest)
        if not current:
            return self._published(manifest, text, current=False) if shown else None
        if not is_whole(manifest, hashes_of(self._held_files(connection), self._contents(connection, manifest))):
            raise changed(self.table, str(self.database), manifest)
        return self._published(manifest, text, current=True)

    def _current(self, connection: sa.Connection) -> str | None:
        """The name and id of the release that the table says it holds."""
        comment = comment_of(connection, self.table) or ""
        return comment.removeprefix(_OURS) if comment.startswith(_OURS) else None

    def _shown(self, connection: sa.Connection) -> Record | None:
        current = self._current(connection)
        records = self._records(connection, "1 = 1") if current else []
        return next((record for record in records if _key(record[0]) == current), None)

    def _records(self, connection: sa.Connection, which: str, *values: str) -> list[Record]:
        """Manifest, whether the table ever showed it, the manifest's text as it was recorded, and its signature."""
        if kind_of(connection, RELEASES) is None:
            return []
        rows = connection.exec_driver_sql(
            f"SELECT manifest, shown, envelope FROM {RELEASES} WHERE table_name = %s AND {which}",  # noqa: S608
            (self.table, *values),
        ).fetchall()
        where = f"{RELEASES} at {self.database}"
        return [(read_manifest(text, where), bool(shown), text, envelope) for text, shown, envelope in rows]

    def _contents(self, connection: sa.Connection, manifest: Manifest) -> dict[str, bytes]:
        rows = connection.exec_driver_sql(
            f"SELECT path, content FROM {FILES} WHERE table_name = %s AND name = %s AND release_id = %s",  # noqa: S608
            (self.table, manifest.name, manifest.release_id),
        ).fetchall()
        return {path: bytes(content) for path, content in rows}

    def _held_files(self, connection: sa.Connection) -> list[PublishedFile]:
        names = (self.table, f"{self.table}{ESTIMATES}")
        return [self._file(connection, name, name) for name in names if kind_of(connection, name) == "BASE TABLE"]

    def _file(self, connection: sa.Connection, table: str, listed_as: str) -> PublishedFile:
        streamed = connection.execution_options(stream_results=True)
        rows = streamed.exec_driver_sql(f"SELECT * FROM {quoted(table)}")  # noqa: S608
        return file_of(listed_as, (bytes_of(row) for row in rows))

    def _refuse_foreign_table(self, connection: sa.Connection) -> None:
        kind = kind_of(connection, self.table)
        if kind is not None and (kind != "BASE TABLE" or self._shown(connection) is None):
            raise foreign(self.table, str(self.database))

    def _published(self, manifest: Manifest, text: str, current: bool) -> Published:
        place = f"{self.database} table {self.table}"
        where = place if current else f"{place} (since replaced by a newer release)"
        return Published(manifest, where, f"{self.database} table {RELEASES}, column card", sha256_text(text))

    @contextmanager
    def _alone(self, connection: sa.Connection) -> Iterator[None]:
        """One publication into a database at a time; the server ends the lock with the connection, however it ends."""
        name = f"understudy {hashlib.sha256(str(url_of(self.database).database).encode()).hexdigest()[:32]}"
        got = connection.exec_driver_sql("SELECT GET_LOCK(%s, %s)", (name, _WAIT_SECONDS)).scalar()
        if got != 1:
            raise PublishError(f"another publication into {self.database} goes on", "run again when it is done")
        yield

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        """Every statement is committed as it is made. What the server says becomes an error without any value."""
        kind = None
        try:
            engine = sa.create_engine(url_of(self.database), poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.exec_driver_sql("SET SESSION time_zone = '+00:00', lock_wait_timeout = 600")
                yield connection
        except UnderstudyError:
            raise
        except ImportError:
            kind = "the driver is not installed: pip install 'understudy[mysql]'"
        except Exception as error:
            kind = type(error).__name__
        if kind is not None:
            raise PublishError(
                f"cannot publish into {self.table} at {self.database} ({kind}); the server's own message is withheld",
                "check that it is up and that this user may create, rename and drop tables; running again is free",
            )


def _key(manifest: Manifest) -> str:
    return f"{manifest.name} {manifest.release_id}"
