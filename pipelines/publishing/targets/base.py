"""Where a release goes. A target either shows the whole release or the one before it, never a part."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.publishing.targets.published_tables import HeldTable
from understudy.pipelines.sources.files.object_paths import OBJECT_STORES
from understudy.pipelines.spec.model import ReleaseSpec

_DATABASES = ("duckdb", "postgresql", "postgresql+env", "postgresql+block")


@dataclass(frozen=True)
class PreparedRelease:
    """Everything public about a release, ready to be written, and the key that signs it once its files are hashed."""

    manifest: Manifest
    table: pa.Table
    card: str
    key: SigningKey | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Published:
    """A release in its place: what it is, where a person finds it, and the hash of its manifest as it lies there."""

    manifest: Manifest
    location: str
    card: str
    manifest_sha256: str


class Target(Protocol):
    def ready(self, name: str) -> None:
        """Before anything is charged: raise PublishError if a release of that name could not be published here."""
        ...

    def recover(self, name: str, release_id: str) -> Published | None:
        """The release if it was published, its publication finished if a crash interrupted the very end of it.

        A release whose hashes are wrong is an error, a missing one is None.
        """
        ...

    def publish(self, release: PreparedRelease) -> Published: ...

    def newest(self, name: str) -> tuple[Manifest, ...]:
        """What this place remembers of the name's releases, the newest among them; unchecked, to compare a ledger with.

        What cannot be read says nothing here: `recover` refuses it where it matters.
        """
        ...


class TableTarget(Target, Protocol):
    """A table of a database, which holds one release at a time."""

    def held(self) -> HeldTable | None: ...


def open_target(spec: ReleaseSpec, base: Path) -> Target:
    """The target a spec names; relative places are resolved against the directory of the spec."""
    to = spec.publish.to
    scheme = to.split("://", 1)[0] if "://" in to else ""
    if scheme in _DATABASES:
        if not spec.publish.table:
            raise SpecError(
                "publish.table is missing", "name the table to publish into, or give a directory in publish.to"
            )
        return table_target(to, spec.publish.table, base, "publish.to")
    if scheme in OBJECT_STORES:
        from understudy.pipelines.publishing.targets.object_store import ObjectStoreTarget

        return ObjectStoreTarget(to)
    if scheme:
        raise SpecError(
            f"publish.to: cannot publish to {scheme}://",
            "use a directory, duckdb:///file.duckdb, postgresql://user@host/database or s3://bucket/path",
        )
    from understudy.pipelines.publishing.targets.directory import DirectoryTarget

    return DirectoryTarget(base / to)


def table_target(address: str, table: str, base: Path, said_in: str) -> TableTarget:
    """A table of the database at this address; a relative DuckDB file is looked for from `base`."""
    if address.startswith("duckdb://"):
        from understudy.pipelines.publishing.targets.duckdb_table import DuckDBTarget

        return DuckDBTarget(base / address.removeprefix("duckdb:///"), table)
    from understudy.pipelines.publishing.targets.postgresql import PostgresTarget
    from understudy.pipelines.spec.address import Database

    return PostgresTarget(Database.parse(address, said_in), table)


def release_id(spec: ReleaseSpec, mids: tuple[str, ...]) -> str:
    """The same measurements published the same way are the same release, so publishing twice is publishing once."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", spec.source.snapshot).strip("-")[:40] or "snapshot"
    identity = [list(mids), spec.publish.identity, spec.generate.model_dump(mode="json")]
    return f"{readable}-{hash_of(identity)[:12]}"
