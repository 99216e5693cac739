"""Publishing into an object store: data first, then the envelope, then the manifest that lists it, then the pointer.

Layout: <root>/<name>/<release id>/{<attempt>/data/part-*.parquet, <attempt>/measured/*, <attempt>/card.html,
<attempt>/manifest.dsse.json, manifest.json} and <root>/<name>/latest.json, which names the release. A put of one object
is atomic in these stores and nothing else is, so every attempt writes under a name of its own, a release exists once
its manifest does, and what the manifest lists was complete before. <root>/index.html lists them and is part of none.
A reader starts at latest.json; what a dead attempt
left is never listed, and `retire` removes it.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from understudy.pipelines.errors import PublishError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.publishing.attesting import ENVELOPE, attest
from understudy.pipelines.publishing.catalogue import INDEX, Listed, catalogue_page, ours
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.part_files import KeptParts, packed, part_name
from understudy.pipelines.publishing.stored import ATTEMPT, MANIFEST, RETIRED, StoredRelease, dated, holds_rows, parsed
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, TargetBase
from understudy.pipelines.publishing.targets.store_of_parts import StoreOfParts
from understudy.pipelines.sources.files.object_paths import open_store, storing
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts

ROWS_A_FILE = 1_000_000
LATEST = "latest.json"
MOST_READ = 100
"""Manifests of a name that its catalogue is made of."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")


