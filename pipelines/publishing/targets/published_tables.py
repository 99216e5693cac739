"""What databases share as targets: the table that records releases, and a hash of a table's rows in any order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pydantic import ValidationError

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile, ReleaseFile
from understudy.pipelines.publishing.stored import StoredRelease, dated, parsed

RELEASES = "understudy_releases"
FILES = "understudy_files"
"""What travels with a release beside its rows, a row a file, of every release that was published into a table."""


ESTIMATES = "_estimates"
"""What the name of a table with estimates ends with, after that of the published one."""


def table_in_database(table: str, name: str) -> str:
    """What one of several tables is called: after `publish.table`."""
    return f"{table}_{name}" if name else table


@dataclass(frozen=True)
class HeldTable:
    """The release that a table is said to hold, and the hashes of what is found of it now."""

    manifest: Manifest
    hashes: Mapping[str, str]
    text: str = field(repr=False)
    envelope: str | None = field(repr=False)
    recorded: tuple[tuple[str, str], ...] = field(repr=False)
    """Every release that was ever published into the table: its id and its manifest."""
    contents: Mapping[str, bytes] = field(repr=False)
    rows: Callable[[str], pa.Table] = field(repr=False)
    kept: Callable[[Manifest], Mapping[str, bytes]] = field(repr=False)
    """The files that travelled with a release that was published into the table."""
    card: str = field(repr=False)

    @property
    def intact(self) -> bool:
        """Whether rows and files are still those that were published."""
        return is_whole(self.manifest, self.hashes)

    @property
    def release(self) -> StoredRelease:
        hashes = {file.path: self.hashes.get(file.path) for file in self.manifest.files}
        known = dict(dated(self.recorded))
        shown = self.manifest.release_id
        return StoredRelease(
            self.manifest,
            self.text.encode(),
            self.envelope,
            hashes,
            dated=known,
            shown=shown if known else None,
            content=self.contents.get,
            rows=self.rows,
            earlier=self._earlier,
            recorded_card=self.card,
        )

    def _earlier(self) -> tuple[StoredRelease, ...]:
        others = (
            parsed(text, f"the record of {mid}") for mid, text in self.recorded if mid != self.manifest.release_id
        )
        return tuple(
            StoredRelease(other, b"", None, {}, retired=True, content=dict(self.kept(other)).get)
            for other in others
            if other.name == self.manifest.name
        )


def listed(files: Iterable[ReleaseFile]) -> tuple[PublishedFile, ...]:
    """Files kept in the database, as the manifest lists them."""
    return tuple(
        PublishedFile(path=file.path, sha256=hashlib.sha256(file.content).hexdigest(), bytes=len(file.content))
        for file in files
    )


def hashes_of(tables: Iterable[PublishedFile], contents: Mapping[str, bytes]) -> dict[str, str]:
    """What is found of a release now: its tables, as far as they are there, and its files."""
    found = {path: hashlib.sha256(content).hexdigest() for path, content in contents.items()}
    return {**{table.path: table.sha256 for table in tables}, **found}


def lists(manifest: Manifest | None, table: str) -> bool:
    """Whether a table is of that release."""
    return manifest is not None and any(file.path == f"table {table}" for file in manifest.files)


def is_whole(manifest: Manifest, hashes: Mapping[str, str]) -> bool:
    return all(hashes.get(file.path) == file.sha256 for file in manifest.files)


def file_of(table: str, rows: Iterable[bytes]) -> PublishedFile:
    """A table as the manifest lists it: a hash of its rows that does not depend on their order, and their bytes."""
    count = total = size = 0
    for row in rows:
        total = (total + int.from_bytes(hashlib.sha256(row).digest(), "big")) % (1 << 256)
        count, size = count + 1, size + len(row)
    return PublishedFile(path=f"table {table}", sha256=hash_of({"rows": count, "sum": f"{total:064x}"}), bytes=size)


def read_manifest(text: str, where: str) -> Manifest:
    try:
        return Manifest.model_validate(json.loads(text))
    except (ValueError, ValidationError):
        raise PublishError(f"{where} holds a broken manifest", "restore that row from a backup") from None


def changed(table: str, where: str, manifest: Manifest) -> PublishError:
    return PublishError(
        f"table {table} at {where} is missing or was changed after publication",
        f"delete its row (release_id {manifest.release_id}) from {RELEASES} and release again: it is free",
    )


def foreign(table: str, where: str) -> PublishError:
    return PublishError(
        f"{table} at {where} exists and was not published by Understudy",
        "choose another publish.table, or rename or drop that one yourself",
    )
