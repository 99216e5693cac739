"""A release as it lies in its place: a directory, an object store or a table. Read, and not believed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from understudy.pipelines.canonical import sha256_file
from understudy.pipelines.errors import PublishError, SpecError, ValidationFailed
from understudy.pipelines.publishing.attesting import ENVELOPE
from understudy.pipelines.publishing.findings import Finding
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile

MANIFEST = "manifest.json"
CARD = "card.html"
LATEST = "latest"
RETIRED = "retired.json"
ATTEMPT = re.compile(r"[0-9a-f]{12}/")
"""In an object store, the files of a release lie under the name of the attempt that wrote them."""


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
    content: Callable[[str], bytes | None] = field(default=lambda path: None, repr=False)
    """What a listed file holds, None where it cannot be read or is no file; whether it is the published one, `hashes`
    says."""
    rows: Callable[[str], pa.Table] | None = field(default=None, repr=False)
    """The published rows in a database, of the table of that name; of other releases they are in files under data/."""
    recorded_card: str | None = field(default=None, repr=False)
    """The card beside the record of a release whose manifest lists none: older versions did not, in databases."""
    earlier: Callable[[], tuple[StoredRelease, ...]] = field(default=tuple, repr=False)
    """Of a table, the releases of the name that this one replaced there: what they measured, without rows."""

    def trusted(self, path: str) -> bytes | None:
        """The content of a file that the manifest lists, if it has the hash it should have; None if none is listed."""
        listed = next((file for file in self.manifest.files if _plain(file.path) == path), None)
        if listed is None:
            return None
        content = self.content(listed.path)
        if content is not None and sha256(content).hexdigest() == listed.sha256:
            return content
        raise ValidationFailed(
            f"{path} of the release is missing or was changed after publication",
            "do not use the release; ask its publisher for another copy",
        )

    def card(self) -> str:
        """As it was published; what an older version recorded in a database is as it stands there."""
        content = self.trusted(CARD)
        if content is None and self.recorded_card is not None:
            return self.recorded_card
        if content is None:
            raise PublishError(f"{self.manifest.release_id} was published without a card", "read its manifest")
        return content.decode()

    def tables(self) -> dict[str, pa.Table]:
        """The published rows by table, each file checked; a table that is alone has the empty name."""
        return {name: self.table(name) for name in [fact.name for fact in self.manifest.tables] or [""]}

    def table(self, name: str = "") -> pa.Table:
        """All published rows, each file checked; of several tables, those of one."""
        known = [fact.name for fact in self.manifest.tables]
        if known and name not in known:
            raise SpecError(f"{self.manifest.name} has several tables", f"name one of {', '.join(known)}")
        if self.retired:
            raise PublishError(f"{self.manifest.release_id} was retired: it has no rows", "ask a newer release")
        if self.rows is not None:
            if any(self.hashes.get(file.path) != file.sha256 for file in self.manifest.files):
                raise ValidationFailed("the release was changed after publication", "do not use it; ask for another")
            return self.rows(name)
        listed = (_plain(file.path) for file in self.manifest.files if holds_rows(file.path))
        folder = f"data/{name}/" if name else "data/"
        paths = sorted(path for path in listed if path.startswith(folder))
        parts = [pq.read_table(BytesIO(self.trusted(path) or b"")) for path in paths]
        if not parts:
            raise PublishError(f"the rows of {self.manifest.release_id} cannot be read here", "read them yourself")
        return pa.concat_tables(parts)

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
        found, rows = self.hashes.get(file.path), holds_rows(file.path)
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


def holds_rows(path: str) -> bool:
    """Whether a file of a release is of its rows, which is what retiring takes away."""
    return path.startswith("data/") or "/data/" in path


def _plain(path: str) -> str:
    """Without the attempt of an object store."""
    return path.split("/", 1)[1] if ATTEMPT.match(path) else path


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
        content=lambda path: _content(folder, path),
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
    try:
        file = _inside(folder, path)
        return None if file is None else sha256_file(file)
    except (OSError, ValueError):
        return None


def _content(folder: Path, path: str) -> bytes | None:
    try:
        file = _inside(folder, path)
        return None if file is None else file.read_bytes()
    except (OSError, ValueError):
        return None


def _inside(folder: Path, path: str) -> Path | None:
    """A plain file inside the directory; a manifest may be forged to name any path."""
    file = (folder / path).resolve()
    return file if file.is_relative_to(folder) and file.is_file() else None


def _bytes(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        problem = error.strerror
    raise PublishError(f"cannot read {path}: {problem}", "ask for permission to read the release")