class ObjectStoreTarget(TargetBase):
    holds_trees = True

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._store, self._root = open_store(uri, "publish.to")

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> ObjectStoreTarget:
        return cls(publish.to)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        """`.../name/release-id`, its manifest, or `.../name`, whose pointer says which release is meant."""
        path = address.text.rstrip("/").removesuffix(f"/{MANIFEST}")
        for depth, named in ((2, True), (1, False)):
            root, *names = path.rsplit("/", depth)
            if len(names) == depth and "://" in root and not root.endswith(("/", ":")):
                found = cls(root).stored_as(names[0], names[1] if named else None)
                if found is not None:
                    return found
        return None

    def ready(self, name: str) -> None:
        probe = f"{self._root}/{self._plain(name)}/.probe-{uuid.uuid4().hex}"
        with storing(self._root, PublishError, "writing"):
            self._store.pipe_file(probe, b"")
        with suppress(Exception):  # a store may let us write and not delete; publishing needs no more
            self._store.rm_file(probe)

    def recover(self, name: str, release_id: str) -> Published | None:
        place = self._place(name, release_id)
        with storing(place, PublishError, "reading"):
            content = self._read(f"{place}/{MANIFEST}")
            if content is None:
                return None
            manifest = self._checked(place, content)
            if self._latest_is_older_than(manifest):
                self._point_latest_at(manifest)
            if release_id.encode() not in (self._read(f"{self._root}/{INDEX}") or b""):
                self._keep_catalogue()
        return self._published(manifest, content)

    def publish(self, release: PreparedRelease) -> Published:
        manifest = release.manifest
        place = self._place(manifest.name, manifest.release_id)
        if (published := self.recover(manifest.name, manifest.release_id)) is not None:
            return published
        with storing(place, PublishError, "writing"):
            attempt = uuid.uuid4().hex[:12]
            files = [self._put(place, f"{attempt}/{path}", content) for path, content in _papers(release)]
            for name, rows in release.tables.items():
                files += self._rows(place, attempt, rows, f"data/{name}" if name else "data")
            fault_point("publish_staged")
            manifest = manifest.model_copy(update={"files": tuple(files)})
            text = json.dumps(manifest.model_dump(mode="json"), indent=2, ensure_ascii=False) + "\n"
            if (envelope := attest(manifest, text, release.key)) is not None:
                # Beside its attempt's files and not beside the manifest: of two attempts one manifest stays, and
                # the envelope that is found from it must be its own.
                self._store.pipe_file(f"{place}/{attempt}/{ENVELOPE}", envelope.encode())
            content = text.encode()
            self._store.pipe_file(f"{place}/{MANIFEST}", content)
            fault_point("publish_before_pointer")
            self._point_latest_at(manifest)
            self._keep_catalogue()
        return self._published(manifest, content)

    def part_place(self, name: str, release_id: str, key: str) -> StoreOfParts:
        """Beside the attempts, under a name that the next attempt finds: it would write the same bytes."""
        return StoreOfParts(self.uri, f"{self._place(name, release_id)}/{key[:12]}/data")

    def _keep_catalogue(self) -> None:
        """<root>/index.html, by one put. The release is published whatever becomes of it."""
        with suppress(Exception):
            if ours(self._read(f"{self._root}/{INDEX}")):
                self._store.pipe_file(f"{self._root}/{INDEX}", catalogue_page(self._listed()).encode())

    def _listed(self) -> Iterator[Listed]:
        """The newest releases of each name, by their manifests; data is not listed, however much of it there is."""
        for folder in self._folders(self._root):
            name, shown = folder.rsplit("/", 1)[1], self._shown(folder)
            for place in sorted(self._folders(folder), reverse=True)[:MOST_READ]:
                content = self._read(f"{place}/{MANIFEST}")
                if content is None:
                    continue
                with suppress(PublishError):
                    manifest = _parsed(content, place)
                    card = f"{name}/{manifest.release_id}/{_card_of(manifest)}"
                    retired = bool(self._store.exists(f"{place}/{RETIRED}"))
                    yield Listed(manifest, card, manifest.release_id == shown, retired)

    def _folders(self, path: str) -> list[str]:
        found = self._store.ls(path, detail=True)
        return [str(one["name"]).rstrip("/") for one in found if one["type"] == "directory"]

    def _rows(self, place: str, attempt: str, rows: Parts, into: str) -> list[PublishedFile]:
        if isinstance(rows, KeptParts) and isinstance(rows.place, StoreOfParts):
            folder = rows.place.folder.removeprefix(f"{place}/")
            return [
                PublishedFile(path=f"{folder}/{part_name(number)}", sha256=file.sha256, bytes=file.size)
                for number, file in enumerate(rows.files)
            ]
        slices = (part.slice(start, ROWS_A_FILE) for part in rows for start in range(0, max(1, len(part)), ROWS_A_FILE))
        return [self._put(place, f"{attempt}/{into}/{part_name(i)}", packed(piece)) for i, piece in enumerate(slices)]

    def newest(self, name: str) -> tuple[Manifest, ...]:
        """The release that the pointer names: one look, however many releases there are."""
        folder = f"{self._root}/{self._plain(name)}"
        with storing(folder, PublishError, "reading"):
            pointer = self._read(f"{folder}/{LATEST}")
            try:
                shown = self._plain(str(json.loads(pointer)["release_id"])) if pointer is not None else None
                content = None if shown is None else self._read(f"{folder}/{shown}/{MANIFEST}")
                return () if content is None else (_parsed(content, folder),)
            except (ValueError, KeyError, TypeError, PublishError):
                return ()

    def releases(self, name: str) -> list[Manifest]:
        """Every whole release of that name, oldest first."""
        folder = f"{self._root}/{self._plain(name)}"
        with storing(folder, PublishError, "reading"):
            paths = [path for path in self._store.find(folder) if path.endswith(f"/{MANIFEST}")]
            found = [_parsed(self._store.cat_file(path), path) for path in paths]
        return sorted(found, key=lambda manifest: manifest.created_at)

    def retire_old(self, name: str, keep: int) -> list[str]:
        old = [m for m in self.releases(name)[:-keep] if self.retired(name, m.release_id) is None]
        for manifest in old:
            self.retire(manifest)
        if old:
            self._keep_catalogue()
        return [manifest.release_id for manifest in old]

    def retire(self, manifest: Manifest) -> None:
        """Remove a release's rows, and what dead attempts at it left; manifest, card and what was measured stay."""
        place = self._place(manifest.name, manifest.release_id)
        kept = {MANIFEST, _envelope_of(manifest), *(f.path for f in manifest.files if not holds_rows(f.path))}
        with storing(place, PublishError, "removing"):
            self._store.pipe_file(f"{place}/{RETIRED}", b'{"retired": true}\n')
            found = self._store.find(place)
            gone = [path for path in found if path not in {f"{place}/{one}" for one in (*kept, RETIRED)}]
            if gone:
                self._store.rm(gone)

    def retired_release(self, name: str, release_id: str) -> Published | None:
        manifest = self.retired(name, release_id)
        if manifest is None:
            return None
        with storing(self._root, PublishError, "reading"):
            content = self._read(f"{self._place(name, release_id)}/{MANIFEST}") or b""
        where = f"{self.uri}/{name}/{release_id} (retired)"
        return Published(manifest, where, "", hashlib.sha256(content).hexdigest())

    def retired(self, name: str, release_id: str) -> Manifest | None:
        place = self._place(name, release_id)
        with storing(place, PublishError, "reading"):
            if self._read(f"{place}/{RETIRED}") is None:
                return None
            content = self._read(f"{place}/{MANIFEST}")
        return None if content is None else _parsed(content, place)

    def stored_as(self, name: str, release_id: str | None) -> StoredRelease | None:
        """The release as it lies there, or the one that the pointer names, or None."""
        folder = f"{self._root}/{self._plain(name)}"
        with storing(folder, PublishError, "reading"):
            shown = self._shown(folder)
            directory = release_id or shown or ""
            if not directory or (text := self._read(f"{self._place(name, directory)}/{MANIFEST}")) is None:
                return None
            place = self._place(name, directory)
            manifest = parsed(text, f"{self.uri}/{name}/{directory}/{MANIFEST}")
            envelope = self._read(f"{place}/{_envelope_of(manifest)}")
            listed = {MANIFEST, RETIRED, _envelope_of(manifest), *(file.path for file in manifest.files)}
            others = [path.removeprefix(f"{place}/") for path in self._store.find(place)]
            more = [path for path in others if path not in listed]
            own = ATTEMPT.match(_envelope_of(manifest))
            left = [path for path in more if (at := ATTEMPT.match(path)) and own and at.group() != own.group()]
            return StoredRelease(
                manifest,
                text,
                None if envelope is None else envelope.decode(errors="replace"),
                {file.path: self._hash(place, file.path) for file in manifest.files},
                tuple(path for path in more if path not in left),
                retired=RETIRED in others,
                directory=directory,
                dated=dict(dated(self._manifests(folder))),
                shown=shown,
                leftovers=len(left),
                content=lambda path: self._content(place, path),
            )

    def _manifests(self, folder: str) -> Iterator[tuple[str, bytes | None]]:
        for path in self._store.find(folder):
            where = path.removeprefix(f"{folder}/").split("/")
            if len(where) == 2 and where[1] == MANIFEST:
                yield where[0], self._read(path)

    def _shown(self, folder: str) -> str | None:
        content = self._read(f"{folder}/{LATEST}")
        if content is None:
            return None
        try:
            return self._plain(str(json.loads(content)["release_id"]))
        except (ValueError, KeyError, TypeError, PublishError):
            return ""

    def _hash(self, place: str, path: str) -> str | None:
        inside = all(part not in ("", ".", "..") for part in path.split("/"))
        content = self._read(f"{place}/{path}") if inside else None
        return None if content is None else hashlib.sha256(content).hexdigest()

    def _content(self, place: str, path: str) -> bytes | None:
        with storing(place, PublishError, "reading"):
            return self._read(f"{place}/{path}")

    def _put(self, place: str, path: str, content: bytes) -> PublishedFile:
        self._store.pipe_file(f"{place}/{path}", content)
        return PublishedFile(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))

    def _checked(self, place: str, content: bytes) -> Manifest:
        manifest = _parsed(content, place)
        for file in manifest.files:
            found = self._read(f"{place}/{file.path}")
            if found is None or hashlib.sha256(found).hexdigest() != file.sha256:
                raise PublishError(
                    f"{place}/{file.path} is missing or was changed after publication",
                    "remove the release and release again: it is free",
                )
        return manifest

    def _latest_is_older_than(self, manifest: Manifest) -> bool:
        """Repeating the release of an old snapshot must not turn the pointer back."""
        content = self._read(f"{self._root}/{self._plain(manifest.name)}/{LATEST}")
        if content is None:
            return True
        try:
            return str(json.loads(content)["created_at"]) < manifest.created_at
        except (ValueError, KeyError, TypeError):
            return True

    def _point_latest_at(self, manifest: Manifest) -> None:
        pointer = {
            "release_id": manifest.release_id,
            "manifest": f"{manifest.release_id}/{MANIFEST}",
            "created_at": manifest.created_at,
            "snapshot": manifest.snapshot,
        }
        path = f"{self._root}/{self._plain(manifest.name)}/{LATEST}"
        self._store.pipe_file(path, (json.dumps(pointer, indent=2) + "\n").encode())

    def _read(self, path: str) -> bytes | None:
        try:
            return bytes(self._store.cat_file(path))
        except FileNotFoundError:
            return None

    def _place(self, name: str, release_id: str) -> str:
        return f"{self._root}/{self._plain(name)}/{self._plain(release_id)}"

    def _plain(self, name: str) -> str:
        if not _PLAIN.fullmatch(name) or ".." in name:
            raise PublishError("the release would leave its directory", "use plain names without path separators")
        return name

    def _published(self, manifest: Manifest, content: bytes) -> Published:
        place = f"{self.uri}/{manifest.name}/{manifest.release_id}"
        return Published(manifest, place, f"{place}/{_card_of(manifest)}", hashlib.sha256(content).hexdigest())


def _card_of(manifest: Manifest) -> str:
    return next((file.path for file in manifest.files if file.path.endswith("card.html")), "card.html")


def _envelope_of(manifest: Manifest) -> str:
    """Where the envelope of that manifest lies: with the files of the attempt that wrote both."""
    attempt = next((found.group() for file in manifest.files if (found := ATTEMPT.match(file.path))), "")
    return f"{attempt}{ENVELOPE}"


def _papers(release: PreparedRelease) -> Iterator[tuple[str, bytes]]:
    """What goes with the rows. The card comes first: where it lies, the envelope does."""
    yield "card.html", release.card.encode()
    for file in release.measured:
        yield file.path, file.content


def _parsed(content: bytes, place: str) -> Manifest:
    try:
        return Manifest.model_validate(json.loads(content))
    except (ValueError, ValidationError):
        raise PublishError(f"{place} holds no readable manifest", "remove it and release again: it is free") from None
