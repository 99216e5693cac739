"""Parts of a release as Parquet files, kept where they wait for its publication.

A part is written once it is drawn and checked, whole or not at all, under a name that says of which release, which fit
and which part it is. A run that is killed leaves what it has made, and the next one goes on from there: it reads what
is there, checks it as if it had just been drawn, and makes what is missing. Released and synthetic numbers only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.errors import PublishError
from understudy.pipelines.privacy.ledger.staging import flush
from understudy.pipelines.table.in_parts import Parts

PARTS = ".parts-"
ABANDONED_SECONDS = 24 * 3600


class PartPlace(Protocol):
    """Where files of parts wait. It can be pickled; `everywhere` says whether other machines see the same place."""

    @property
    def everywhere(self) -> bool: ...

    def get(self, number: int) -> bytes | None: ...

    def put(self, number: int, content: bytes) -> None:
        """Whole or not at all; who comes second puts the same bytes."""
        ...

    def clear(self) -> None:
        """Once the release is published; nothing here is needed any more."""
        ...

    def of(self, table: str) -> PartPlace:
        """Where those of one of several tables wait."""
        ...


@dataclass(frozen=True)
class FolderOfParts:
    folder: Path
    everywhere: bool = False

    def path(self, number: int) -> Path:
        return self.folder / part_name(number)

    def get(self, number: int) -> bytes | None:
        try:
            return self.path(number).read_bytes()
        except FileNotFoundError:
            return None

    def put(self, number: int, content: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f".{uuid.uuid4().hex}"
        partial.write_bytes(content)
        flush(partial)
        partial.replace(self.path(number))

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent.name.startswith(PARTS):
            with suppress(OSError):  # others of several tables may be there still
                self.folder.parent.rmdir()

    def of(self, table: str) -> FolderOfParts:
        return FolderOfParts(self.folder / table, self.everywhere) if table else self


@dataclass(frozen=True, eq=False)
class MemoryOfParts:
    """Parts of a table that a program wants in memory anyway, packed."""

    everywhere: bool = False
    packed: dict[int, bytes] = field(default_factory=dict, repr=False)
    tables: dict[str, MemoryOfParts] = field(default_factory=dict, repr=False)

    def get(self, number: int) -> bytes | None:
        return self.packed.get(number)

    def put(self, number: int, content: bytes) -> None:
        self.packed[number] = content

    def clear(self) -> None:
        """They stay as long as the table does."""

    def of(self, table: str) -> MemoryOfParts:
        return self.tables.setdefault(table, MemoryOfParts()) if table else self


@dataclass(frozen=True)
class PartFile:
    """What a manifest says of a file."""

    sha256: str
    size: int

    @classmethod
    def of(cls, content: bytes) -> PartFile:
        return cls(hashlib.sha256(content).hexdigest(), len(content))


@dataclass(frozen=True, eq=False)
class KeptParts(Parts):
    """Parts that lie in a place as files."""

    place: PartPlace = field(default_factory=MemoryOfParts)
    files: tuple[PartFile, ...] = ()

    @classmethod
    def at(cls, place: PartPlace, schema: pa.Schema, sizes: tuple[int, ...], files: tuple[PartFile, ...]) -> KeptParts:
        return cls(schema, sizes, _InPlace(place, files), place, files)

    def content(self, number: int) -> bytes:
        return _InPlace(self.place, self.files).content(number)


@dataclass(frozen=True, eq=False)
class _InPlace:
    place: PartPlace
    files: tuple[PartFile, ...]

    def __call__(self, number: int) -> pa.Table:
        return unpacked(self.content(number))

    def content(self, number: int) -> bytes:
        content = self.place.get(number)
        if content is None or PartFile.of(content) != self.files[number]:
            raise PublishError(f"part {number} of the release is gone, or not what was made", "run again: it is free")
        return content


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


def packed(part: pa.Table) -> bytes:
    sink = BytesIO()
    pq.write_table(part, sink, compression="zstd")
    return sink.getvalue()


def unpacked(content: bytes) -> pa.Table:
    return pq.read_table(BytesIO(content), use_threads=False)


def remove_old_parts(folder: Path) -> None:
    """What killed runs left of releases that nobody went on with."""
    for left in folder.glob(f"{PARTS}*"):
        with suppress(OSError):
            newest = max(os.stat(path).st_mtime for path in (left, *left.iterdir()))
            if time.time() - newest > ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
