"""Publishing into a MariaDB or MySQL table: loaded beside the old one, then both renamed in one statement.

Tables cannot be made or renamed in a transaction there, so what says which release a table holds is part of the table:
its comment names the release. `RENAME TABLE old TO away, staged TO old` is atomic, and the comment goes with the rows:
readers see the old table or the new one, and so does whoever looks after a crash. Several tables that are one release
are renamed in one such statement; a server of a version that could crash in the midst of it is refused them. The record
of a release is written before the swap and counts once the comment names it; what a crash left (staged tables, old ones
that are away) goes with the next publication. A table that Understudy did not publish is never replaced. Moments with a
zone are stored in UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from understudy.pipelines.errors import PublishError, SpecError, UnderstudyError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.estimates import estimates_of
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, table_names
from understudy.pipelines.publishing.targets.database_target import TABLE, DatabaseTarget, Recorded
from understudy.pipelines.publishing.targets.mysql_loading import (
    LONGEST_NAME,
    comments_of,
    kind_of,
    load,
    quoted,
    renames_all_or_none,
    version_of,
)
from understudy.pipelines.publishing.targets.published_tables import (
    FILES,
    RELEASES,
    file_of,
    listed,
    lists,
    read_manifest,
)
from understudy.pipelines.publishing.targets.sql_rows import bytes_of, rows_as_table
from understudy.pipelines.sources.databases.mysql_connection import TERMS, url_of
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

_OURS, _ESTIMATES = "understudy release ", "understudy estimates"
_STAGED, _AWAY = "__staged", "__away"
_NAMES = "name VARCHAR(255) NOT NULL, release_id VARCHAR(100) NOT NULL, table_name VARCHAR(64) NOT NULL"
_STYLE = "ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_RECORDS = (
    f"CREATE TABLE IF NOT EXISTS {RELEASES} ({_NAMES}, shown BOOLEAN NOT NULL, manifest LONGTEXT NOT NULL,"
    f" card LONGTEXT NOT NULL, envelope LONGTEXT, PRIMARY KEY (name, release_id, table_name)) {_STYLE}",
    f"CREATE TABLE IF NOT EXISTS {FILES} ({_NAMES}, path VARCHAR(255) NOT NULL, content LONGBLOB NOT NULL,"
    f" PRIMARY KEY (name, release_id, table_name, path)) {_STYLE}",
)
_WAIT_SECONDS = 600


class MySqlTarget(DatabaseTarget[sa.Connection]):
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

    @property
    def where(self) -> str:
        return str(self.database)

    def ready_for(self, name: str, tables: tuple[str, ...]) -> None:
        if long := [table for table in self._called(tables) if len(f"{table}{_STAGED}") > LONGEST_NAME]:
            raise PublishError(f"{long[0]} is too long for a table's name", "shorten publish.table")
        with self._connected() as connection:
            version = version_of(connection)
            if len(tables) > 1 and not renames_all_or_none(version):
                raise PublishError(
                    f"{self.database} is {version}, which may crash when some tables are renamed and others not",
                    "publish to MariaDB 10.6.1, MySQL 8.0 or newer, or elsewhere; nothing was spent",
                )
            self._refuse_foreign(connection, self._shown(connection), tables)
            probe = quoted(f"{self.table}__probe")
            connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS {probe} (probe INT)")
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS {probe}")

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        with self._connected() as connection, self._alone(connection):
            if (published := self._recover(connection, manifest.name, manifest.release_id)) is not None:
                return published
            shown, tables = self._shown(connection), self._of(manifest)
            self._refuse_foreign(connection, shown, table_names(manifest))
            for statement in _RECORDS:
                connection.exec_driver_sql(statement)
            self._clear(connection)
            if shown is not None:  # a crash may have come between the swap and this
                self._mark_shown(connection, shown)
            for table, rows in zip(tables, release.tables.values(), strict=True):
                load(connection, f"{table}{_STAGED}", rows, f"{_OURS}{_key(manifest)}")
            swaps = [(table, f"{table}{_STAGED}") for table in tables]
            estimates = self._stage_estimates(connection, release, shown)
            swaps += [(self._estimates, f"{self._estimates}{_STAGED}")] if estimates else []
            fault_point("publish_staged")
            files = [self._file(connection, f"{table}{_STAGED}", table) for table in tables]
            manifest = manifest.model_copy(update={"files": (*files, *estimates, *listed(release.papers))})
            text = manifest.model_dump_json()
            self._record(connection, manifest, text, release)
            fault_point("publish_before_pointer")
            gone = [table for table in self._of(shown) if table not in tables]
            gone += [self._estimates] if not estimates and lists(shown, self._estimates) else []
            self._swap(connection, swaps, [table for table in gone if self._kind(connection, table) is not None])
            self._mark_shown(connection, manifest)
            self._clear(connection)
        return self._published(manifest, text, current=True)

    def _swap(self, connection: sa.Connection, swaps: Sequence[tuple[str, str]], gone: Sequence[str]) -> None:
        renamed = []
        for table, staged in swaps:
            if self._kind(connection, table) is not None:
                renamed.append(f"{quoted(table)} TO {quoted(f'{table}{_AWAY}')}")
            renamed.append(f"{quoted(staged)} TO {quoted(table)}")
        renamed += [f"{quoted(table)} TO {quoted(f'{table}{_AWAY}')}" for table in gone]
        connection.exec_driver_sql(f"RENAME TABLE {', '.join(renamed)}")

    def _clear(self, connection: sa.Connection) -> None:
        """What an earlier publication, perhaps a killed one, left beside the tables: those that say they are ours."""
        for name, comment in comments_of(connection, self.table).items():
            if name.endswith((_STAGED, _AWAY)) and comment.startswith((_OURS, _ESTIMATES)):
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {quoted(name)}")

    def _stage_estimates(
        self, connection: sa.Connection, release: PreparedRelease, shown: Manifest | None
    ) -> tuple[PublishedFile, ...]:
        """Beside those they replace; none where somebody else's table has that name."""
        name, estimates = self._estimates, estimates_of(release.measured)
        if estimates is None or not self._may_hold_estimates(connection, shown):
            return ()
        load(connection, f"{name}{_STAGED}", Parts.of(estimates), _ESTIMATES)
        return (self._file(connection, f"{name}{_STAGED}", name),)

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

    def _records(
        self, connection: sa.Connection, name: str | None = None, release_id: str | None = None
    ) -> list[Recorded]:
        """Those that were ever shown; the one that is shown now, by what the first of its tables says of itself."""
        if self._kind(connection, RELEASES) is None:
            return []
        rows = connection.exec_driver_sql(
            f"SELECT manifest, shown, envelope FROM {RELEASES} WHERE table_name = %s"  # noqa: S608
            " AND name = coalesce(%s, name) AND release_id = coalesce(%s, release_id)",
            (self.table, name, release_id),
        ).fetchall()
        comments, found = comments_of(connection, self.table), []
        for text, shown, envelope in rows:
            manifest = read_manifest(text, f"{RELEASES} at {self.database}")
            current = comments.get(self._of(manifest)[0]) == f"{_OURS}{_key(manifest)}"
            if shown or current:
                found.append(Recorded(manifest, current, text, envelope))
        return found

    def _card(self, connection: sa.Connection, manifest: Manifest) -> str:
        found = connection.exec_driver_sql(
            f"SELECT card FROM {RELEASES} WHERE table_name = %s AND name = %s AND release_id = %s",  # noqa: S608
            (self.table, manifest.name, manifest.release_id),
        ).fetchone()
        return "" if found is None else str(found[0])

    def _contents(self, connection: sa.Connection, manifest: Manifest) -> dict[str, bytes]:
        rows = connection.exec_driver_sql(
            f"SELECT path, content FROM {FILES} WHERE table_name = %s AND name = %s AND release_id = %s",  # noqa: S608
            (self.table, manifest.name, manifest.release_id),
        ).fetchall()
        return {path: bytes(content) for path, content in rows}

    def _kind(self, connection: sa.Connection, table: str) -> str | None:
        kind = kind_of(connection, table)
        return TABLE if kind == "BASE TABLE" else kind

    def _file(self, connection: sa.Connection, table: str, listed_as: str) -> PublishedFile:
        streamed = connection.execution_options(stream_results=True)
        rows = streamed.exec_driver_sql(f"SELECT * FROM {quoted(table)}")  # noqa: S608
        return file_of(listed_as, (bytes_of(row) for row in rows))

    def _read(self, connection: sa.Connection, table: str) -> pa.Table:
        found = connection.exec_driver_sql(f"SELECT * FROM {quoted(table)}")  # noqa: S608
        return rows_as_table(list(found.keys()), found.fetchall())

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
