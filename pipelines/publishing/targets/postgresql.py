"""Publishing into a PostgreSQL table: loaded beside the old one, swapped in the transaction that records the manifest.

Readers see the old table until COMMIT and the new one after it. Privileges granted on the old table are granted on the
new one. A table that Understudy did not publish is never replaced, so a slip in a spec cannot destroy the source.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.pipelines.canonical import sha256_text
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.estimates import estimates_of
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import Papers, PreparedRelease, Published, TargetBase, table_names
from understudy.pipelines.publishing.targets.postgresql_loading import (
    drop,
    load,
    rows_of,
    swap,
    table_of,
)
from understudy.pipelines.publishing.targets.postgresql_records import (
    has_envelopes,
    keep_files,
    kept_papers,
    prepare_records,
    record_release,
    recorded_papers,
)
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
    table_in_database,
)
from understudy.pipelines.sources.databases.postgresql_connection import TERMS, connected, database_at, located
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

_DOING = "publishing"
_STAGED = "__staged"
LONGEST_NAME = 63
"""Bytes of a name that PostgreSQL keeps."""

_STAGED_ESTIMATES = "understudy_estimates__staged"


class PostgresTarget(TargetBase):
    """`table` is `name`, in the first schema of the search path, or `schema.name`."""

    terms = TERMS
    holds_tensors = False
    holds_trees = True

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> PostgresTarget:
        assert publish.table is not None
        return cls(database_at(publish.address), publish.table)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        held = None if address.table is None else cls(database_at(address), address.table).held()
        return None if held is None else held.release

    def __init__(self, database: Address, table: str) -> None:
        self.database = database
        self.given_schema, _, self.table = table.rpartition(".")
        if not self.table or len(self.table.encode()) > 50 or "." in self.given_schema:
            raise SpecError(
                "publish.table must be `name` or `schema.name`, the name at most 50 bytes", "correct publish.table"
            )

    def ready(self, name: str) -> None:
        self.ready_for(name, ("",))

    def ready_for(self, name: str, tables: tuple[str, ...]) -> None:
        """Asks the catalogue only: a table made as a probe would wait for whoever publishes into the schema now."""
        with connected(self.database, PublishError, _DOING) as connection:
            schema = self._schema(connection)
            if schema is None:
                raise self._no_schema()
            may_create, read_only = connection.execute(
                "SELECT pg_catalog.has_schema_privilege(%s, 'CREATE'),"
                " pg_catalog.current_setting('transaction_read_only') = 'on'",
                [schema],
            ).fetchone()
            if read_only:
                raise PublishError(
                    f"{self.database} takes no writes", "name the primary server, not a replica; nothing was spent"
                )
            if not may_create:
                raise PublishError(
                    f"this role may not create tables in schema {schema} of {self.database}",
                    "grant CREATE on the schema; nothing was spent",
                )
            if long := [table for table in self._of(tables) if len(f"{table}{_STAGED}".encode()) > LONGEST_NAME]:
                raise PublishError(f"{long[0]} is too long for a table's name", "shorten publish.table")
            shown = self._shown(connection, schema)
            self._refuse_foreign_tables(connection, schema, shown, tables)
            name = f"{self.table}{ESTIMATES}"
            ours = (name,) if lists(shown, f"{schema}.{name}") else ()
            for table in (RELEASES, FILES, *self._of(tables), *ours):
                self._refuse_without_ownership(connection, schema, table)

    def _refuse_without_ownership(self, connection: Any, schema: str, table: str) -> None:
        found = located(connection, f"{schema}.{table}")
        if found is None:
            return
        owner, may_write = connection.execute(
            "SELECT pg_catalog.pg_has_role(relowner, 'USAGE'), pg_catalog.has_table_privilege(oid, 'INSERT')"
            " AND pg_catalog.has_table_privilege(oid, 'UPDATE') FROM pg_catalog.pg_class WHERE oid = %s",
            [found[3]],
        ).fetchone()
        # Adding a column to records made before releases were signed is its owner's alone.
        shared = table == FILES or (table == RELEASES and has_envelopes(connection, schema))
        if not (may_write if shared else owner):
            raise PublishError(
                f"this role may not replace {schema}.{table} of {self.database}",
                "publish with the role that owns the table; nothing was spent",
            )

    def recover(self, name: str, release_id: str) -> Published | None:
        with connected(self.database, PublishError, _DOING) as connection:
            schema = self._schema(connection)
            return self._recover(connection, schema, name, release_id) if schema else None

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        with connected(self.database, PublishError, _DOING) as connection, connection.transaction():
            schema = self._schema(connection)
            if schema is None:
                raise self._no_schema()
            # One publication into a schema at a time; the lock ends with the transaction, however it ends.
            lock = int.from_bytes(hashlib.sha256(f"understudy {schema}".encode()).digest()[:8], "big", signed=True)
            connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s)", [lock])
            if (published := self._recover(connection, schema, manifest.name, manifest.release_id)) is not None:
                return published
            prepare_records(connection, schema)
            shown, names = self._shown(connection, schema), table_names(manifest)
            self._refuse_foreign_tables(connection, schema, shown, names)
            for table, rows in zip(self._of(names), release.tables.values(), strict=True):
                load(connection, schema, f"{table}{_STAGED}", rows)
            fault_point("publish_staged")
            files = [
                file_of(f"{schema}.{table}", rows_of(connection, schema, f"{table}{_STAGED}"))
                for table in self._of(names)
            ]
            estimates = self._replace_estimates(connection, schema, release)
            manifest = manifest.model_copy(update={"files": (*files, *estimates, *listed(release.papers))})
            for table in self._of(names):
                swap(connection, schema, table, f"{table}{_STAGED}")
            for table in self._of(table_names(shown)) if shown is not None else ():
                if table not in self._of(names):
                    drop(connection, schema, table)
            text = manifest.model_dump_json()
            record_release(connection, schema, self.table, manifest, text, release)
            keep_files(connection, schema, self.table, manifest, release.measured)
            fault_point("publish_before_pointer")
        return self._published(schema, manifest, text, current=True)

    def _replace_estimates(self, connection: Any, schema: str, release: PreparedRelease) -> tuple[PublishedFile, ...]:
        """In the transaction of the release; nothing where somebody else's table has that name."""
        name = f"{self.table}{ESTIMATES}"
        ours = lists(self._shown(connection, schema), f"{schema}.{name}")
        if located(connection, f"{schema}.{name}") is not None and not ours:
            return ()
        estimates = estimates_of(release.measured)
        if estimates is None:
            if ours:
                drop(connection, schema, name)
            return ()
        load(connection, schema, _STAGED_ESTIMATES, Parts.of(estimates))
        swap(connection, schema, name, _STAGED_ESTIMATES)
        return (file_of(f"{schema}.{name}", rows_of(connection, schema, name)),)

    def _shown(self, connection: Any, schema: str) -> Manifest | None:
        from psycopg import sql

        if located(connection, f"{schema}.{RELEASES}") is None:
            return None
        row = connection.execute(
            sql.SQL("SELECT manifest FROM {} WHERE table_name = %s AND current").format(
                sql.Identifier(schema, RELEASES)
            ),
            [self.table],
        ).fetchone()
        return None if row is None else read_manifest(row[0], f"{schema}.{RELEASES} at {self.database}")

    def _recover(self, connection: Any, schema: str, name: str, release_id: str) -> Published | None:
        from psycopg import sql

        if located(connection, f"{schema}.{RELEASES}") is None:
            return None
        row = connection.execute(
            sql.SQL("SELECT manifest, current FROM {} WHERE name = %s AND release_id = %s AND table_name = %s").format(
                sql.Identifier(schema, RELEASES)
            ),
            [name, release_id, self.table],
        ).fetchone()
        if row is None:
            return None
        manifest = read_manifest(row[0], f"{schema}.{RELEASES} at {self.database}")
        if row[1] and not self._intact(connection, schema, manifest):
            raise changed(f"{schema}.{self.table}", str(self.database), manifest)
        return self._published(schema, manifest, row[0], current=bool(row[1]))

    def held(self) -> HeldTable | None:
        """The newest release in the table, if it holds one."""
        from psycopg import sql

        with connected(self.database, PublishError, "reading the release") as connection:
            schema = self._schema(connection)
            if schema is None or located(connection, f"{schema}.{RELEASES}") is None:
                return None
            signed = has_envelopes(connection, schema)
            records = connection.execute(
                sql.SQL(
                    "SELECT release_id, manifest, current, {}, CASE WHEN current THEN card END FROM {}"
                    " WHERE table_name = %s"
                ).format(sql.Identifier("envelope") if signed else sql.NULL, sql.Identifier(schema, RELEASES)),
                [self.table],
            ).fetchall()
            held = next((record for record in records if record[2]), None)
            if held is None:
                return None
            _, text, _, envelope, card = held
            manifest = read_manifest(text, f"{schema}.{RELEASES} at {self.database}")
            contents = kept_papers(connection, schema, self.table, manifest)
            hashes = hashes_of(self._held_files(connection, schema, manifest), contents)
            recorded = tuple(record[:2] for record in records)
            return HeldTable(manifest, hashes, text, envelope, recorded, contents, self._rows, self._kept, card)

    def _kept(self, manifest: Manifest) -> dict[str, bytes]:
        with connected(self.database, PublishError, "reading the release") as connection:
            return kept_papers(connection, self._schema(connection) or "", self.table, manifest)

    def _rows(self, name: str) -> pa.Table:
        with connected(self.database, PublishError, "reading the rows") as connection:
            return table_of(connection, self._schema(connection) or "", table_in_database(self.table, name))

    def _of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What the tables of a release are called here."""
        return tuple(table_in_database(self.table, name) for name in names)

    def newest(self, name: str) -> tuple[Manifest, ...]:
        from psycopg import sql

        with connected(self.database, PublishError, "reading the releases") as connection:
            schema = self._schema(connection)
            if schema is None or located(connection, f"{schema}.{RELEASES}") is None:
                return ()
            rows = connection.execute(
                sql.SQL("SELECT manifest FROM {} WHERE table_name = %s AND name = %s").format(
                    sql.Identifier(schema, RELEASES)
                ),
                [self.table, name],
            ).fetchall()
        return tuple(read_manifest(row[0], f"{schema}.{RELEASES} at {self.database}") for row in rows)

    def papers(self) -> tuple[Papers, ...]:
        with connected(self.database, PublishError, "reading the releases") as connection:
            schema = self._schema(connection)
            if schema is None or located(connection, f"{schema}.{RELEASES}") is None:
                return ()
            return recorded_papers(connection, schema, self.table, has_envelopes(connection, schema))

    def _intact(self, connection: Any, schema: str, manifest: Manifest) -> bool:
        contents = kept_papers(connection, schema, self.table, manifest)
        return is_whole(manifest, hashes_of(self._held_files(connection, schema, manifest), contents))

    def _held_files(self, connection: Any, schema: str, manifest: Manifest) -> list[PublishedFile]:
        names = (*self._of(table_names(manifest)), f"{self.table}{ESTIMATES}")
        there = [name for name in names if located(connection, f"{schema}.{name}") is not None]
        return [file_of(f"{schema}.{name}", rows_of(connection, schema, name)) for name in there]

    def _schema(self, connection: Any) -> str | None:
        if not self.given_schema:
            found = connection.execute("SELECT pg_catalog.current_schema()").fetchone()[0]
            return str(found) if found else None
        exists = connection.execute(
            "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s", [self.given_schema]
        ).fetchone()
        return self.given_schema if exists else None

    def _no_schema(self) -> PublishError:
        return PublishError(
            f"{self.database} has no schema to publish into", "create the schema and grant CREATE on it"
        )

    def _refuse_foreign_tables(
        self, connection: Any, schema: str, shown: Manifest | None, names: tuple[str, ...]
    ) -> None:
        ours = () if shown is None else self._of(table_names(shown))
        for table in self._of(names):
            found = located(connection, f"{schema}.{table}")
            if found is not None and (found[2] != "r" or table not in ours):
                raise foreign(f"{schema}.{table}", str(self.database))

    def _published(self, schema: str, manifest: Manifest, text: str, current: bool) -> Published:
        place = f"{self.database} table {schema}.{self.table}"
        where = place if current else f"{place} (since replaced by a newer release)"
        return Published(manifest, where, f"{self.database} table {schema}.{RELEASES}, column card", sha256_text(text))
