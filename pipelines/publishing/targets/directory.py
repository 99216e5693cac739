"""Publishing into a directory: stage, flush, check, rename, then swap the `latest` pointer.

Layout: <root>/<name>/<release id>/{data/part-*.parquet, measured/*, manifest.json, manifest.dsse.json, card.html} and
<root>/<name>/latest, a symbolic link; of several tables, data/<table>/part-*.parquet. <root>/index.html lists all
releases and is part of none. A reader that follows `latest`
sees one complete release, signed, at any moment;
a kill at any line leaves at worst a hidden staging directory, which the next publication removes.
"""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
from pydantic import ValidationError

from understudy.pipelines.canonical import sha256_file
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.staging import flush, own_staging, remove_abandoned
from understudy.pipelines.publishing.attesting import ENVELOPE, attest
from understudy.pipelines.publishing.catalogue import INDEX, keep_catalogue, names_release
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.part_files import (
    PARTS,
    FolderOfParts,
    KeptParts,
    PartPlace,
    part_name,
    remove_old_parts,
)
from understudy.pipelines.publishing.stored import CARD, LATEST, MANIFEST, RETIRED, StoredRelease, read_directory
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, TargetBase
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

ROWS_A_FILE = 1_000_000
PROBE_BYTES = 65_536


class DirectoryTarget(TargetBase):
    terms = Terms(local=True)
    holds_trees = True

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> DirectoryTarget:
        if publish.address.scheme:
            raise SpecError("publish.to: cannot publish to file://", "give the directory as a plain path")
        return cls(base / publish.to)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        return read_directory(address.text)

    def ready(self, name: str) -> None:
        folder = self.root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with own_staging(folder) as probe:
                (probe / MANIFEST).write_bytes(b"\0" * PROBE_BYTES)
                flush(probe / MANIFEST)
                shutil.rmtree(probe)
        except OSError as error:
            raise PublishError(
                f"nothing can be published to {self.root}: {error.strerror}",
                "free space or permissions, or correct publish.to; nothing was spent",
            ) from None

    def recover(self, name: str, release_id: str) -> Published | None:
        place = self._contained(name, release_id)
        if not place.is_dir():
            return None
        manifest = read_release(place)
        if self._latest_is_older_than(manifest, place.parent):
            self._point_latest_at(place)
        if not names_release(self.root / INDEX, release_id):
            keep_catalogue(self.root)
        return _published(manifest, place)

    def newest(self, name: str) -> tuple[Manifest, ...]:
        found = []
        for path in sorted((self.root / name).glob(f"*/{MANIFEST}")):
            with suppress(OSError, ValueError):
                found.append(Manifest.model_validate(json.loads(path.read_text(encoding="utf-8"))))
        return tuple(found)

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        place = self._contained(manifest.name, manifest.release_id)
        if (published := self.recover(manifest.name, manifest.release_id)) is not None:
            return published
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(place.parent)
            with own_staging(place.parent) as staging:
                manifest = _write(release, staging)
                fault_point("publish_staged")
                read_release(staging)
                if not _moved_into_place(staging, place):  # a duplicate run was faster; its release is this one
                    return self.publish(release)
            fault_point("publish_mid_rename")
            flush(place.parent)
            fault_point("publish_before_pointer")
            self._point_latest_at(place)
            remove_old_parts(place.parent)
            keep_catalogue(self.root)
        except OSError as error:
            raise PublishError(
                f"cannot write the release to {place.parent}: {error.strerror}",
                "free space or permissions, then run again: nothing is spent twice",
            ) from None
        return _published(manifest, place)

    def retire_old(self, name: str, keep: int) -> list[str]:
        folder = self.root / name
        shown = os.readlink(folder / LATEST) if (folder / LATEST).is_symlink() else ""
        places = [path.parent for path in folder.glob(f"*/{MANIFEST}") if not path.parent.is_symlink()]
        dated = sorted((_manifest(place).created_at, place) for place in places)
        gone = [p for _, p in dated[:-keep] if p.name != shown and not (p / RETIRED).exists()]
        for place in gone:
            _retire(place)
        if gone:
            keep_catalogue(self.root)
        return [place.name for place in gone]

    def retired_release(self, name: str, release_id: str) -> Published | None:
        place = self.root / name / release_id
        if not (place / RETIRED).is_file():
            return None
        return Published(_manifest(place), f"{place} (retired)", str(place / CARD), sha256_file(place / MANIFEST))

    def staged_in(self, name: str) -> Path:
        return (self.root / name).absolute()

    def part_place(self, name: str, release_id: str, key: str) -> FolderOfParts:
        return FolderOfParts(self._contained(name, f"{PARTS}{release_id}-{key[:12]}").absolute())

    def _contained(self, name: str, release_id: str) -> Path:
        root = self.root.resolve()
        place = (root / name / release_id).resolve()
        if place.parent.parent != root:
            raise PublishError("the release would leave its directory", "use plain names without path separators")
        return place

    def _latest_is_older_than(self, manifest: Manifest, folder: Path) -> bool:
        """Repeating the release of an old snapshot must not turn `latest` back."""
        # Resolved once: a duplicate may swap the pointer between two looks through it.
        latest = (folder / LATEST).resolve()
        return not latest.is_dir() or read_release(latest).created_at < manifest.created_at

    def _point_latest_at(self, place: Path) -> None:
        pointer, fresh = place.parent / LATEST, place.parent / f".{LATEST}-{uuid.uuid4().hex}"
        if pointer.is_symlink() and os.readlink(pointer) == place.name:
            return
        os.symlink(place.name, fresh)
        fresh.replace(pointer)
        flush(place.parent)


