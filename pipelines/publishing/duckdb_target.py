"""Publishing into a DuckDB table: loaded beside the old one, swapped in the transaction that records the manifest."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
from pydantic import ValidationError

from understudy.pipelines.errors import PublishError
from understudy.pipelines.privacy.fault_points import fault_point
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.targets import PreparedRelease, Published

RELEASES = "understudy_releases"


class DuckDBTarget:
    def __init__(self, path: Path, table: str) -> None:
        self.path = path
        self.table = table

    def recover(self, name: str, release_id: str) -> Published | None:
        if not self.path.exists():
            return None
        with self._connect() as connection:
            if not connection.execute(
                "SELECT 1 FROM information_schema.tables WHERE table_name = ?", [RELEASES]
            ).fetchone():
                return None
            row = connection.execute(
                f"SELECT manifest FROM {RELEASES} WHERE name = ? AND release_id = ? AND current",  # noqa: S608
                [name, release_id],
            ).fetchone()
        if row is None:
            return None
        try:
            return self._published(Manifest.model_validate(json.loads(row[0])))
        except (ValueError, ValidationError):
            raise PublishError(f"{RELEASES} in {self.path} holds a broken manifest", "delete that row") from None

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        if (published := self.recover(manifest.name, manifest.release_id)) is not None:
            return published
        self.path.parent.mkdir(parents=True, exist_ok=True)
        table, staged = _quoted(self.table), _quoted(f"{self.table}__staged")
        with self._connect() as connection:
            try:
                connection.register("release_rows", release.table)
                connection.execute(f"CREATE OR REPLACE TABLE {staged} AS SELECT * FROM release_rows")  # noqa: S608
                fault_point("publish_staged")
                connection.execute("BEGIN")
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {RELEASES} "
                    "(name TEXT, release_id TEXT, current BOOLEAN, manifest TEXT, card TEXT)"
                )
                connection.execute(f"UPDATE {RELEASES} SET current = false WHERE name = ?", [manifest.name])  # noqa: S608
                connection.execute(
                    f"INSERT INTO {RELEASES} VALUES (?, ?, true, ?, ?)",  # noqa: S608
                    [manifest.name, manifest.release_id, manifest.model_dump_json(), release.card],
                )
                connection.execute(f"DROP TABLE IF EXISTS {table}")
                connection.execute(f"ALTER TABLE {staged} RENAME TO {table}")
                fault_point("publish_before_pointer")
                connection.execute("COMMIT")
            except duckdb.Error as error:
                raise PublishError(
                    f"cannot publish into {self.table} of {self.path}: {type(error).__name__}",
                    "check that the file is writable and the name is not a view's; running again is free",
                ) from None
        return self._published(manifest)

    def _published(self, manifest: Manifest) -> Published:
        return Published(manifest, f"{self.path} table {self.table}", f"{self.path} table {RELEASES}, column card")

    def _connect(self) -> duckdb.DuckDBPyConnection:
        try:
            return duckdb.connect(str(self.path))
        except duckdb.Error as error:
            raise PublishError(
                f"cannot open {self.path} for writing: {type(error).__name__}",
                "close other programs that hold the database, then run again: nothing is spent twice",
            ) from None


def _quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
