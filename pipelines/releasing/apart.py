"""A release is never written where its source is read, nor the source kept where releases are published.

A folder that is both counts its own synthetic rows in the next release, and a published folder that holds the private
table hands it out. So neither may lie inside the other: symbolic links are followed, also those inside the source's
folder, and folders that two names lead to (mounts, letter case) are one folder. A table of the same database is another
matter: there, a table that Understudy did not publish is never replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.targets.base import target_kind, target_place
from understudy.pipelines.sources.opening import kind_of, place_of
from understudy.pipelines.spec.address import is_in
from understudy.pipelines.spec.model import ReleaseSpec


def require_apart(spec: ReleaseSpec, base: Path) -> None:
    """Raise SpecError before anything is read, if source and target share a place; of several tables, any of them."""
    for alone in spec.alone.values():
        _require_one_apart(alone, base)


def _require_one_apart(spec: ReleaseSpec, base: Path) -> None:
    kinds = kind_of(spec.source.address), target_kind(spec.publish.address)
    if all(kind is not None and kind.terms.table for kind in kinds):
        return
    source, target = place_of(spec.source.address, base), target_place(spec.publish.address, base)
    if source is None and target is None:
        stored, published = spec.source.address.folders, spec.publish.address.folders
        if _begins(published, stored):
            raise _inside("publish.to", "source.uri")
        if _begins(stored, published):
            raise _inside("source.uri", "publish.to")
    if source is None or target is None:
        return
    if any(is_in(target, place) for place in (source, *_linked_from(source))):
        raise _inside("publish.to", "source.uri")
    if any(is_in(place, target) for place in (source, *_linked_from(source))):
        raise _inside("source.uri", "publish.to")


def _inside(inner: str, outer: str) -> SpecError:
    return SpecError(
        f"{inner} lies inside {outer}: a release would be counted as private rows by the next one, or the private "
        "table be handed out with the releases",
        "publish to a folder that is neither inside the source nor around it; nothing was read or charged",
    )


def _begins(longer: tuple[str, ...], shorter: tuple[str, ...]) -> bool:
    return longer[: len(shorter)] == shorter


def _linked_from(folder: Path) -> Iterator[Path]:
    """Where symbolic links inside a source's folder lead."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = Path(place, name)
            if entry.is_symlink():
                yield entry.resolve()
