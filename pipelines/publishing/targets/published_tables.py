"""What databases share as targets: the table that records releases, and a hash of a table's rows in any order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import ValidationError

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease, dated

RELEASES = "understudy_releases"


@dataclass(frozen=True)
class HeldTable:
    """The release that a table is said to hold, and whether its rows are still those that were published."""

    manifest: Manifest
    intact: bool
    text: str = field(repr=False)
    envelope: str | None = field(repr=False)
    recorded: tuple[tuple[str, str], ...] = field(repr=False)
    """Every release that was ever published into the table: its id and its manifest."""

    @property
    def release(self) -> StoredRelease:
        hashes = {file.path: file.sha256 if self.intact else None for file in self.manifest.files}
        known = dict(dated(self.recorded))
        shown = self.manifest.release_id
        return StoredRelease(
            self.manifest, self.text.encode(), self.envelope, hashes, dated=known, shown=shown if known else None
        )


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
