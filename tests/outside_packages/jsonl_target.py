"""Releases as JSON Lines, a file each: `publish.to: jsonl:///releases`. A target of Understudy in one file.

The first line of `<folder>/<name>/<release id>.jsonl` holds the manifest, as text, and its signature; the others are
the rows. A file appears whole, by a rename, so there is no pointer: readers take the newest.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.attesting import attest
from understudy.pipelines.publishing.manifest import Manifest, PublishedFile
from understudy.pipelines.publishing.stored import StoredRelease, dated, parsed
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, TargetBase
from understudy.pipelines.spec.address import Address, Terms
from understudy.pipelines.spec.handling import PublishSpec


class JsonLinesTarget(TargetBase):
    terms = Terms(local=True)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def opened(cls, publish: PublishSpec, base: Path) -> JsonLinesTarget:
        return cls(publish.address.path(base) or base)

    @classmethod
    def stored(cls, address: Address) -> StoredRelease | None:
        path = address.path(Path())
        if path is None or not path.is_file():
            return None
        head, rows = _read(path)
        manifest = parsed(head["manifest"], str(path))
        hashes = {file.path: sha256(rows).hexdigest() for file in manifest.files}
        beside = {other.stem: _read(other)[0]["manifest"] for other in path.parent.glob("*.jsonl")}
        return StoredRelease(
            manifest, head["manifest"].encode(), head["envelope"], hashes, directory=path.stem,
            dated=dict(dated(beside.items())),
        )  # fmt: skip

    def ready(self, name: str) -> None:
        try:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PublishError(f"{self.folder} cannot be written: {error.strerror}", "correct publish.to") from None

    def recover(self, name: str, release_id: str) -> Published | None:
        path = self.folder / name / f"{release_id}.jsonl"
        if not path.exists():
            return None
        head, rows = _read(path)
        try:
            manifest = Manifest.model_validate_json(head["manifest"])
            intact = [file.sha256 for file in manifest.files] == [sha256(rows).hexdigest()]
        except (ValueError, KeyError):
            intact = False
        if not intact:
            raise PublishError(f"{path} was changed after publication, or is not ours", "move it away")
        return self._published(path, manifest, head["manifest"])

    def publish(self, release: PreparedRelease) -> Published:
        name, release_id = release.manifest.name, release.manifest.release_id
        if (found := self.recover(name, release_id)) is not None:
            return found
        self.ready(name)
        rows = b"".join(json.dumps(row, default=str).encode() + b"\n" for row in release.table.to_pylist())
        file = PublishedFile(path="rows", sha256=sha256(rows).hexdigest(), bytes=len(rows))
        manifest = release.manifest.model_copy(update={"files": (file,)})
        text = manifest.model_dump_json()
        head = {"manifest": text, "envelope": attest(manifest, text, release.key), "card": release.card}
        path = self.folder / name / f"{release_id}.jsonl"
        staged = path.with_suffix(f".{os.getpid()}")
        staged.write_bytes(json.dumps(head).encode() + b"\n" + rows)
        staged.replace(path)
        return self._published(path, manifest, text)

    def newest(self, name: str) -> tuple[Manifest, ...]:
        found = sorted((self.folder / name).glob("*.jsonl"))
        return tuple(Manifest.model_validate_json(_read(path)[0]["manifest"]) for path in found)

    def _published(self, path: Path, manifest: Manifest, text: str) -> Published:
        return Published(manifest, str(path), f"{path}, first line", sha256(text.encode()).hexdigest())


def _read(path: Path) -> tuple[dict[str, str], bytes]:
    head, _, rows = path.read_bytes().partition(b"\n")
    try:
        return dict(json.loads(head)), rows
    except ValueError:
        return {"manifest": "", "envelope": ""}, rows
