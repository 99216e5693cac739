"""A release as it lies in its place: a directory, an object store or a table. Read, and not believed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from understudy.pipelines.canonical import sha256_file
from understudy.pipelines.errors import PublishError, SpecError, ValidationFailed
from understudy.pipelines.publishing.attesting import ENVELOPE
from understudy.pipelines.publishing.findings import Finding
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile

MANIFEST = "manifest.json"
LATEST = "latest"
RETIRED = "retired.json"


@dataclass(frozen=True)
class StoredRelease:
    """`hashes` has every file that the manifest lists, None if it cannot be read. `dated` has the time of every
    release that lies beside this one, and `shown` is the one of them that readers are led to."""

    manifest: Manifest
    text: bytes = field(repr=False)
    envelope: str | None = field(repr=False)
    hashes: Mapping[str, str | None]
    strangers: tuple[str, ...] = ()
    retired: bool = False
    directory: str | None = None
    dated: Mapping[str, str] = field(default_factory=dict)
    shown: str | None = None
    leftovers: int = 0

    def findings(self) -> list[Finding]:
        found = [self._file(file) for file in self.manifest.files]
        if self.directory is not None:
            more = ", ".join(self.strangers[:3])
            left = f"; {self.leftovers} objects of unfinished attempts belong to none" if self.leftovers else ""
            told = f"not in the manifest: {more}" if more else f"the manifest lists all there is{left}"
            found.append(Finding("no other file", not more, told))
            named = self.directory == self.manifest.release_id
            what = f"is {self.manifest.release_id}" if named else f"is {self.manifest.release_id}, not {self.directory}"
            found.append(Finding("release id", named, what))
        return found + self._latest()

    def _file(self, file: PublishedFile) -> Finding:
        found, rows = self.hashes.get(file.path), "data/" in file.path
        if self.retired and rows:
            return Finding(file.path, found is None, "retired" if found is None else "retired, and yet it is there")
        if found is None:
            return Finding(file.path, False, "missing or unreadable")
        same = found == file.sha256
        size = f"{file.bytes:,} bytes" + (" of rows" if file.path.startswith("table ") else "")
        return Finding(file.path, same, size if same else "changed after publication")

    def _latest(self) -> list[Finding]:
        if self.shown is None:
            return []
        if self.shown not in self.dated:
            return [Finding("latest", False, "it shows no release")]
        newest = max(self.dated, key=lambda one: (self.dated[one], one == self.shown))
        if newest == self.shown:
            return [Finding("latest", True, f"shows {self.shown}, and none beside it is newer")]
        return [Finding("latest", False, f"turned back: it shows {self.shown}, and {newest} is newer")]


def read_directory(place: str) -> StoredRelease:
    """A release's directory, its manifest, or the folder of all releases of a name, of which the latest is meant."""
    folder = Path(place)
    if folder.name == MANIFEST:
        folder = folder.parent
    if not (folder / MANIFEST).exists() and (folder / LATEST).exists():
        folder = folder / LATEST
    folder = folder.resolve()
    text = _bytes(folder / MANIFEST)
    if text is None:
        raise SpecError(f"{place} is no release", "name the directory that holds its manifest.json")
    manifest = parsed(text, f"{place}: {MANIFEST}")
    envelope = _bytes(folder / ENVELOPE)
    listed = {file.path for file in manifest.files} | {MANIFEST, ENVELOPE, RETIRED}
    beside = folder.parent
    shown = (beside / LATEST).resolve().name if os.path.lexists(beside / LATEST) else None
    return StoredRelease(
        manifest,
        text,
        None if envelope is None else envelope.decode(errors="replace"),
        {file.path: _hash(folder, file.path) for file in manifest.files},
        tuple(path for path in _all_files(folder) if path not in listed),
        retired=(folder / RETIRED).exists(),
        directory=folder.name,
        dated=dict(dated((path.parent.name, _bytes(path)) for path in _beside(beside))),
        shown=shown,
    )


def parsed(text: bytes | str, where: str) -> Manifest:
    try:
        return Manifest.model_validate(json.loads(text))
    except (ValueError, ValidationError, RecursionError):
        pass
    raise ValidationFailed(
        f"{where} cannot be read: it was changed or cut short", "stop using the release and find out who changed it"
    )


def dated(manifests: Iterable[tuple[str, bytes | str | None]]) -> Iterable[tuple[str, str]]:
    """Names and times of the manifests that can be read; the others are no releases that anything could show."""
    for name, text in manifests:
        try:
            yield name, str(json.loads(text or b"")["created_at"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue


def _beside(folder: Path) -> list[Path]:
    found = sorted(folder.glob(f"*/{MANIFEST}"))
    return [path for path in found if not path.parent.is_symlink() and not path.parent.name.startswith(".")]


def _all_files(folder: Path) -> Iterable[str]:
    for at, folders, files in os.walk(folder):
        links = [name for name in folders if (Path(at) / name).is_symlink()]
        yield from sorted((Path(at) / name).relative_to(folder).as_posix() for name in (*files, *links))


def _hash(folder: Path, path: str) -> str | None:
    """Of a plain file inside the directory; a manifest may be forged to name any path."""
    try:
        file = (folder / path).resolve()
        return sha256_file(file) if file.is_relative_to(folder) and file.is_file() else None
    except (OSError, ValueError):
        return None


def _bytes(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        problem = error.strerror
    raise PublishError(f"cannot read {path}: {problem}", "ask for permission to read the release")