def _published(manifest: Manifest, place: Path) -> Published:
    return Published(manifest, str(place), str(place / CARD), sha256_file(place / MANIFEST))


def read_release(place: Path) -> Manifest:
    """The manifest of a release whose every file has the hash it should have."""
    try:
        manifest = Manifest.model_validate(json.loads((place / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError):
        raise PublishError(
            f"{place} holds no readable manifest", "move that directory away and release again"
        ) from None
    for file in manifest.files:
        path = place / file.path
        if not path.is_file() or sha256_file(path) != file.sha256:
            raise PublishError(
                f"{path} is missing or was changed after publication",
                "move the release away and release again: it is free",
            )
    return manifest


def _retire(place: Path) -> None:
    """The rows go first and the mark is made last, so that what a kill interrupts the next call finishes."""
    try:
        if (place / "data").exists():
            shutil.rmtree(place / "data")
        note = place / f".{RETIRED}"
        note.write_text(json.dumps({"retired_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds")}) + "\n")
        note.replace(place / RETIRED)
    except OSError as error:
        raise PublishError(f"cannot retire {place}: {error.strerror}", "check the permissions") from None


def _manifest(place: Path) -> Manifest:
    try:
        return Manifest.model_validate(json.loads((place / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        raise PublishError(f"{place} holds no readable manifest", "move that directory away") from None


def _write(release: PreparedRelease, staging: Path) -> Manifest:
    for name, rows in release.tables.items():
        (staging / "data" / name).mkdir(parents=True)
        _write_rows(rows, staging / "data" / name)
    (staging / CARD).write_text(release.card, encoding="utf-8")
    for file in release.measured:
        (staging / file.path).parent.mkdir(exist_ok=True)
        (staging / file.path).write_bytes(file.content)
    paths = sorted(path for path in staging.rglob("*") if path.is_file())
    files = tuple(
        PublishedFile(path=str(path.relative_to(staging)), sha256=sha256_file(path), bytes=path.stat().st_size)
        for path in paths
    )
    manifest = release.manifest.model_copy(update={"files": files})
    text = json.dumps(manifest.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
    papers = {MANIFEST: text, ENVELOPE: attest(manifest, text, release.key)}
    written = {staging / name: paper.encode() for name, paper in papers.items() if paper is not None}
    for path, content in written.items():
        path.write_bytes(content)
    folders = sorted((path for path in staging.rglob("*") if path.is_dir()), reverse=True)
    for path in (*paths, *written, *folders, staging):
        flush(path)
    return manifest


def _write_rows(rows: Parts, folder: Path) -> None:
    if isinstance(rows, KeptParts):
        for number, file in enumerate(rows.files):
            path = folder / part_name(number)
            if not _linked(rows.place, number, path) or sha256_file(path) != file.sha256:
                path.unlink(missing_ok=True)
                path.write_bytes(rows.content(number))
        return
    slices = (part.slice(start, ROWS_A_FILE) for part in rows for start in range(0, max(1, len(part)), ROWS_A_FILE))
    for number, piece in enumerate(slices):
        pq.write_table(piece, folder / part_name(number), compression="zstd")


def _linked(place: PartPlace, number: int, path: Path) -> bool:
    """The same file under two names: nothing is copied, and a kill leaves the first."""
    if not isinstance(place, FolderOfParts):
        return False
    with suppress(OSError):  # another disk, or a file system without links
        os.link(place.path(number), path)
        return True
    return False


def _moved_into_place(staging: Path, place: Path) -> bool:
    try:
        staging.rename(place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        shutil.rmtree(staging, ignore_errors=True)
        return False
    return True
