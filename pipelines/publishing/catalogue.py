"""The catalogue: a page that lists the releases of a place, kept by whoever publishes there.

It lies beside the releases as `index.html` and is part of none: nothing signs it or hashes it, nothing reads it, and it
can be made again from the manifests. A page of that name that Understudy did not write is never replaced.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from urllib.parse import quote

from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.staging import flush, own_staging, remove_abandoned
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.card.first_screen import KINDS
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.pages.page import Html, Section, code, mark, named, page, paragraph, table
from understudy.pipelines.publishing.stored import LATEST, MANIFEST, RETIRED, parsed

INDEX = "index.html"
MARK = "This list is part of no release"
MOST_LISTED = 500
TRIES = 3


@dataclass(frozen=True)
class Listed:
    """A release, where its card is, and whether it is the one that readers are led to or has lost its rows."""

    manifest: Manifest
    card: str | None
    latest: bool = False
    retired: bool = False


def catalogue_page(releases: Iterable[Listed], title: str = "Releases") -> str:
    """By name; of each, the newest first."""
    by_name: dict[str, list[Listed]] = {}
    for one in sorted(releases, key=lambda each: each.manifest.created_at, reverse=True):
        by_name.setdefault(one.manifest.name, []).append(one)
    many = sum(len(found) for found in by_name.values())
    lead = paragraph(
        "Synthetic copies, each with its guarantee and with what it is good for. Open a card before you use one; "
        "understudy verify checks a release whole."
    )
    if not by_name:
        lead = paragraph("Nothing was published here yet.")
    return page(
        title,
        Html(f"{len(by_name):,} {'name' if len(by_name) == 1 else 'names'}, {many:,} releases"),
        (),
        lead,
        [_section(name, by_name[name]) for name in sorted(by_name)],
        f"{MARK} and signed by nobody: what counts is in each release's manifest. Made by Understudy; it loads nothing "
        "and sends nothing.",
    )


def _section(name: str, releases: Sequence[Listed]) -> Section:
    heads = ("release", "snapshot", "published", "rows", "verdict", "guarantee", "state", "card")
    rows = (_row(one) for one in releases[:MOST_LISTED])
    more = f"The newest {MOST_LISTED} of {len(releases):,}." if len(releases) > MOST_LISTED else ""
    return Section(name, table(heads, rows, f"releases of {name}", sortable=True), more)


def _row(one: Listed) -> tuple[str, ...]:
    manifest, guarantee = one.manifest, one.manifest.guarantee
    verdict = manifest.verdict.grade if manifest.verdict is not None else ""
    state = mark("latest", "yes") if one.latest else "rows removed" if one.retired else "earlier"
    linked = "no card" if one.card is None else Html(f'<a href="{escape(quote(one.card))}">{_called(manifest)}</a>')
    return (
        code(manifest.release_id),
        named(manifest.snapshot),
        manifest.created_at[:16].replace("T", " "),
        f"{manifest.rows:,}",
        mark(verdict, KINDS.get(verdict, "")) if verdict else "not given",
        Html(
            f"epsilon {at_most(guarantee.epsilon, 3)}, delta {at_most(guarantee.delta, 2)}, for {named(guarantee.unit)}"
        ),
        state,
        linked,
    )


def _called(manifest: Manifest) -> str:
    """A link's text says where it leads, also where it is read alone."""
    return f'card<span class="unseen"> of {escape(manifest.name)}, {escape(manifest.release_id)}</span>'


def listed_in(root: Path) -> list[Listed]:
    """The releases of a directory of releases. What cannot be read is not listed; links are not followed."""
    places = sorted(path.parent for path in root.glob(f"*/*/{MANIFEST}"))
    return [one for place in places if (one := _listed(place)) is not None]


def release_in(root: Path, name: str, release_id: str) -> Listed | None:
    """That release, found by its name among those that are there: a name is never made part of a path."""
    for folder in (path for path in root.glob("*") if path.name == name):
        for place in (path for path in folder.glob("*") if path.name == release_id):
            return _listed(place)
    return None


def _listed(place: Path) -> Listed | None:
    if place.is_symlink() or place.parent.is_symlink() or place.name.startswith("."):
        return None
    with suppress(Exception):
        manifest = parsed((place / MANIFEST).read_bytes(), str(place))
        if (manifest.name, manifest.release_id) == (place.parent.name, place.name):
            shown = place.parent / LATEST
            latest = shown.is_symlink() and os.readlink(shown) == place.name
            card = f"{place.parent.name}/{place.name}/card.html" if (place / "card.html").is_file() else None
            return Listed(manifest, card, latest, (place / RETIRED).exists())
    return None


def keep_catalogue(root: Path) -> None:
    """Written aside and renamed: a reader sees the old list or the new one. Of two who write at once, the last one
    looks again until it has listed what is there. The release is published whatever becomes of the list."""
    shown, before = root / INDEX, ""
    with suppress(OSError):
        remove_abandoned(root)
        for _ in range(TRIES):
            text = catalogue_page(listed_in(root))
            if text == before or not _is_ours(shown):
                return
            before = text
            with own_staging(root) as staging:
                (staging / INDEX).write_text(text, encoding="utf-8")
                flush(staging / INDEX)
                fault_point("catalogue_staged")
                (staging / INDEX).replace(shown)
                staging.rmdir()


def names_release(page_: Path, release_id: str) -> bool:
    """Whether the list has it already, so that repeating a release writes nothing."""
    with suppress(OSError):
        return release_id in page_.read_text(encoding="utf-8", errors="replace")
    return False


def ours(content: bytes | None) -> bool:
    """Or not there yet."""
    return content is None or MARK.encode() in content


def _is_ours(page_: Path) -> bool:
    try:
        return ours(page_.read_bytes())
    except FileNotFoundError:
        return not page_.is_symlink()
