"""Where published releases lie, for whoever lists them and shows their papers: directories, and tables of databases.

Nothing that is asked for is made part of a path or a query: it is looked up among the releases that are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.attesting import ENVELOPE
from understudy.pipelines.publishing.catalogue import Listed, listed_in, release_in
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.stored import CARD, MANIFEST
from understudy.pipelines.publishing.targets.base import Target, target_kind
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.handling import PublishSpec

PAPERS = (CARD, MANIFEST, ENVELOPE)


class Shelf(Protocol):
    def listed(self) -> list[Listed]: ...

    def paper(self, name: str, release_id: str, file: str) -> tuple[Manifest, bytes] | None:
        """One of `PAPERS` of a release that is there, as it lies there, and the manifest to check it by."""
        ...


@dataclass(frozen=True)
class FolderShelf:
    """A directory of releases."""

    root: Path

    def listed(self) -> list[Listed]:
        return listed_in(self.root)

    def paper(self, name: str, release_id: str, file: str) -> tuple[Manifest, bytes] | None:
        one = release_in(self.root, name, release_id)
        if one is None or file not in PAPERS:
            return None
        place = self.root / one.manifest.name / one.manifest.release_id / file
        return None if place.is_symlink() or not place.is_file() else (one.manifest, place.read_bytes())


@dataclass(frozen=True)
class TableShelf:
    """A table that releases are published into. It holds the rows of the newest, and the papers of all."""

    target: Target

    def listed(self) -> list[Listed]:
        return [
            Listed(one.manifest, CARD if card_is_listed(one.manifest) else None, one.current, retired=not one.current)
            for one in self.target.papers()
        ]

    def paper(self, name: str, release_id: str, file: str) -> tuple[Manifest, bytes] | None:
        for one in self.target.papers():
            if (one.manifest.name, one.manifest.release_id) == (name, release_id):
                found = {CARD: one.card, MANIFEST: one.text, ENVELOPE: one.envelope}.get(file)
                return None if found is None else (one.manifest, found.encode())
        return None


def shelf_at(place: str) -> Shelf:
    """A directory, or a table as `verify` takes it: `duckdb:///file.duckdb#table`."""
    if "://" not in place:
        if not Path(place).is_dir():
            raise SpecError(f"there is no directory {place}", "name the directories that releases are published to")
        return FolderShelf(Path(place).resolve())
    text, _, table = place.rpartition("#")
    publish = PublishSpec(to=text or place, table=table if text else None)
    kind = target_kind(Address.parse(publish.to, "the releases", publish.table))
    if kind is None or not kind.terms.table or publish.table is None:
        raise SpecError(
            f"{place} is no table that releases are published into",
            "name it as duckdb:///file.duckdb#table; an object store keeps its own index.html",
        )
    return TableShelf(kind.opened(publish, Path.cwd()))


def card_is_listed(manifest: Manifest) -> bool:
    """Older versions recorded cards in databases that no manifest lists: they cannot be checked."""
    return any(file.path == CARD for file in manifest.files)


def card_is_published(content: bytes, manifest: Manifest) -> bool:
    listed = next((one for one in manifest.files if one.path == CARD), None)
    return listed is not None and sha256(content).hexdigest() == listed.sha256
