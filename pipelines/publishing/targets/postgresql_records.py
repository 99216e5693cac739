"""What a PostgreSQL database records of the releases in a schema: manifest, card, signature, files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.manifest import Manifest, ReleaseFile
from understudy.pipelines.publishing.stored import CARD
from understudy.pipelines.publishing.targets.base import Papers, PreparedRelease
from understudy.pipelines.publishing.targets.published_tables import FILES, RELEASES, read_manifest
from understudy.pipelines.sources.databases.postgresql_connection import located


def prepare_records(connection: Any, schema: str) -> None:
    from psycopg import sql

    connection.execute(
        sql.SQL(
            "CREATE TABLE IF NOT EXISTS {} (name text NOT NULL, release_id text NOT NULL, table_name text NOT NULL,"
            " current boolean NOT NULL, published_at timestamptz NOT NULL DEFAULT now(), manifest text NOT NULL,"
            " card text NOT NULL, envelope text, PRIMARY KEY (name, release_id, table_name))"
        ).format(sql.Identifier(schema, RELEASES))
    )
    if not has_envelopes(connection, schema):  # made before releases were signed
        connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN envelope text").format(sql.Identifier(schema, RELEASES)))


def has_envelopes(connection: Any, schema: str) -> bool:
    query = "SELECT 1 FROM pg_catalog.pg_attribute WHERE attrelid = %s AND attname = 'envelope'"
    records = located(connection, f"{schema}.{RELEASES}")
    return records is not None and connection.execute(query, [records[3]]).fetchone() is not None


def record_release(
    connection: Any, schema: str, table: str, manifest: Manifest, text: str, release: PreparedRelease
) -> None:
    from psycopg import sql

    records = sql.Identifier(schema, RELEASES)
    connection.execute(sql.SQL("UPDATE {} SET current = false WHERE table_name = %s").format(records), [table])
    connection.execute(
        sql.SQL(
            "INSERT INTO {} (name, release_id, table_name, current, manifest, card, envelope)"
            " VALUES (%s, %s, %s, true, %s, %s, %s)"
        ).format(records),
        [manifest.name, manifest.release_id, table, text, release.card, attest(manifest, text, release.key)],
    )


def keep_files(connection: Any, schema: str, table: str, manifest: Manifest, files: Sequence[ReleaseFile]) -> None:
    """Beside the record of the release, in its transaction."""
    from psycopg import sql

    place = sql.Identifier(schema, FILES)
    if files and located(connection, f"{schema}.{FILES}") is None:
        connection.execute(
            sql.SQL(
                "CREATE TABLE {} (name text NOT NULL, release_id text NOT NULL, table_name text NOT NULL,"
                " path text NOT NULL, content bytea NOT NULL, PRIMARY KEY (name, release_id, table_name, path))"
            ).format(place)
        )
    for file in files:
        connection.execute(
            sql.SQL("INSERT INTO {} (name, release_id, table_name, path, content) VALUES (%s, %s, %s, %s, %s)").format(
                place
            ),
            [manifest.name, manifest.release_id, table, file.path, file.content],
        )


def kept_papers(connection: Any, schema: str, table: str, manifest: Manifest) -> dict[str, bytes]:
    """The files that travelled with a release, and its card."""
    from psycopg import sql

    def recorded(columns: sql.SQL, where: str) -> Any:
        if located(connection, f"{schema}.{where}") is None:
            return []
        query = sql.SQL("SELECT {} FROM {} WHERE name = %s AND release_id = %s AND table_name = %s")
        asked = query.format(columns, sql.Identifier(schema, where))
        return connection.execute(asked, [manifest.name, manifest.release_id, table]).fetchall()

    files = {path: bytes(content) for path, content in recorded(sql.SQL("path, content"), FILES)}
    for (card,) in recorded(sql.SQL("card"), RELEASES):
        files[CARD] = card.encode()
    return files


def recorded_papers(connection: Any, schema: str, table: str, signed: bool) -> tuple[Papers, ...]:
    """Of every release that was published into a table."""
    from psycopg import sql

    rows = connection.execute(
        sql.SQL("SELECT manifest, current, {}, card FROM {} WHERE table_name = %s").format(
            sql.Identifier("envelope") if signed else sql.NULL, sql.Identifier(schema, RELEASES)
        ),
        [table],
    ).fetchall()
    return tuple(
        Papers(read_manifest(text, f"{schema}.{RELEASES}"), current, text, *rest) for text, current, *rest in rows
    )
