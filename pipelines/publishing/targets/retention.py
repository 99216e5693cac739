"""Retention: the data of old releases is removed; what was promised about them stays.

`publish.keep: 12` keeps the data of the twelve newest releases of a name. An older one keeps manifest and card, so that
its guarantee can still be looked up and recertified, and loses its rows. The newest release is never retired, nor is
the one that `latest` shows. A table in a database holds the newest release only, so there is nothing to retire.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from pathlib import Path

from understudy.pipelines.canonical import sha256_file
from understudy.pipelines.errors import PublishError
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.stored import LATEST, MANIFEST, RETIRED
from understudy.pipelines.publishing.targets.base import Published, Target
from understudy.pipelines.publishing.targets.directory import CARD, DirectoryTarget
from understudy.pipelines.publishing.targets.object_store import ObjectStoreTarget


def retire_old(target: Target, name: str, keep: int | None) -> list[str]:
    """The ids of the releases whose data this call removed."""
    if keep is None:
        return []
    if isinstance(target, ObjectStoreTarget):
        old = [m for m in target.releases(name)[:-keep] if target.retired(name, m.release_id) is None]
        for manifest in old:
            target.retire(manifest)
        return [manifest.release_id for manifest in old]
    if not isinstance(target, DirectoryTarget):
        return []
    folder = target.root / name
    shown = os.readlink(folder / LATEST) if (folder / LATEST).is_symlink() else ""
    places = [path.parent for path in folder.glob(f"*/{MANIFEST}") if not path.parent.is_symlink()]
    dated = sorted((_manifest(place).created_at, place) for place in places)
    gone = [p for _, p in dated[:-keep] if p.name != shown and not (p / RETIRED).exists()]
    for place in gone:
        _retire(place)
    return [place.name for place in gone]


def retired_release(target: Target, name: str, release_id: str) -> Published | None:
    """A release that was published and whose data was removed since: releasing it again must not bring it back."""
    if isinstance(target, ObjectStoreTarget):
        return target.retired_release(name, release_id)
    if not isinstance(target, DirectoryTarget):
        return None
    place = target.root / name / release_id
    if not (place / RETIRED).is_file():
        return None
    return Published(_manifest(place), f"{place} (retired)", str(place / CARD), sha256_file(place / MANIFEST))


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
